"""The page: escaped everywhere, nothing from outside, readable by programs for people who do not see it, figures with their numbers."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from agentgym_cli.report.blocks import Bars, Gap, Gaps, Line, Section
from agentgym_cli.report.html import page
from agentgym_cli.report.html_report import report_page
from agentgym_cli.report.html_text import LONGEST, Html, element, joined, lines
from agentgym_cli.report.model import Report
from agentgym_cli.report.svg import figure, ticks
from agentgym_cli.store.db import Connection
from tests.report.runs import report_of
from tests.report.test_forms import hostile_run

VOID = {"meta", "br"}
PAGE = {"html", "head", "meta", "title", "style", "body", "header", "main", "nav", "section", "h1", "h2", "p", "span", "a", "ul", "li", "br"}
TABLES = {"div", "table", "caption", "thead", "tbody", "tr", "th", "td", "dl", "dt", "dd", "details", "summary", "pre", "code"}
FIGURES = {"figure", "figcaption", "svg", "desc", "rect", "text", "line", "circle", "polyline"}
OURS = PAGE | TABLES | FIGURES


class Reader(HTMLParser):
    """Collects elements and checks that every one is closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append((self.open[-1] if self.open else "", data))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def test_text_and_attributes_are_escaped_and_control_characters_spelled_out() -> None:
    made = element("td", '<b>&"\x1b[2J\u202e', Html("<i>ours</i>"), attributes={"class": '"><script>'})
    assert made.text == '<td class="&quot;&gt;&lt;script&gt;">&lt;b&gt;&amp;&quot;\\x1b[2J\\u202e<i>ours</i></td>'


def test_long_foreign_text_is_cut_but_a_curve_is_not() -> None:
    assert len(element("p", "x" * 5000).text) == LONGEST + len("<p></p>")
    assert len(element("polyline", attributes={"points": "1,2 " * 2000}).text) > 8000


def test_line_feeds_become_breaks_and_nothing_else_does() -> None:
    assert joined([lines("a\n<b>")]).text == "a<br>&lt;b&gt;"


def test_promise_11_foreign_text_makes_no_element_of_a_page(store: Connection, tmp_path: Path) -> None:
    text = report_page(report_of(store, tmp_path / "r1", hostile_run()))
    read = Reader(text)
    assert {tag for tag, _ in read.elements} <= OURS
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    assert "&lt;b&gt;" in text


@pytest.mark.slow
def test_a_page_asks_nothing_of_a_network_and_runs_nothing(trained: Report) -> None:
    read = Reader(report_page(trained))
    names = {name for _, attributes in read.elements for name in attributes}
    assert not names & {"src", "srcset", "style", "action", "data", "onload", "onclick", "xlink:href"}
    assert all((attributes["href"] or "").startswith("#s") for attributes in read.all("a"))
    policy = next(attributes["content"] for attributes in read.all("meta") if attributes.get("http-equiv") == "Content-Security-Policy")
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    assert not {"script", "link", "img", "iframe", "object", "form"} & {tag for tag, _ in read.elements}
    style = next(data for tag, data in read.words if tag == "style")
    assert "url(" not in style and "@import" not in style
    assert "prefers-color-scheme:dark" in style


