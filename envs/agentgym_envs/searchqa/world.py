"""SearchQA: answer a question from what a search finds. Knows no HTTP and no search engine. Differences from upstream: table in README.md."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from agentgym_envs.protocol import JSON, Start, Step, WorldError
from agentgym_envs.searchqa.passages import DataError, Passage, Search
from agentgym_envs.searchqa.questions import Question, Questions
from agentgym_envs.searchqa.scoring import exact_match, f1
from agentgym_envs.searchqa.tags import Answer, read

logger = logging.getLogger(__name__)

FOUND = 3
"""Passages that a search shows, as upstream."""
MOST_ACTION_CHARACTERS = 100_000
"""A longer response is not read."""
MOST_PASSAGE_CHARACTERS = 4_000
"""Of a longer passage, the beginning is shown."""
INVALID = "Your previous action is invalid. Search with <search>words</search>, or answer with <answer>the answer</answer>."
TOO_LONG = f"Your previous action is invalid: it is longer than {MOST_ACTION_CHARACTERS} characters."
RIGHT = "Congratulations! Your answer is correct."
WRONG = "Sorry, your answer is incorrect."
WRONG_BUT = "Sorry, your answer is incorrect. Please try again."
NOTHING = "<information>\nNothing was found. Search with other words.\n</information>"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchQA:
    """The world: questions, a search, and whether a wrong answer ends a task."""

    questions: Questions
    search: Search
    corpus: str
    """Digest of what is searched."""
    unlimited_guesses: bool = False
    """A wrong answer does not end the task, as upstream."""
    blocking: bool = False
    name: str = "searchqa"
    wire: str = "searchqa"
    greeting: str = "ok"

    @property
    def task_count(self) -> int:
        """Tasks are numbered from 0 to ``task_count - 1``."""
        return len(self.questions.all)

    def open(self) -> SearchSession:
        """A session that has not been reset yet."""
        return SearchSession(self)

    def close(self) -> None:
        """Nothing is held but what the process frees."""


@dataclass(slots=True)
class SearchSession:
    """One question and whether it was answered."""

    world: SearchQA
    _question: Question | None = None
    _done: bool = False

    def reset(self, index: int) -> Start:
        """Start task ``index``."""
        if not 0 <= index < self.world.task_count:
            raise WorldError(f"The id {str(index)[:40]} is out of range: expected 0 to {self.world.task_count - 1}.")
        self._question, self._done = self.world.questions.all[index], False
        return Start(prompt(self._question, unlimited_guesses=self.world.unlimited_guesses))

    def step(self, action: str) -> Step:
        """Execute what the first complete tag of a response asks for."""
        question = self._asked()
        if self._done:
            raise WorldError("The task has finished. Reset the session to start a task.")
        if len(action) > MOST_ACTION_CHARACTERS:
            return Step(TOO_LONG, 0.0, False)
        wanted = read(action)
        if wanted is None:
            return Step(INVALID, 0.0, False)
        return self._answered(question, wanted.text) if isinstance(wanted, Answer) else Step(self._found(wanted.query), 0.0, False)

    def look(self, name: str) -> JSON:
        """``goal``: the question; ``metadata``: what a result on the task depends on."""
        question = self._asked()
        if name == "goal":
            return question.text
        if name != "metadata":
            raise WorldError(f"There is nothing called {name!r} to look at.")
        return {
            "id": question.id,
            "category": question.category,
            "questions": self.world.questions.digest,
            "corpus": self.world.corpus,
            "unlimited_guesses": self.world.unlimited_guesses,
        }

    def oracle(self) -> tuple[str, ...]:
        """The searches that the question's file names, or else the question, and the answer."""
        question = self._asked()
        searches = question.searches or (question.text,)
        return (*(f"<search>{query}</search>" for query in searches), f"<answer>{question.answers[0]}</answer>")

    def verify(self) -> bool:
        """There is none: the reward is the comparison with the answers."""
        raise WorldError("This world has no verifier beside the reward.")

    def close(self) -> None:
        """Nothing is held."""

    def _asked(self) -> Question:
        if self._question is None:
            raise WorldError("The session has no task. Reset it to start one.")
        return self._question

    def _answered(self, question: Question, text: str) -> Step:
        right = exact_match(text, question.answers)
        scores: dict[str, JSON] = {"exact_match": float(right), "f1": f1(text, question.answers)}
        if right:
            self._done = True
            return Step(RIGHT, 1.0, True, {"info": scores})
        self._done = not self.world.unlimited_guesses
        return Step(WRONG if self._done else WRONG_BUT, 0.0, self._done, {"info": scores})

    def _found(self, query: str) -> str:
        try:
            passages = self.world.search.find(query, FOUND)
        except DataError as err:
            logger.error("search failed: %s", err)
            raise WorldError("The search failed: the index is damaged.") from err
        if not passages:
            return NOTHING
        listed = "\n".join(_shown(place, passage) for place, passage in enumerate(passages, start=1))
        return f"<information>\n{listed}\n</information>"


def prompt(question: Question, *, unlimited_guesses: bool = False) -> str:
    """What a task starts with; the digest of it tells whether answers are unlimited."""
    return f"Question: {question.text}\n" + ("A wrong answer does not end the task." if unlimited_guesses else "You may answer once.")


def _shown(place: int, passage: Passage) -> str:
    text = passage.text if len(passage.text) <= MOST_PASSAGE_CHARACTERS else f"{passage.text[:MOST_PASSAGE_CHARACTERS]} ..."
    return f"Doc {place} (Title: {passage.title}) {text}"
