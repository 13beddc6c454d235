"""A comparison in every form: what speaks against it comes first, tasks of one run are named, tables fit and are whole."""

from __future__ import annotations

import re
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from agentgym_cli.report.compare import compare_all
from agentgym_cli.report.compared import compared, title
from agentgym_cli.report.html import page
from agentgym_cli.report.markdown import render_sections
from agentgym_cli.report.terminal import print_sections
from tests.report.sides import CONDITIONS, make_side, make_task

HOSTILE = "\x1b[2Jx\x07<b>|`*\u202e\x9b1m"
BASE = make_side("base", [make_task(number, int(number < 20)) for number in range(40)])
OTHER = make_side("other", [make_task(number, int(6 <= number < 20), category="depth 2" if number % 2 else "depth 1") for number in range(1, 41)])
THIRD = make_side("third", [make_task(number, int(number < 10)) for number in range(40)])
STRANGE = make_side(
    f"r{HOSTILE}",
    [replace(make_task(number, 1), task=f"t{HOSTILE}{number}", category=HOSTILE) for number in range(3)],
    status="in progress",
    policy=HOSTILE,
    drift=(HOSTILE,),
    conditions=replace(CONDITIONS, protocol=HOSTILE, tasks={}),
)
CASES = {"two": (BASE, [OTHER]), "three": (BASE, [OTHER, THIRD]), "hostile": (STRANGE, [BASE])}


def terminal(name: str) -> str:
    base, others = CASES[name]
    comparisons = compare_all(base, others)
    stream = StringIO()
    print_sections(title(comparisons), compared(comparisons), Console(file=stream, width=80))
    return stream.getvalue()


def markdown(name: str) -> str:
    base, others = CASES[name]
    comparisons = compare_all(base, others)
    return render_sections(title(comparisons), compared(comparisons))


def test_the_terminal_shows_both_denominators_the_paired_difference_and_the_tasks_of_one_run() -> None:
    text = " ".join(terminal("two").split())
    assert "only in A 1: textcraft_0" in text
    assert "only in the other 1: textcraft_40" in text
    assert "0 more" not in text
    # Of the 39 tasks in both, five are lost: exact McNemar gives 2 / 2**5.
    assert "0, 5" in text
    assert "0.0625" in text
    assert text.index("What speaks against the comparison") < text.index("All tasks of each run")
    assert "only tasks that both have are compared" in text
    for words in ("end to end", "conditional", "infra", "worst to best", "detectable"):
        assert words in text


def test_three_runs_are_one_family_of_comparisons() -> None:
    assert "Holm over 2 comparisons" in " ".join(terminal("three").split())


def test_nothing_against_a_comparison_is_said_too() -> None:
    comparisons = compare_all(BASE, [replace(BASE, run="again")])
    assert "Nothing that is recorded keeps them from being compared" in render_sections("t", compared(comparisons))


def test_what_neither_run_knows_of_itself_speaks_against_the_comparison_too() -> None:
    vague = replace(CONDITIONS, protocol=None, horizon=None)
    text = render_sections("t", compared(compare_all(replace(BASE, conditions=vague), [replace(BASE, run="again", conditions=vague)])))
    assert "| protocol | not known | not known | nobody can say whether it was the same |" in text
    assert "| horizon | not known | not known | nobody can say whether it was the same |" in text


def test_runs_without_a_split_in_common_have_nothing_to_compare() -> None:
    text = render_sections("t", compared(compare_all(BASE, [replace(BASE, run="again", splits={})])))
    assert "No split was evaluated in both, so there is nothing to compare." in text


def test_a_run_that_has_not_finished_is_marked() -> None:
    assert "has not finished (in progress)" in " ".join(terminal("hostile").split())


@pytest.mark.parametrize("name", CASES)
def test_promise_11_a_comparison_controls_no_terminal_and_fits_eighty_columns(name: str) -> None:
    text = terminal(name)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("name", CASES)
def test_tables_of_a_comparison_in_markdown_are_whole(name: str) -> None:
    text = markdown(name)
    tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert len(tables) >= 3
    for table in tables:
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}) == 1
    assert "<b>" not in text


def test_promise_11_a_comparison_makes_no_element_of_foreign_text() -> None:
    base, others = CASES["hostile"]
    comparisons = compare_all(base, others)
    text = page(title(comparisons), compared(comparisons))
    assert "<b>" not in text
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)
