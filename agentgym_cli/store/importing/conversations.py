"""Foreign conversations to learn from: files of AgentTraj, and files of pairs. What is learned of each reply is said by the file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.wording import shown
from agentgym_cli.store.importing.rows import Row, read_rows

LONGEST_LINE = 16 << 20
"""Most characters of one line of a file of pairs."""
_TASK = re.compile(r"(?P<env>[A-Za-z][A-Za-z0-9_.-]{0,63})_(?P<number>[0-9]{1,9})")
_PAIR = ("task", "chosen", "rejected")
_HINT_PAIRS = "docs/algorithms.md says what a line of pairs looks like"


@dataclass(frozen=True, slots=True)
class Spoken:
    """What the policy was told since its last words, and its reply."""

    observation: str
    text: str
    learned: bool
    """False for a reply that stays in the context and is not learned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """One episode as it was said."""

    where: str
    """``file:line`` or a run's episode, for messages."""
    number: int
    """Of its task."""
    turns: tuple[Spoken, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationPair:
    """Two episodes of one task, the better one first."""

    chosen: Conversation
    rejected: Conversation


def agenttraj_conversations(file: Path, env: str) -> Iterator[Conversation]:
    """Conversations of a file of AgentTraj, a reply being learned where its ``loss`` is true.

    The instructions and the canned answer before the first observation are left out: the recipe has its own.

    Raises:
        RecipeError: names file:line of what is no such row, or is of another environment than ``env``.
    """
    for row in read_rows(file):
        row.only("item_id", "conversations")
        number = _number(row, row.value["item_id"], env)
        messages = row.messages("from", "value", ("loss",))
        for message in messages:
            if not isinstance(message.get("loss"), bool | None):
                raise row.wrong("loss to be true, false or null", message.get("loss"))
        spoken = [(_speaks(row, str(m["from"]), "gpt", ("human", "system")), str(m["value"]), m.get("loss") is True) for m in messages]
        given = [who for who, _, _ in spoken[:3]] == [False, True, False] and not spoken[1][2]
        turns = _turns(spoken[2:] if given else spoken)
        if not turns:
            raise row.wrong("a reply of gpt", "none")
        yield Conversation(where=f"{file}:{_line(row)}", number=number, turns=turns)


def pairs_of_file(file: Path, env: str) -> Iterator[ConversationPair]:
    """Pairs of a file with one JSON object a line. Raises RecipeError, naming file:line, also for a task of another environment."""
    for number, line in enumerate(_lines(file), start=1):
        if line.strip():
            row = Row(file, line, 0, _object(file, number, line))
            yield _pair(row, f"{file}:{number}", env)


def _pair(row: Row, where: str, env: str) -> ConversationPair:
    def wrong(expected: str, got: object) -> RecipeError:
        return RecipeError(f"{where}: expected {expected}, got {shown(got)}", _HINT_PAIRS)

    if set(row.value) != set(_PAIR):
        raise wrong("the fields task, chosen and rejected", sorted(row.value))
    task = row.value["task"]
    found = _TASK.fullmatch(task) if isinstance(task, str) else None
    if found is None or found["env"] != env:
        raise wrong(f"a task of {env} like {env}_31", task)
    sides = []
    for side in ("chosen", "rejected"):
        messages = row.value[side]
        turns = _turns(_roles(messages)) if isinstance(messages, list) else ()
        if not turns:
            raise wrong(f"{side} to be a list of {{role, content}} with a reply of the assistant", messages)
        sides.append(Conversation(where=f"{where} {side}", number=int(found["number"]), turns=turns))
    return ConversationPair(chosen=sides[0], rejected=sides[1])


def _roles(messages: Sequence[object]) -> list[tuple[bool, str, bool]]:
    """Who speaks, what, and whether it is learned; nothing where a message is no message."""
    spoken = []
    for message in messages:
        if not isinstance(message, dict) or set(message) != {"role", "content"} or message["role"] not in ("user", "assistant"):
            return []
        if not isinstance(message["content"], str):
            return []
        said = message["role"] == "assistant"
        spoken.append((said, message["content"], said))
    return spoken


def _turns(spoken: Sequence[tuple[bool, str, bool]]) -> tuple[Spoken, ...]:
    turns, heard = [], list[str]()
    for by_policy, text, learned in spoken:
        if by_policy:
            turns.append(Spoken("\n".join(heard), text, learned))
            heard = []
        else:
            heard.append(text)
    return tuple(turns)


def _speaks(row: Row, role: str, policy: str, others: tuple[str, ...]) -> bool:
    if role != policy and role not in others:
        raise row.wrong(f"who speaks to be {policy}, {' or '.join(others)}", role)
    return role == policy


def _number(row: Row, said: object, env: str) -> int:
    found = _TASK.fullmatch(said) if isinstance(said, str) else None
    if found is None:
        raise row.wrong(f"item_id to be a name and a number like {env}_31", said)
    if found["env"] != env:
        raise row.wrong(f"tasks of {env}, the environment of the recipe", said)
    return int(found["number"])


def _line(row: Row) -> int:
    return row.text.count("\n", 0, row.at) + 1


def _lines(file: Path) -> Iterator[str]:
    try:
        with file.open(encoding="utf-8") as text:
            while line := text.readline(LONGEST_LINE + 1):
                if len(line) > LONGEST_LINE:
                    raise RecipeError(f"{file}: expected lines of at most {LONGEST_LINE} characters, got a longer one", _HINT_PAIRS)
                yield line
    except OSError as err:
        raise RecipeError(f"{file}: cannot read it: {err.strerror or err}", "name a file that is there") from err
    except UnicodeDecodeError as err:
        raise RecipeError(f"{file}: expected UTF-8, got byte {err.object[err.start]:#x}", _HINT_PAIRS) from err


def _object(file: Path, number: int, line: str) -> Mapping[str, object]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as err:
        raise RecipeError(f"{file}:{number}: expected a JSON object, got {shown(line[:40])}", _HINT_PAIRS) from err
    if not isinstance(value, dict):
        raise RecipeError(f"{file}:{number}: expected a JSON object, got {shown(value)}", _HINT_PAIRS)
    return value
