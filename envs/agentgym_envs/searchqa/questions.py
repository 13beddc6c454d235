"""Questions with the answers that are accepted, in JSON Lines; a question's line is its task's number. Knows no search."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from agentgym_envs.searchqa.passages import DataError, read_lines, shown, string_of
from agentgym_envs.searchqa.scoring import normalised

_NUMBER = re.compile(r"(?:searchqa_)?(-?[0-9]{1,4000})")
_FIELDS = {"id", "question", "answers", "searches", "category"}


@dataclass(frozen=True, slots=True)
class Question:
    """One task."""

    id: str
    text: str
    answers: tuple[str, ...]
    """Any of them is right."""
    searches: tuple[str, ...] = ()
    """What a person would look for, in this order; empty where nobody said so."""
    category: str = ""


@dataclass(frozen=True, slots=True)
class Questions:
    """A file of them."""

    all: tuple[Question, ...]
    digest: str
    """SHA-256 of the file, as 64 hex digits."""


def read_questions(path: Path) -> Questions:
    """The questions of a file.

    A line has question and answers, and may have id, searches and category. An id that is a number, alone, in a string or behind ``searchqa_``,
    must be the line's own, from 0 on: tasks are numbered so, and a list made for another numbering would play other tasks. No line is empty, and no
    id stands twice.

    Raises:
        DataError: at the line that is no question, or where there is none.
        OSError: the file cannot be read.
    """
    questions = tuple(_question(value, where, number) for number, (where, value) in enumerate(read_lines(path, skip_empty=False)))
    seen: dict[str, int] = {}
    for number, question in enumerate(questions):
        if (first := seen.setdefault(question.id, number)) != number:
            raise DataError(f"{path}:{number + 1}: expected an id of its own, got {shown(question.id)}, the id of line {first + 1}")
    if not questions:
        raise DataError(f"{path}: expected a question on each line, got none")
    return Questions(questions, sha256(path.read_bytes()).hexdigest())


def _question(value: dict[str, object], where: str, number: int) -> Question:
    if unknown := sorted(set(value) - _FIELDS):
        raise DataError(f"{where}: expected only the fields {', '.join(sorted(_FIELDS))}, got {shown(unknown[0])}")
    answers = _strings(value, "answers", where)
    if not answers or not all(map(normalised, answers)):
        raise DataError(f"{where}: expected answers with a word each that is no article, got {shown(list(answers))}")
    text = string_of(value, "question", where).strip()
    if not text:
        raise DataError(f"{where}: expected a question, got {shown(value['question'])}")
    category = string_of(value, "category", where) if "category" in value else ""
    return Question(_id(value, where, number), text, answers, _strings(value, "searches", where) if "searches" in value else (), category)


def _id(value: dict[str, object], where: str, number: int) -> str:
    name = value.get("id", number)
    if isinstance(name, bool) or not isinstance(name, int | str):
        raise DataError(f"{where}: expected id to be a number or a string, got {shown(name)}")
    if (numbered := _NUMBER.fullmatch(str(name))) and int(numbered[1]) != number:
        raise DataError(
            f"{where}: expected id {number}, the place of the line counted from 0, got {shown(name)}; give other names without a number alone"
        )
    return str(name)


def _strings(value: dict[str, object], field: str, where: str) -> tuple[str, ...]:
    got = value.get(field)
    if not isinstance(got, list) or not all(isinstance(each, str) for each in got):
        raise DataError(f"{where}: expected {field} to be a list of strings, got {shown(got)}")
    return tuple(got)