def test_every_figure_says_what_it_shows_and_every_table_has_a_caption_and_headers(trained: Report) -> None:
    read = Reader(report_page(trained))
    ids = [attributes["id"] for _, attributes in read.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    drawings = read.all("svg")
    assert len(drawings) >= 4
    for attributes in drawings:
        assert attributes["role"] == "img"
        assert set((attributes["aria-labelledby"] or "").split()) <= set(ids)
    assert len(read.all("caption")) == len(read.all("table")) > 10
    assert all("scope" in attributes for attributes in read.all("th"))


def test_the_page_has_every_section_a_reader_looks_for(trained: Report) -> None:
    read = Reader(report_page(trained))
    heads = [data for tag, data in read.words if tag == "h2"]
    wanted = ["Summary", "Denominators", "Before and after training: test", "Learning", "Failures", "Tasks of test", "Spending and latency"]
    assert [head for head in heads if head in wanted] == wanted
    assert any(head.startswith("Diagnosis: ") for head in heads)
    for head in ("Probes", "Segments and drift", "Rules of reward and stopping, as frozen", "How to reproduce"):
        assert head in heads


def test_denominators_are_drawn_to_scale_and_repeated_as_a_table() -> None:
    bars = Bars(title="all", rows=(("eval / test", (60, 30, 10, 0)),))
    drawn = figure(bars, 1).text
    # 760 less 252 for the label and 60 for the total is 448 for 100 episodes.
    shapes = re.findall(r'<rect x="([\d.]+)" y="6" width="([\d.]+)" height="20" class="(o\d)">', drawn)
    assert shapes == [("252.00", "268.80", "o0"), ("520.80", "134.40", "o1"), ("655.20", "44.80", "o2")]
    assert "eval / test: 60 success, 30 failure, 10 infra error, 0 missing of 100 scheduled" in drawn
    table = page("t", [Section(title="s", blocks=(bars,))])
    assert '<th scope="row">eval / test</th><td>60</td><td>30</td><td>10</td><td>0</td><td>100</td>' in table


def test_differences_are_drawn_to_scale_about_zero_and_repeated_as_a_table() -> None:
    gaps = Gaps(title="g", rows=(Gap(label="a", mean=10.0, low=-20.0, high=40.0), Gap(label="b", mean=None, low=None, high=None)))
    drawn = figure(gaps, 1).text
    # 448 for the 60 points from -20 to 40: 7.4667 a point, zero at 252 + 149.33.
    assert '<line x1="401.33" x2="401.33" y1="0" y2="72" class="grid">' in drawn
    assert '<polyline points="252.00,16 700.00,16" class="curve">' in drawn
    assert '<circle cx="476.00" cy="16" r="4" class="dot"><title>a: +10 points, 95% -20.0 to +40.0</title>' in drawn
    assert "a: +10 points, 95% -20.0 to +40.0; b: n/a</desc>" in drawn
    assert drawn.count("<circle") == 1
    table = page("t", [Section(title="s", blocks=(gaps,))])
    assert '<th scope="row">a</th><td>+10.0</td><td>-20.0 to +40.0</td>' in table
    assert '<th scope="row">b</th><td>n/a</td><td>n/a</td>' in table


def test_differences_that_are_all_zero_or_unknown_are_drawn_without_a_scale() -> None:
    rows = (Gap(label="a", mean=0.0, low=None, high=None), Gap(label="b", mean=None, low=None, high=None))
    drawn = figure(Gaps(title="g", rows=rows), 1).text
    assert '<circle cx="252.00" cy="16" r="4" class="dot"><title>a: +0 points, 95% n/a</title>' in drawn


def test_a_part_without_episodes_has_an_empty_bar() -> None:
    assert "<rect" not in figure(Bars(title="all", rows=(("eval", (0, 0, 0, 0)),)), 1).text


def test_a_curve_is_drawn_to_scale_broken_where_there_is_no_data_and_shaded_by_stage() -> None:
    points = ((1.0, 0.0), (2.0, 1.0), (3.0, None), (4.0, 0.5), (5.0, None))
    drawn = figure(Line(title="success", x="step", points=points, shades=((1.0, 2.0, "horizon 8"),), top=1.0), 7).text
    # From 56 to 746 over four steps: 172.5 a step; from 22 (1.0) to 212 (0.0).
    assert '<polyline points="56.00,212.00 228.50,22.00" class="curve">' in drawn
    assert '<circle cx="573.50" cy="117.00" r="3" class="dot">' in drawn
    assert '<rect x="56.00" y="22" width="172.50" height="190" class="shade0"><title>horizon 8</title>' in drawn
    assert "0 at step 1, 0.5 at step 4; horizon 8 from step 1" in drawn


@pytest.mark.parametrize("values", [(1e308, -1e308), (-1e17, -1e17), (5e-324, 0.0), (1.7e308, 1.7e308), (-1e-320, -1e-320)])
def test_a_curve_of_extreme_values_is_drawn(values: tuple[float, float]) -> None:
    points = tuple((float(step), value) for step, value in enumerate(values, start=1))
    drawn = figure(Line(title="loss", x="step", points=points, shades=()), 1).text
    assert "<polyline" in drawn
    assert not re.search(r"\b(nan|inf)\b", drawn)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0.0, 1.0, [0.0, 0.5, 1.0]), (0.0, 110.0, [0.0, 50.0, 100.0]), (-0.001, 0.0025, [-0.001, 0.0, 0.001, 0.002])],
)
def test_ticks_are_round_numbers_inside_the_scale(low: float, high: float, expected: list[float]) -> None:
    assert ticks(low, high, 4) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("highest", "expected"),
    [
        (2.0, ["0", "0.5", "1", "1.5", "2"]),
        (2e6, ["0", "500,000", "1e6", "1.5e6", "2e6"]),
        (2e200, ["0", "5e199", "1e200", "1.5e200", "2e200"]),
        (2e-11, ["0", "5e-12", "1e-11", "1.5e-11", "2e-11"]),
    ],
)
def test_numbers_of_an_axis_have_room_and_are_told_apart(highest: float, expected: list[str]) -> None:
    drawn = figure(Line(title="loss", x="step", points=((1, 0.0), (2, highest)), shades=()), 1).text
    assert re.findall(r'<text x="48.0"[^>]*>([^<]*)<', drawn) == expected


def test_long_labels_of_a_figure_are_not_drawn_beyond_its_edge() -> None:
    """242 units hold a label, and its letters take at most 7 on average."""
    name = "grpo_fixed_12_seed_1-laptop-20261130-120914-f8445c"
    drawn = figure(Bars(title="t", rows=((name, (1, 0, 0, 0)),)), 1)
    (label,) = re.findall(r'class="label"[^>]*>([^<]*)<', drawn.text)
    assert label.endswith("…") and name.startswith(label[:-1])
    assert len(label) * 7 <= 242
