"""A tiny SearchQA: two questions, and a search that knows three passages by a word of theirs."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentgym_envs.searchqa.passages import Passage
from agentgym_envs.searchqa.questions import Question, Questions
from agentgym_envs.searchqa.world import SearchQA

PASSAGES = (
    Passage("The Amber Letter", "The Amber Letter is an opera by Ilva Torsen."),
    Passage("Ilva Torsen", "Ilva Torsen was born in Korveld."),
    Passage("Korveld", "Korveld lies on the river Sorvou."),
)
QUESTIONS = Questions(
    (
        Question("0", "Who composed The Amber Letter?", ("Ilva Torsen", "Torsen")),
        Question("q1", "Where was its composer born?", ("Korveld",), ("Amber Letter", "Ilva Torsen"), "two hops"),
    ),
    digest="d" * 64,
)


@dataclass
class WordSearch:
    """Finds the passages that have the query as it stands, in their order, and remembers what was asked."""

    passages: tuple[Passage, ...] = PASSAGES
    asked: list[tuple[str, int]] = field(default_factory=list)

    def find(self, query: str, count: int) -> list[Passage]:
        self.asked.append((query, count))
        return [passage for passage in self.passages if query in f"{passage.title} {passage.text}"][:count]


def tiny_searchqa(*, search: WordSearch | None = None, unlimited_guesses: bool = False) -> SearchQA:
    """The world of the questions above."""
    return SearchQA(questions=QUESTIONS, search=search or WordSearch(), corpus="c" * 64, unlimited_guesses=unlimited_guesses)
