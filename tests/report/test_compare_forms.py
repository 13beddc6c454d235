"""A comparison in every form: what speaks against it comes first, tasks of one run are named, tables fit and are whole."""

from __future__ import annotations

import re
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from agentgym_cli.report.compare import Side, compare_all
from agentgym_cli.report.compared import compared, title
from agentgym_cli.report.html import page
from agentgym_cli.report.html_report import comparison_page
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


def with_infra(run: str, won: int, **changes: object) -> Side:
    """Ten tasks of each of two categories; in each of them ``won`` solved and two ended by the world."""
    tasks = [
        make_task(10 * depth + number, int(number < won), category=f"depth {depth}", infra=int(number >= 8))
        for depth in (1, 2)
        for number in range(10)
    ]
    return make_side(run, tasks, **changes)


def table(text: str, caption: str) -> list[list[str]]:
    """Cells of the Markdown table under a caption, without its head."""
    rows = text.split(caption)[1].split("\n\n")[1].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def test_a_category_shows_both_denominators_the_infra_share_and_the_extremes() -> None:
    text = render_sections("t", compared(compare_all(with_infra("base", 4), [with_infra("other", 8)])))
    rows = table(text, "By category, all tasks of each run")
    # 8 successes of 10 scheduled, all 8 that were scored; two of ten ended by the world. Wilson intervals.
    assert rows[:4] == [
        ["depth 1", "end to end", "40.0% 4 of 10<br>16.8 to 68.7%", "80.0% 8 of 10<br>49.0 to 94.3%"],
        ["", "conditional", "50.0% 4 of 8<br>21.5 to 78.5%", "100.0% 8 of 8<br>67.6 to 100.0%"],
        ["", "infra", "20.0% 2 of 10<br>5.7 to 51.0%", "20.0% 2 of 10<br>5.7 to 51.0%"],
        ["", "worst to best", "40.0% to 60.0%", "80.0% to 100.0%"],
    ]
    assert [row[0] for row in rows] == ["depth 1", "", "", "", "depth 2", "", "", ""]


def test_a_category_shows_the_difference_by_both_denominators() -> None:
    text = render_sections("t", compared(compare_all(with_infra("base", 4), [with_infra("other", 8)])))
    rows = table(text, "By category, paired by task")
    assert [row[0] for row in rows] == [
        f"depth {depth}<br>{what}<br>{tasks} tasks{left}"
        for depth in (1, 2)
        for what, tasks, left in (("end-to-end success", 10, ""), ("conditional success", 8, ", 2 left out"))
    ]
    # Four of ten more, and four of the eight that both scored. Exact McNemar: 2 / 2**4 = 0.125, doubled by Holm over two categories.
    assert [row[1].split("<br>")[0] for row in rows] == ["+40 points", "+50 points"] * 2
    assert [row[3] for row in rows] == ["0.25<br>exact McNemar"] * 4


def test_tables_of_numbers_say_themselves_that_the_runs_are_not_like_for_like() -> None:
    other = with_infra("other", 8, conditions=replace(CONDITIONS, horizon=30, samples=None))
    text = render_sections("t", compared(compare_all(with_infra("base", 4), [other])))
    rates = table(text, "All tasks of each run")
    assert [row for row in rates if row[0].startswith("not alike")] == [
        ["not alike: horizon", "12", "30"],
        ["not alike: samples", "1", "not known"],
    ]
    captions = [line for line in text.splitlines() if line.startswith(("All tasks", "Paired by task", "By category"))]
    assert len(captions) == 4
    assert all(line.endswith("; not like for like: horizon, samples") for line in captions)
    paired = [row for caption in ("Paired by task", "By category, paired") for row in table(text, caption)]
    assert len(paired) == 7
    assert all(row[-1].split("<br>")[1] == "not like for like" for row in paired)


def test_tables_of_runs_alike_say_nothing_of_the_kind() -> None:
    assert "not like for like" not in render_sections("t", compared(compare_all(with_infra("base", 4), [with_infra("other", 8)])))


def test_tasks_of_another_split_do_not_speak_against_the_numbers_of_this_one() -> None:
    base, other = with_infra("base", 4), with_infra("other", 8)
    fewer = replace(other.splits["test"], tasks=other.splits["test"].tasks[1:])
    splits = [replace(side, splits={"test": side.splits["test"], "more": more}) for side, more in ((base, base.splits["test"]), (other, fewer))]
    found = compare_all(splits[0], splits[1:]).comparisons[0]
    assert {split.split: [item.what for item in split.incomparable] for split in found.splits} == {"test": [], "more": ["tasks"]}


def test_a_page_of_a_comparison_draws_what_became_of_every_episode_and_the_differences() -> None:
    comparisons = compare_all(with_infra("base", 4), [with_infra("other", 8)])
    text = comparison_page(comparisons)
    assert text.count("<svg ") == 2
    said = re.findall("<desc[^>]*>([^<]*)</desc>", text)
    assert said[0] == (
        "A, base: 8 success, 8 failure, 4 infra error, 0 missing of 20 scheduled; "
        "other: 16 success, 0 failure, 4 infra error, 0 missing of 20 scheduled"
    )
    assert said[1].startswith("end-to-end success: +40 points, 95% ")
    assert "depth 2, conditional success: +50 points, 95% " in said[1]


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
