"""What every page has around it: the head, the way here, how old the figures are. And the small pieces that pages are made of."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Protocol, TypeVar, cast

from agentgym_cli.report.blocks import Section
from agentgym_cli.report.html import section_html
from agentgym_cli.report.html_text import Child, Html, element, joined
from agentgym_cli.store.rows import RunRow
from agentgym_cli.store.snapshot import Reading
from agentgym_cli.view.address import LONGEST, Query, link
from agentgym_cli.view.foreign import one_line
from agentgym_cli.view.requests import Answer

T = TypeVar("T")
Crumb = tuple[str, str | None]
"""What a step of the way here is called, and its address; None for where one is."""


class TokenReader(Protocol):
    """Reads tokens with a run's own tokenizer."""

    def texts(self, run: RunRow, token_ids: Sequence[int]) -> tuple[Sequence[str], frozenset[int]]:
        """The text of every token, and which ids end an action. Raises AgentgymError where the run's tokenizer is not here."""

    def differing(self, run: RunRow, token_ids: Sequence[int]) -> Sequence[bool]:
        """Which tokens of a whole trajectory are not in the encoding of its own text. Raises as ``texts`` does."""


@dataclass(slots=True)
class Kept:
    """Answers that were worked out before, the least used given up first. For several threads."""

    most: int = 64_000_000
    """Bytes, as their makers estimate them."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _found: OrderedDict[Hashable, tuple[object, int, str | None]] = field(default_factory=OrderedDict)
    _bytes: int = 0

    def get(self, key: Hashable, make: Callable[[], T], size: Callable[[T], int], *, stamp: str | None = None) -> T:
        """The answer under ``key``, made where there is none; a key stands for answers of one type.

        Args:
            size: estimates the bytes of an answer; one that is larger than all that may be kept is not.
            stamp: of the store that the answer is true of; a newer one ends it. None where its key holds all that it depends on.
        """
        with self._lock:
            if key in self._found and self._found[key][2] == stamp:
                self._found.move_to_end(key)
                return cast(T, self._found[key][0])
        made = make()
        with self._lock:
            stale = [other for other, (_, _, its) in self._found.items() if other == key or (stamp is not None and its not in (None, stamp))]
            for other in stale:
                self._bytes -= self._found.pop(other)[1]
            if (taken := size(made)) <= self.most:
                self._found[key], self._bytes = (made, taken, stamp), self._bytes + taken
            while self._bytes > self.most:
                self._bytes -= self._found.popitem(last=False)[1][1]
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request for a page, and what it may look at."""

    root: str
    """What every address begins with."""
    query: Query
    reading: Reading
    runs_dir: Path
    tokens: TokenReader
    kept: Kept

    def link(self, page: str, words: Mapping[str, object] | None = None, fragment: str = "") -> str:
        """An address of this server."""
        return link(self.root, page, words, fragment)


