"""Two runs task by task, and two episodes turn by turn. What differs by how much is said by the report's comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from agentgym_cli.report.build import read_side
from agentgym_cli.report.compare import Side, compare_all
from agentgym_cli.report.compared import compared
from agentgym_cli.report.html_text import Child, Html, element
from agentgym_cli.store import queries
from agentgym_cli.store.episode_queries import episodes_of_task, first_difference, one_episode, tries_of, turns_from
from agentgym_cli.store.episode_rows import AttemptKey, EpisodeRow, TurnRow
from agentgym_cli.store.task_rows import TaskRow
from agentgym_cli.view.address import BadAddress
from agentgym_cli.view.episode import counting
from agentgym_cli.view.foreign import SHOWN, one_line
from agentgym_cli.view.frame import Asked, anchor, badge, framed, sections, table
from agentgym_cli.view.requests import Answer
from agentgym_cli.view.turns import PAGE as TURNS
from agentgym_cli.view.turns import one_turn, rest_of

PAGE = 200
"""Tasks on one page."""
KINDS = ("gained", "lost", "both", "neither")
_MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "gained": "B succeeds more often",
        "lost": "B succeeds less often",
        "both": "as often, at least once",
        "neither": "never in A, never in B",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLine:
    """One task that both runs were judged on, and how it went."""

    split: str
    base: TaskRow
    other: TaskRow
    kind: str


def kind_of(base: TaskRow, other: TaskRow) -> str:
    """By end-to-end success, in whole numbers: successes of one times what was scheduled in the other."""
    mine, theirs = base.success * other.scheduled, other.success * base.scheduled
    if mine != theirs:
        return "gained" if theirs > mine else "lost"
    return "both" if base.success else "neither"


def task_lines(base: Side, other: Side) -> Iterator[TaskLine]:
    """Every task that both have, by split; two contents under one name are no pair."""
    for split in (each for each in base.splits if each in other.splits):
        theirs = {row.task: row for row in other.splits[split].tasks}
        for row in base.splits[split].tasks:
            twin = theirs.get(row.task)
            if twin is not None and not (row.digest and twin.digest and row.digest != twin.digest):
                yield TaskLine(split=split, base=row, other=twin, kind=kind_of(row, twin))


def compare_page(asked: Asked) -> Answer:
    """Two runs; with one, the choice of another."""
    asked.query.only("a", "b", "kind", "page")
    a, b = asked.query.needed("a"), asked.query.text("b")
    if b is None:
        return _choose(asked, a)
    sides = [asked.kept.get(("side", asked.reading.stamp, run), lambda run=run: read_side(asked.reading.connection, run)) for run in (a, b)]  # type: ignore[misc]
    if sides[0].run == sides[1].run:
        raise BadAddress("compare: expected two different runs, got one twice")
    found = compare_all(sides[0], sides[1:])
    lines = list(task_lines(*sides))
    names = [sides[0].run, sides[1].run]
    body: list[Child] = [
        element("h1", "A ", one_line(names[0], 80), " against B ", one_line(names[1], 80)),
        *_tasks(asked, names, lines),
        sections(compared(found)),
    ]
    return framed(asked, f"{names[0]} against {names[1]}", [("Comparison", None)], body, live=True, wide=True)


def _choose(asked: Asked, a: str) -> Answer:
    runs = [run.run for run in queries.list_runs(asked.reading.connection)[::-1] if run.run != a][:200]
    items = [element("li", anchor(one_line(run, 120), asked.link("compare", {"a": a, "b": run}))) for run in runs]
    body = [
        element("h1", "Compare ", one_line(a, 80), " with"),
        element("ul", *items) if items else element("p", "There is no other run in this store."),
    ]
    return framed(asked, "Compare", [("Comparison", None)], body)


def _tasks(asked: Asked, names: Sequence[str], lines: Sequence[TaskLine]) -> Iterator[Html]:
    kind, number = asked.query.one_of("kind", ("all", *KINDS)), asked.query.counted("page")
    words: dict[str, object] = {"a": names[0], "b": names[1]}
    tabs = []
    for each in ("all", *KINDS):
        count = sum(each in ("all", line.kind) for line in lines)
        current = {"aria-current": "true"} if each == kind else {}
        title = {"title": _MEANINGS[each]} if each in _MEANINGS else {}
        tabs.append(anchor(f"{each} {count:,}", asked.link("compare", words | {"kind": each}), **(current | title)))
    shown = [line for line in lines if kind in ("all", line.kind)]
    part = shown[(number - 1) * PAGE : number * PAGE]
    rows = [_task(asked, names, line) for line in part]
    grid = table(
        "Tasks of both runs, by their latest evaluations",
        ("task", "", "category", "split", "A", "B", ""),
        rows,
        attributes=[{"class": "line"}] * len(rows),
    )
    pages = [
        anchor(text, asked.link("compare", words | {"kind": kind, "page": place}))
        for text, place, there in (("earlier tasks", number - 1, number > 1), ("later tasks", number + 1, number * PAGE < len(shown)))
        if there
    ]
    tabs_nav = element("nav", *tabs, attributes={"class": "links tabs", "aria-label": "Which tasks"})
    yield element("section", element("h2", "Task by task"), tabs_nav, grid, element("p", *pages, attributes={"class": "links"}))


def _task(asked: Asked, names: Sequence[str], line: TaskLine) -> list[Child]:
    both = asked.link("beside", {"run": names[0], "other_run": names[1], "task": line.base.task})
    counted = [f"{row.success:,} of {row.scheduled:,}" for row in (line.base, line.other)]
    links = [
        anchor(text, asked.link("episodes", {"run": run, "task": row.task}))
        for text, run, row in zip(counted, names, (line.base, line.other), strict=True)
    ]
    kind = element("span", line.kind, attributes={"class": f"kind {line.kind}"})
    return [one_line(line.base.task, 80), kind, one_line(line.base.category, 60), one_line(line.split, 40), *links, anchor("beside", both)]


def beside_page(asked: Asked) -> Answer:
    """Two episodes of one task, with the first turn at which they part."""
    asked.query.only("run", "episode", "other_run", "other", "task", "turn")
    connection = asked.reading.connection
    runs = [queries.find_run(connection, asked.query.needed(name)).run for name in ("run", "other_run")]
    names = [_episode(asked, run, asked.query.text(name)) for run, name in zip(runs, ("episode", "other"), strict=True)]
    rows = [one_episode(connection, run, name) for run, name in zip(runs, names, strict=True)]
    keys = [_key(asked, run, row) for run, row in zip(runs, rows, strict=True)]
    differs = first_difference(connection, *keys)
    first = asked.query.counted("turn", max(1, (differs or 1) - 2))
    head = element("tr", *(element("th", _who(asked, run, row), attributes={"scope": "col"}) for run, row in zip(runs, rows, strict=True)))
    body = element("tbody", *_turns(asked, keys, first, differs))
    grid = element("table", element("caption", _parting(differs)), element("thead", head), body, attributes={"class": "beside"})
    words: dict[str, object] = {"run": runs[0], "episode": names[0], "other_run": runs[1], "other": names[1]}
    ways = [
        anchor("from the first turn", asked.link("beside", words | {"turn": 1})),
        anchor("later turns", asked.link("beside", words | {"turn": first + TURNS})),
    ]
    ways += [anchor("where they part", asked.link("beside", words | {"turn": max(1, differs - 2)}, f"d{differs}"))] if differs else []
    main = [element("h1", one_line(rows[0].task, 80), ": two episodes"), element("p", *ways, attributes={"class": "links"}), grid]
    return framed(asked, "Two episodes", [(runs[0], asked.link("run", {"run": runs[0]})), ("Two episodes", None)], main, wide=True)


def _episode(asked: Asked, run: str, named: str | None) -> str:
    """The episode that is named, else the latest that was played of the task that is."""
    if named is not None:
        return named
    found = [each for each in episodes_of_task(asked.reading.connection, run, asked.query.needed("task"), 50) if each.attempts]
    if not found:
        raise BadAddress("task: expected one that both runs have played, got none")
    return found[0].episode


def _key(asked: Asked, run: str, row: EpisodeRow) -> AttemptKey:
    chosen = counting(row, tries_of(asked.reading.connection, run, row.episode, 0))
    if chosen is None:
        raise BadAddress("episode: expected one that was played, got one without an attempt")
    return AttemptKey(run=run, segment=chosen.segment, episode=row.episode, attempt=chosen.attempt)


def _who(asked: Asked, run: str, row: EpisodeRow) -> Html:
    name = anchor(one_line(row.episode, 100), asked.link("episode", {"run": run, "episode": row.episode}))
    return element("div", name, " ", badge(row.outcome), element("p", one_line(run, 80)))


def _parting(differs: int | None) -> str:
    return (
        "Both were shown and did the same in every turn."
        if differs is None
        else f"They part at turn {differs}: there one was shown, or did, something else."
    )


def _turns(asked: Asked, keys: Sequence[AttemptKey], first: int, differs: int | None) -> Iterator[Html]:
    found = [{row.turn: row for row in turns_from(asked.reading.connection, key, first=first, most=TURNS, longest=SHOWN)} for key in keys]
    for turn in sorted({*found[0], *found[1]}):
        cells = [element("td", _turn(asked, key, rows.get(turn))) for key, rows in zip(keys, found, strict=True)]
        apart = {"class": "parting", "id": f"d{turn}"} if turn == differs else {"class": "after"} if differs is not None and turn > differs else {}
        yield element("tr", *cells, attributes=apart)


def _turn(asked: Asked, key: AttemptKey, row: TurnRow | None) -> Html:
    if row is None:
        return element("p", "no such turn", attributes={"class": "none"})
    return one_turn(row, rest_of(asked, key, row.turn))
