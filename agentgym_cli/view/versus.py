"""Two runs task by task, and two episodes turn by turn. What differs by how much is said by the report's comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from agentgym_cli.recipe.wording import shown
from agentgym_cli.report import phrases
from agentgym_cli.report.compare import Side, compare_all
from agentgym_cli.report.compared import compared
from agentgym_cli.report.html_text import Child, Html, element
from agentgym_cli.report.side import read_side
from agentgym_cli.store import queries
from agentgym_cli.store.episode_queries import first_difference, one_episode, played_of, tries_of, turns_from
from agentgym_cli.store.episode_rows import AttemptKey, EpisodeRow, Parting, PlayedRow, TryRow, TurnRow
from agentgym_cli.store.task_rows import TaskRow
from agentgym_cli.view.address import BadAddress
from agentgym_cli.view.episode import counting
from agentgym_cli.view.foreign import SHOWN, one_line
from agentgym_cli.view.frame import Asked, anchor, badge, framed, sections, table
from agentgym_cli.view.requests import Answer
from agentgym_cli.view.turns import PAGE as TURNS
from agentgym_cli.view.turns import one_turn, rest_of

Part = tuple[str, str, int]
"""Phase, split, step."""
PAGE = 200
"""Tasks on one page."""
_TASK_BYTES = 500
"""About what one task of a run takes in memory."""
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

    parts: tuple[Part, Part]
    """The evaluation of each run that is compared."""
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
        mine, its = base.splits[split], other.splits[split]
        parts = ((mine.phase, split, mine.step), (its.phase, split, its.step))
        theirs = {row.task: row for row in its.tasks}
        for row in mine.tasks:
            twin = theirs.get(row.task)
            if twin is not None and not (row.digest and twin.digest and row.digest != twin.digest):
                yield TaskLine(parts=parts, base=row, other=twin, kind=kind_of(row, twin))


def compare_page(asked: Asked) -> Answer:
    """Two runs; with one, the choice of another."""
    asked.query.only("a", "b", "kind", "page")
    a, b = asked.query.needed("a"), asked.query.text("b")
    if b is None:
        return _choose(asked, queries.find_run(asked.reading.connection, a).run)
    sides = [_side(asked, run) for run in (a, b)]
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


def _side(asked: Asked, run: str) -> Side:
    def size(side: Side) -> int:
        return _TASK_BYTES * (1 + sum(len(each.tasks) for each in side.splits.values()))

    return asked.kept.get(("side", run), lambda: read_side(asked.reading.connection, run), size, stamp=asked.reading.stamp)


def _choose(asked: Asked, a: str) -> Answer:
    runs = [run for run in queries.run_names(asked.reading.connection)[::-1] if run != a][:200]
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
    wanted = [line for line in lines if kind in ("all", line.kind)]
    part = wanted[(number - 1) * PAGE : number * PAGE]
    if not part and number > 1:
        raise queries.NotInStore(f"page {number:,}: there are {-(-len(wanted) // PAGE):,} pages of such tasks")
    played = [_played(asked, run, part, side) for side, run in enumerate(names)]
    rows = [_task(asked, names, line, played) for line in part]
    grid = table(
        "Tasks of both runs, by their latest evaluations",
        ("task", "", "category", "split", "A", "B", ""),
        rows,
        attributes=[{"class": "line"} | ({"data-failure": ""} if line.kind == "lost" else {}) for line in part],
    )
    pages = [
        anchor(text, asked.link("compare", words | {"kind": kind, "page": place}), rel=rel)
        for text, place, rel, there in (
            ("earlier tasks", number - 1, "prev", number > 1),
            ("later tasks", number + 1, "next", number * PAGE < len(wanted)),
        )
        if there
    ]
    tabs_nav = element("nav", *tabs, attributes={"class": "links tabs", "aria-label": "Which tasks"})
    yield element("section", element("h2", "Task by task"), tabs_nav, grid, element("p", *pages, attributes={"class": "links"}))


def _played(asked: Asked, run: str, lines: Sequence[TaskLine], side: int) -> Mapping[tuple[str, str], PlayedRow]:
    """What was played of these tasks in the evaluations that are compared, by split and task."""
    found: dict[tuple[str, str], PlayedRow] = {}
    for part in dict.fromkeys(line.parts[side] for line in lines):
        tasks = [line.base.task for line in lines if line.parts[side] == part]
        phase, split, step = part
        rows = played_of(asked.reading.connection, run, phase=phase, split=split, step=step, tasks=tasks)
        found |= {(split, row.task): row for row in rows}
    return found


def _task(asked: Asked, names: Sequence[str], line: TaskLine, played: Sequence[Mapping[tuple[str, str], PlayedRow]]) -> list[Child]:
    counted = [f"{row.success:,} of {row.scheduled:,}" for row in (line.base, line.other)]
    links = [
        anchor(text, asked.link("episodes", {"run": run, "phase": phase, "split": split, "step": step, "task": line.base.task}))
        for text, run, (phase, split, step) in zip(counted, names, line.parts, strict=True)
    ]
    split = line.parts[0][1]
    kind = element("span", line.kind, attributes={"class": f"kind {line.kind}"})
    both = [_telling(line.kind, side, each.get((split, line.base.task))) for side, each in enumerate(played)]
    beside: Child = "not played in both"
    if both[0] is not None and both[1] is not None:
        words = {"run": names[0], "episode": both[0], "other_run": names[1], "other": both[1]}
        beside = anchor("beside", asked.link("beside", words), **{"data-open": ""})
    return [one_line(line.base.task, 80), kind, one_line(line.base.category, 60), one_line(split, 40), *links, beside]


def _telling(kind: str, side: int, row: PlayedRow | None) -> str | None:
    """The episode that shows why a task is of its kind: a success where that side succeeds more often, else one without."""
    if row is None:
        return None
    wanted = row.success if kind == "both" or kind == ("lost", "gained")[side] else row.other
    return wanted or row.success or row.other


def beside_page(asked: Asked) -> Answer:
    """Two episodes, of one task as a rule, with the first turn at which they part."""
    asked.query.only("run", "episode", "other_run", "other", "turn")
    connection = asked.reading.connection
    runs = [queries.find_run(connection, asked.query.needed(name)).run for name in ("run", "other_run")]
    names = [asked.query.needed(name) for name in ("episode", "other")]
    rows = [one_episode(connection, run, name) for run, name in zip(runs, names, strict=True)]
    tries = [_try(asked, run, row) for run, row in zip(runs, rows, strict=True)]
    keys = [
        AttemptKey(run=run, segment=each.segment, episode=row.episode, attempt=each.attempt) for run, row, each in zip(runs, rows, tries, strict=True)
    ]
    parting = first_difference(connection, *keys)
    first, last = asked.query.counted("turn", max(1, (parting.turn if parting else 1) - 2)), max(each.turns for each in tries)
    if first > max(1, last):
        raise queries.NotInStore(f"turn {first:,}: these episodes have {last:,} turns")
    ends = [_who(asked, *each) for each in zip(runs, rows, tries, strict=True)]
    head = element("tr", *(element("th", end, attributes={"scope": "col"}) for end in ends))
    body = element("tbody", *_turns(asked, keys, first, parting.turn if parting else None))
    grid = element("table", element("caption", _parting(parting)), element("thead", head), body, attributes={"class": "beside"})
    words: dict[str, object] = {"run": runs[0], "episode": names[0], "other_run": runs[1], "other": names[1]}
    main = [element("h1", one_line(rows[0].task, 80), ": two episodes"), element("p", *_ways(asked, words, first, last, parting)), grid]
    return framed(asked, "Two episodes", [(runs[0], asked.link("run", {"run": runs[0]})), ("Two episodes", None)], main, wide=True)


def _ways(asked: Asked, words: dict[str, object], first: int, last: int, parting: Parting | None) -> Iterator[Child]:
    ways: list[tuple[str, int, str]] = [("from the first turn", 1, "")] * (first > 1) + [("later turns", first + TURNS, "")] * (first + TURNS <= last)
    if parting is not None:
        ways.append(("where they part", max(1, parting.turn - 2), f"d{parting.turn}"))
    for text, turn, fragment in ways:
        yield anchor(text, asked.link("beside", words | {"turn": turn}, fragment))
        yield " "


def _try(asked: Asked, run: str, row: EpisodeRow) -> TryRow:
    chosen = counting(row, tries_of(asked.reading.connection, run, row.episode, 0))
    if chosen is None:
        raise queries.NotInStore(f"episode {shown(row.episode)}: expected one that was played, got one without an attempt")
    return chosen


def _who(asked: Asked, run: str, row: EpisodeRow, chosen: TryRow) -> Html:
    name = anchor(one_line(row.episode, 100), asked.link("episode", {"run": run, "episode": row.episode}))
    end = f"stopped by {chosen.stop or phrases.NO_DATA} after {chosen.turns:,} turns, reward {phrases.number(chosen.reward)}"
    return element("div", name, " ", badge(row.outcome), element("p", one_line(run, 80)), element("p", end, attributes={"class": "place"}))


def _parting(parting: Parting | None) -> str:
    if parting is None:
        return "Both were shown and did the same in every turn, and ended alike."
    if parting.ending:
        return f"They were shown and did the same in all {parting.turn:,} turns, and ended differently."
    return f"They part at turn {parting.turn}: there one was shown, did, or was given something else."


def _turns(asked: Asked, keys: Sequence[AttemptKey], first: int, differs: int | None) -> Iterator[Html]:
    found = [{row.turn: row for row in turns_from(asked.reading.connection, key, first=first, most=TURNS, longest=SHOWN)} for key in keys]
    for turn in sorted({*found[0], *found[1]}):
        cells = [element("td", _turn(asked, key, rows.get(turn))) for key, rows in zip(keys, found, strict=True)]
        apart = {"class": "parting", "id": f"d{turn}"} if turn == differs else {"class": "after"} if differs is not None and turn > differs else {}
        yield element("tr", *cells, attributes=apart)


def _turn(asked: Asked, key: AttemptKey, row: TurnRow | None) -> Html:
    if row is None:
        return element("p", "it had ended", attributes={"class": "none"})
    return one_turn(row, rest_of(asked, key, row.turn))
