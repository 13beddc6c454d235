"""A page of sections: one HTML file that asks nothing of a network and reads without script. Knows no runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

from agentgym_cli.report import phrases
from agentgym_cli.report.blocks import Bars, Block, Code, Facts, Figure, Gaps, Grid, Line, Prose, Section
from agentgym_cli.report.html_style import POLICY, STYLE
from agentgym_cli.report.html_text import Child, Html, element, joined, lines
from agentgym_cli.report.svg import OUTCOMES, figure

LONG_TABLE = 30
"""Rows from which a table is folded away."""


def page(title: str, found: Sequence[Section], labels: Sequence[str] = ()) -> str:
    """The whole file; ``labels`` stand beside the title."""
    numbers = count(1)
    head = element(
        "head",
        element("meta", attributes={"charset": "utf-8"}),
        element("meta", attributes={"http-equiv": "Content-Security-Policy", "content": POLICY}),
        element("meta", attributes={"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        element("meta", attributes={"name": "color-scheme", "content": "light dark"}),
        element("title", title),
        element("style", Html(STYLE)),
    )
    badges = [element("span", label, attributes={"class": "badge"}) for label in labels]
    links = [element("li", element("a", section.title, attributes={"href": f"#s{place}"})) for place, section in enumerate(found)]
    nav = element("nav", element("ul", *links), attributes={"aria-label": "Sections"})
    top = element("header", element("h1", title), *([element("p", *badges)] if badges else []), nav)
    main = element("main", *(section_html(place, section, numbers) for place, section in enumerate(found)))
    return "<!doctype html>\n" + element("html", head, element("body", top, main), attributes={"lang": "en"}).text + "\n"


def section_html(place: int, section: Section, numbers: Iterator[int]) -> Html:
    """One section of a page; ``place`` is unique among its sections, ``numbers`` among its figures."""
    heading = element("h2", section.title, attributes={"id": f"h{place}"})
    blocks = [_block(block, numbers) for block in section.blocks]
    return element("section", heading, *blocks, attributes={"id": f"s{place}", "aria-labelledby": f"h{place}"})


def _block(block: Block, numbers: Iterator[int]) -> Html:
    if isinstance(block, Facts):
        return element("dl", *(child for name, value in block.pairs for child in (element("dt", name), element("dd", lines(value)))))
    if isinstance(block, Grid):
        table = _table(block)
        return _folded(f"{block.caption} ({len(block.rows):,} rows)", table) if len(block.rows) > LONG_TABLE else table
    if isinstance(block, Prose):
        return element("p", block.text, attributes={"class": block.tone})
    if isinstance(block, Code):
        return joined((element("p", f"{block.what}:"), element("pre", element("code", block.text))))
    return _figure(block, next(numbers))


def _folded(summary: str, inside: Html) -> Html:
    return element("details", element("summary", summary), inside)


def _table(grid: Grid) -> Html:
    head = element("tr", *(element("th", name, attributes={"scope": "col"}) for name in grid.names))
    marks = grid.marks or [("",) * len(grid.names)] * len(grid.rows)
    rows = [element("tr", *_cells(row, tints)) for row, tints in zip(grid.rows, marks, strict=True)]
    table = element("table", element("caption", grid.caption), element("thead", head), element("tbody", *rows))
    return element("div", table, attributes={"class": "scroll", "tabindex": "0", "role": "region", "aria-label": grid.caption})


def _cells(row: Sequence[str], tints: Sequence[str]) -> Iterator[Html]:
    for place, (cell, tint) in enumerate(zip(row, tints, strict=True)):
        if place == 0:
            yield element("th", lines(cell), attributes={"scope": "row"})
        else:
            yield element("td", lines(cell), attributes={"class": tint} if tint else None)


def _figure(block: Figure, number: int) -> Html:
    key: list[Child] = []
    if isinstance(block, Gaps):
        gaps = tuple((row.label, *_gap(row.mean, row.low, row.high)) for row in block.rows)
        numbers = Grid(caption=block.title, names=("", "points", "95% interval"), rows=gaps)
    elif isinstance(block, Bars):
        for place, name in enumerate(OUTCOMES):
            key += [element("span", attributes={"class": f"key o{place}"}), name]
        rows = tuple((label, *(f"{value:,}" for value in counts), f"{sum(counts):,}") for label, counts in block.rows)
        numbers = Grid(caption=block.title, names=("", *OUTCOMES, "scheduled"), rows=rows)
    else:
        rows = tuple((phrases.number(x), phrases.number(value), _stage(block, x)) for x, value in block.points)
        numbers = Grid(caption=block.title, names=(block.x, "value", "stage"), rows=rows)
    drawn = element("figure", figure(block, number), element("figcaption", f"{block.title}. ", *key))
    return joined((drawn, _folded("The numbers of this figure", _table(numbers))))


def _gap(mean: float | None, low: float | None, high: float | None) -> tuple[str, str]:
    return phrases.NO_DATA if mean is None else f"{mean:+.1f}", phrases.signed(low, high)


def _stage(block: Line, x: float) -> str:
    return next((label for begins, ends, label in reversed(block.shades) if begins <= x <= ends), "")