def framed(asked: Asked, title: str, way: Sequence[Crumb], main: Iterable[Child], *, live: bool = False, wide: bool = False) -> Answer:
    """A whole page; ``live`` ones are fetched again when the store has changed."""
    head = element(
        "head",
        element("meta", attributes={"charset": "utf-8"}),
        element("meta", attributes={"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        element("meta", attributes={"name": "color-scheme", "content": "light dark"}),
        element("title", f"{title} - agentgym"),
        element("link", attributes={"rel": "icon", "href": asked.link("static/viewer.png")}),
        element("link", attributes={"rel": "stylesheet", "href": asked.link("static/viewer.css")}),
        element("script", attributes={"src": asked.link("static/viewer.js"), "defer": ""}),
    )
    steps = [element("li", _crumb(*crumb)) for crumb in (("Runs", asked.link("")), *way)]
    nav = element("nav", element("ol", *steps), attributes={"aria-label": "Way here"})
    top = element("header", nav, _standing(asked), attributes={"class": "top"})
    skip = element("a", "Skip to content", attributes={"href": "#main", "class": "skip"})
    body = element(
        "body", skip, top, element("main", *main, attributes={"id": "main", "tabindex": "-1"}), _keys(), attributes=_data(asked, live, wide)
    )
    return Answer(body=("<!doctype html>\n" + element("html", head, body, attributes={"lang": "en"}).text + "\n").encode())


def _data(asked: Asked, live: bool, wide: bool) -> dict[str, object]:
    found: dict[str, object] = {"data-root": asked.root, "data-stamp": asked.reading.stamp}
    return found | ({"data-live": ""} if live else {}) | ({"class": "wide"} if wide else {})


def _crumb(name: str, address: str | None) -> Html:
    shown = one_line(name, 60)
    return element("span", shown, attributes={"aria-current": "page"}) if address is None else element("a", shown, attributes={"href": address})


def standing_words(reading: Reading) -> str:
    """How old a copy is, and why it is not newer."""
    words = "the store as it is now" if reading.age < 1 else f"the store as it was {reading.age:.0f} s ago"
    return words + (f"; not newer because {reading.trouble}" if reading.trouble else "")


def _standing(asked: Asked) -> Html:
    return element("p", standing_words(asked.reading), attributes={"class": "standing", "id": "standing", "role": "status"})


_HELP = (
    ("j k", "next and previous turn, or line of a list"),
    ("n p", "next and previous episode, or page of a list"),
    ("f F", "next and previous failure, or task that was lost"),
    ("Enter", "open the marked line"),
    ("r", "replay turn by turn; space plays and stops"),
    ("/", "go to the text filter"),
    ("?", "show or hide these keys"),
)


def _keys() -> Html:
    rows = [child for keys, what in _HELP for child in (element("dt", element("kbd", keys)), element("dd", what))]
    return element("aside", element("h2", "Keys"), element("dl", *rows), attributes={"id": "keys", "hidden": "", "aria-label": "Keys"})


def sections(found: Iterable[Section]) -> Html:
    """Sections of a report, as its page has them."""
    numbers = count(1)
    return joined(section_html(place, section, numbers) for place, section in enumerate(found))


def facts(pairs: Iterable[tuple[str, Child]]) -> Html:
    """Names and values."""
    return element("dl", *(child for name, value in pairs for child in (element("dt", name), element("dd", value))))


def table(
    caption: str, names: Sequence[Child], rows: Iterable[Sequence[Child]], *, attributes: Sequence[Mapping[str, object]] = (), hidden: bool = False
) -> Html:
    """A table whose first cell of each row names it; ``hidden`` keeps the caption for screen readers alone."""
    head = element("tr", *(element("th", name, attributes={"scope": "col"}) for name in names))
    body = [element("tr", *_cells(row), attributes=attributes[place] if attributes else None) for place, row in enumerate(rows)]
    said = element("caption", caption, attributes={"class": "for-readers"} if hidden else None)
    whole = element("table", said, element("thead", head), element("tbody", *body))
    return element("div", whole, attributes={"class": "scroll", "tabindex": "0", "role": "region", "aria-label": caption})


def _cells(row: Sequence[Child]) -> Iterator[Html]:
    for place, cell in enumerate(row):
        yield element("th", cell, attributes={"scope": "row"}) if place == 0 else element("td", cell)


def anchor(text: Child, address: str, **attributes: str) -> Html:
    """A link; the text alone where names in its address are longer than an address can be."""
    if len(address.partition("?")[2].partition("#")[0]) > LONGEST:
        return element("span", text, attributes={"class": "none", "title": "its name is too long for an address"})
    return element("a", text, attributes={"href": address} | attributes)


def badge(outcome: str) -> Html:
    """An outcome in its colour and in words."""
    places = {"success": 0, "failure": 1, "infra_error": 2, "missing": 3}
    return element("span", outcome.replace("_", " "), attributes={"class": f"outcome o{places.get(outcome, 3)}"})
