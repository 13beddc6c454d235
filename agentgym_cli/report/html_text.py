"""HTML by escape: every text is escaped unless it was made here. Knows no report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape

from agentgym_cli.report.text import spelled

LONGEST = 1000
"""Most characters of a foreign text in one place."""


@dataclass(frozen=True, slots=True)
class Html:
    """Text that is HTML already; only ``element`` and ``joined`` make it."""

    text: str


Child = Html | str


def element(name: str, *children: Child, attributes: Mapping[str, object] | None = None) -> Html:
    """An element; text among its children is cut and escaped, so are values of attributes, but not cut; names are the program's own."""
    given = "".join(f' {key}="{_escaped(str(value), cut=False)}"' for key, value in (attributes or {}).items())
    if name in _VOID:
        return Html(f"<{name}{given}>")
    return Html(f"<{name}{given}>{joined(children).text}</{name}>")


_VOID = frozenset({"br", "input", "link", "meta"})


def joined(children: Iterable[Child]) -> Html:
    """Children one after the other."""
    return Html("".join(child.text if isinstance(child, Html) else _escaped(child) for child in children))


def lines(text: str) -> Html:
    """Text whose line feeds are breaks."""
    parts = text.split("\n")
    return joined(child for number, part in enumerate(parts) for child in ((element("br"), part) if number else (part,)))


def _escaped(text: str, *, cut: bool = True) -> str:
    kept = text[: LONGEST - 3] + "..." if cut and len(text) > LONGEST else text
    return escape("".join(map(spelled, kept)))
