"""The runs of a store, and one run: what it is, how far it is, what may be claimed of it, where to look next. Computes no rate."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from agentgym_cli.errors import StoreError
from agentgym_cli.report import phrases
from agentgym_cli.report.accounting import account_rows, untold
from agentgym_cli.report.blocks import Bars, Prose, Section
from agentgym_cli.report.face import standing
from agentgym_cli.report.figures import Accounting, Rate
from agentgym_cli.report.frozen import FrozenFacts, read_facts
from agentgym_cli.report.html_report import curves
from agentgym_cli.report.html_text import Child, Html, element, joined, lines
from agentgym_cli.report.learning import CURVES, assemble_learning
from agentgym_cli.report.model import Standing
from agentgym_cli.store import queries
from agentgym_cli.store.episode_queries import loaded_bytes, marks
from agentgym_cli.store.rows import CountsRow, RunRow, StopRow
from agentgym_cli.view.foreign import one_line
from agentgym_cli.view.frame import Asked, anchor, facts, framed, sections, table
from agentgym_cli.view.live import bytes_ahead
from agentgym_cli.view.requests import Answer

PAGE = 50
"""Runs on one page."""
Part = tuple[str, str, int | None]
"""Phase, split, step."""


def runs_page(asked: Asked) -> Answer:
    """All runs, the newest first; two can be chosen for a comparison."""
    asked.query.only("page")
    runs = queries.run_names(asked.reading.connection)[::-1]
    number = asked.query.counted("page")
    shown = queries.some_runs(asked.reading.connection, runs[(number - 1) * PAGE : number * PAGE])[::-1]
    if runs and not shown:
        raise queries.NotInStore(f"page {number:,}: there are {-(-len(runs) // PAGE):,} pages of runs")
    mark = marks(asked.reading.connection)
    names = ("run, digest", "compare", "environment, engine", "progress", "judged on", "end to end", "conditional", "infra", "worst to best")
    file, _, _ = asked.reading.stamp.partition("-")
    rows = [_run_row(asked, run, (file, mark.get(run.run))) for run in shown]
    body: list[Child] = [element("h1", "Runs")]
    if not runs:
        body.append(element("p", "There is no run in this store yet."))
    grid = table("Runs of this store, the newest first", names, rows, hidden=True, attributes=[{"class": "line run"}] * len(rows))
    button = element("button", "Compare A with B", attributes={"type": "submit"})
    body += [element("form", grid, element("p", button), attributes={"action": asked.link("compare"), "method": "get"})] if rows else []
    pages = [("newer runs", number - 1, "prev")] * (number > 1) + [("older runs", number + 1, "next")] * (number * PAGE < len(runs))
    body += [element("p", *(anchor(words, asked.link("", {"page": place}), rel=rel) for words, place, rel in pages))] if pages else []
    return framed(asked, "Runs", [], body, live=True, wide=True)


def _run_row(asked: Asked, run: RunRow, mark: Hashable) -> list[Child]:
    head = asked.kept.get(("head", run.run, run.status, run.segments, mark), lambda: _head(asked, run), lambda _: _HEAD_BYTES)
    link = anchor(one_line(run.run, 80), asked.link("run", {"run": run.run}))
    name = joined((link, lines(f"\n{run.name}, {run.verb}\n"), element("code", run.digest[:12])))
    figures = _figures(head.figures) if head.figures else [phrases.NO_DATA] * 4
    choose = [
        element("label", element("input", attributes={"type": "radio", "name": side, "value": run.run, "required": ""}), side.upper())
        for side in ("a", "b")
    ]
    return [
        name,
        joined(choose),
        lines(f"{run.env[:40]}\n{run.engine}, {run.profile[:40]}\npolicy {run.policy[:40]}"),
        joined((lines(head.progress), element("p", one_line(head.trouble, 300), attributes={"class": "warning"}) if head.trouble else "")),
        element("span", lines(head.part.replace(" / ", "\n").replace(", step", "\nstep")), attributes={"class": "figure"}),
        *figures,
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Head:
    """What a list of runs says of one."""

    part: str = phrases.NO_DATA
    """What it is judged on."""
    figures: Accounting | None = None
    progress: str
    trouble: str | None = None
    """Why there are no figures although there are records."""


_HEAD_BYTES = 4_000


def _head(asked: Asked, run: RunRow) -> _Head:
    """What a run is judged on, its figures, and how far it is; one that cannot be believed says so and leaves the others alone."""
    status = run.status or "in progress"
    try:
        rows = queries.counts(asked.reading.connection, run.run)
    except StoreError as err:
        return _Head(progress=status, trouble=err.message)
    curve = queries.curve(asked.reading.connection, run.run, ("success", "horizon"))
    found = standing(run, rows, curve, tuple(read_facts(run.frozen).tasks))
    progress = "\n".join((status, *(sentence[:120] for sentence in found.missing[:2])))
    part = _judged(rows)
    if part is None:
        return _Head(progress=progress)
    return _Head(part=part_name(part), figures=account_rows(of_part(rows, part), infra_unknown=untold(run.imported)), progress=progress)


def _judged(rows: Sequence[CountsRow]) -> Part | None:
    """The latest evaluation, by its first split; training where there is none."""
    parts = list(dict.fromkeys((row.phase, row.split, row.step) for row in rows))
    evaluations = [part for part in parts if part[0].startswith("eval")]
    if evaluations:
        last = max(evaluations, key=lambda part: (part[2] or 0, evaluations.index(part)))
        return next(part for part in evaluations if (part[0], part[2]) == (last[0], last[2]))
    return next((part for part in parts if part[0] == "train"), parts[-1] if parts else None)


def part_name(part: Part) -> str:
    """``eval_after / test, step 6``."""
    return f"{part[0]} / {part[1]}" + ("" if part[2] is None else f", step {part[2]}")


def of_part(rows: Sequence[CountsRow], part: Part) -> list[CountsRow]:
    """The rows of one part."""
    return [row for row in rows if (row.phase, row.split, row.step) == part]


def _figures(found: Accounting) -> list[Child]:
    """Both success figures, the infra share and both extreme cases: none of them is ever shown alone."""
    return [
        *map(_rate, (found.end_to_end, found.conditional, found.infra_share)),
        element("span", phrases.extremes(found), attributes={"class": "figure"}),
    ]


def _rate(rate: Rate) -> Html:
    value = element("strong", phrases.percent(rate.value))
    return element("span", value, lines(f"\n{phrases.of(rate)}\n{phrases.interval(rate)}"), attributes={"class": "figure"})


def run_page(asked: Asked) -> Answer:
    """One run."""
    asked.query.only("run")
    connection = asked.reading.connection
    run = queries.find_run(connection, asked.query.needed("run"))
    known = read_facts(run.frozen)
    rows = queries.counts(connection, run.run)
    curve = queries.curve(connection, run.run, CURVES)
    learned = assemble_learning(curve, queries.metric_totals(connection, run.run))
    found = standing(run, rows, curve, tuple(known.tasks))
    parts = list(dict.fromkeys((row.phase, row.split, row.step) for row in rows))
    body: list[Child] = [
        element("h1", one_line(run.run, 120)),
        *_labels(asked, run, found),
        _about(asked, run, known),
        element("section", element("h2", "What may be claimed", attributes={"id": "claims"}), _parts(asked, run, rows, parts), _bars(rows, parts)),
        sections(curves(learned)),
        element("section", element("h2", "How episodes ended"), _stops(asked, run, queries.stops(connection, run.run))),
        *_categories(asked, run, rows, parts),
        *_segments(asked, run),
    ]
    return framed(asked, run.run, [(run.run, None)], body, live=True, wide=True)


def _labels(asked: Asked, run: RunRow, found: Standing) -> Iterator[Html]:
    if run.imported or run.profile == "laptop":
        yield element("p", element("span", "imported" if run.imported else "laptop result", attributes={"class": "badge"}))
    if not found.finished:
        said = "; ".join((f"This run has not finished ({run.status or 'in progress'})", *found.missing))
        yield element("p", said, attributes={"class": "warning"})
    ahead = bytes_ahead(asked.runs_dir, run.run, loaded_bytes(asked.reading.connection, run.run))
    if ahead:
        said = f"The run's journal is {phrases.number(ahead)} bytes ahead of the store: its latest episodes appear here when they are loaded."
        yield element("p", said, attributes={"class": "warning", "id": "ahead"})


def _about(asked: Asked, run: RunRow, known: FrozenFacts) -> Html:
    pairs: list[tuple[str, Child]] = [
        ("protocol", f"{run.name}, {run.verb}, profile {run.profile} ({run.profile_reason})"),
        ("environment", one_line(run.env)),
        *([("success means", one_line(known.semantics, 600))] if known.semantics else []),
        ("engine", f"{run.engine}, policy {run.policy}, seed {phrases.seed(run.seed)}"),
        ("digest", element("code", run.digest)),
        ("status", f"{run.status or 'in progress'}; {phrases.time_span(run.created, run.ended)}"),
    ]
    links = [
        anchor("all episodes", asked.link("episodes", {"run": run.run})),
        anchor("failures", asked.link("episodes", {"run": run.run, "outcome": "failure"})),
        anchor("whole report", asked.link("report", {"run": run.run})),
        anchor("compare", asked.link("compare", {"a": run.run})),
    ]
    return element("section", facts(pairs), element("p", *links, attributes={"class": "links"}), attributes={"aria-label": "About the run"})


def words_of(run: str, part: Part) -> dict[str, object]:
    """The words of an address that choose the episodes of a part."""
    return {"run": run, "phase": part[0], "split": part[1], "step": part[2]}


def _parts(asked: Asked, run: RunRow, rows: Sequence[CountsRow], parts: Iterable[Part]) -> Html:
    names = ("", "scheduled", "end to end", "conditional", "infra", "worst to best", "failure", "infra error", "missing")
    shown: list[list[Child]] = []
    for part in parts:
        found = account_rows(of_part(rows, part), infra_unknown=untold(run.imported))
        words = words_of(run.run, part)
        outcomes = (("failure", found.failure), ("infra_error", found.infra_error), ("missing", found.missing))
        counted = [
            anchor(f"{episodes:,}", asked.link("episodes", {**words, "outcome": outcome})) if episodes else "0" for outcome, episodes in outcomes
        ]
        scheduled = anchor(f"{found.scheduled:,}", asked.link("episodes", words))
        shown.append([part_name(part), scheduled, *_figures(found), *counted])
    return table("Success against both denominators, 95% intervals", names, shown)


def _bars(rows: Sequence[CountsRow], parts: Iterable[Part]) -> Html:
    found = [(part_name(part), account_rows(of_part(rows, part))) for part in parts]
    drawn = tuple((name, (each.success, each.failure, each.infra_error, each.missing)) for name, each in found)
    block = Bars(title="What became of every scheduled episode", rows=drawn) if drawn else Prose(text="Nothing is scheduled yet.")
    return sections([Section(title="Denominators", blocks=(block,))])


def _stops(asked: Asked, run: RunRow, stops: Sequence[StopRow]) -> Html:
    rows: list[list[Child]] = []
    for row in stops:
        part = (row.phase, row.split, row.step)
        words = words_of(run.run, part) | {
            "outcome": row.outcome,
            "stop": row.stop if row.stop not in ("missing", "unknown") else None,
            "cause": row.cause,
        }
        rows.append(
            [
                anchor(f"{row.episodes:,}", asked.link("episodes", words)),
                row.outcome.replace("_", " "),
                row.stop,
                row.cause or "",
                part_name(part),
                one_line(row.example),
            ]
        )
    return table("Episodes by how they ended", ("episodes", "outcome", "stopped by", "cause", "part", "e.g."), rows)


def _categories(asked: Asked, run: RunRow, rows: Sequence[CountsRow], parts: Sequence[Part]) -> Iterator[Html]:
    shown: list[list[Child]] = []
    for part in parts:
        found = [row for row in of_part(rows, part) if row.category]
        for row in found if len(found) > 1 else ():
            words = words_of(run.run, part) | {"category": row.category}
            shown.append(
                [
                    anchor(one_line(row.category, 60), asked.link("episodes", words)),
                    part_name(part),
                    *_figures(account_rows([row], infra_unknown=untold(run.imported))),
                ]
            )
    if shown:
        names = ("category", "part", "end to end", "conditional", "infra", "worst to best")
        yield element("section", element("h2", "By category"), table("Success by category", names, shown))


def _segments(asked: Asked, run: RunRow) -> Iterator[Html]:
    found = queries.segments(asked.reading.connection, run.run)
    names = ("segment", "status", "resumed from", "begun", "superseded", "ran with")
    rows: list[list[Child]] = [
        [
            str(row.segment),
            row.status or "in progress",
            "" if row.resumed_from_step is None else f"step {row.resumed_from_step}",
            row.started.replace("+00:00", "Z"),
            f"{row.superseded_records:,} records",
            joined(element("p", one_line(sentence, phrases.LONGEST_DRIFT), attributes={"class": "warning"}) for sentence in row.drift),
        ]
        for row in found
    ]
    yield element("section", element("h2", "Segments"), table("What the run did between two starts", names, rows))
