"""What a response asks for: a search or an answer, read from its tags in time that grows with its length and no faster."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Search:
    """Look for passages."""

    query: str


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer the question."""

    text: str


def read(response: str) -> Search | Answer | None:
    """The search or answer whose tag opens first; of several answers the last one counts. None where no tag is opened and closed."""
    search, answer = _first(response, "search"), _first(response, "answer")
    if answer is not None and (search is None or answer[0] < search[0]):
        return Answer(_last_answer(response, answer))
    return None if search is None else Search(response[search[0] : search[1]])


def _first(text: str, tag: str, start: int = 0) -> tuple[int, int] | None:
    """Where the content of the first ``<tag>`` from ``start`` on begins and ends; when that one is never closed, none after it is."""
    opened = text.find(f"<{tag}>", start)
    if opened < 0:
        return None
    begin = opened + len(tag) + 2
    end = text.find(f"</{tag}>", begin)
    return None if end < 0 else (begin, end)


def _last_answer(text: str, first: tuple[int, int]) -> str:
    last = first
    while (found := _first(text, "answer", last[1])) is not None:
        last = found
    return text[last[0] : last[1]].strip()
