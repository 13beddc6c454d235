"""A run's report as a page: the summary and the denominators first, then what was learned, what went wrong, and how to do it again."""

from __future__ import annotations

from collections.abc import Iterator

from agentgym_cli.report import phrases, sections
from agentgym_cli.report.blocks import Bars, Block, Code, Facts, Grid, Line, Prose, Section
from agentgym_cli.report.compare import Comparisons
from agentgym_cli.report.compared import compared, outcome_counts, title
from agentgym_cli.report.curves import starts_at
from agentgym_cli.report.figures import Accounting, Change, Rate
from agentgym_cli.report.html import page
from agentgym_cli.report.model import Curve, Learning, Part, Report

_RATES = ("share", "of", "95% interval", "how")


def report_page(report: Report) -> str:
    """The report of one run."""
    header = report.header
    labels = [header.label] if header.label else []
    labels += ["degraded"] if header.degraded else []
    labels += ["ran with drift"] if header.drift else []
    labels += [] if report.standing.finished else [header.status]
    return page(f"{header.recipe}, {header.verb}", list(_all(report)), labels)


def comparison_page(found: Comparisons) -> str:
    """Runs against a base run."""
    return page(title(found), compared(found))


def _all(report: Report) -> Iterator[Section]:
    yield _summary(report)
    yield from sections.standing(report)
    yield from sections.overlaps(report)
    yield _denominators(report)
    yield from _before_and_after(report)
    yield from curves(report.learning)
    yield from _diagnosis(report)
    yield from map(_part, report.parts)
    yield from (*sections.averages(report), *sections.several_tries(report), *sections.stages(report))
    yield from _failures(report)
    yield from sections.matrices(report, len(max((m.tasks for m in report.matrices), key=len, default=())))
    yield from (*sections.spending(report), *sections.papers(report, brief=False))
    yield from _metrics(report)
    yield from _segments(report)
    yield from _probes(report)
    yield from (*sections.servers(report), *sections.rules(report), *sections.gates(report))
    yield _frozen(report)


def _summary(report: Report) -> Section:
    header = report.header
    pairs = [
        ("run", header.run),
        ("status", f"{header.status}; {phrases.time_span(header.created, header.ended)}"),
        ("profile", f"{header.profile} ({header.profile_reason})"),
        ("engine", f"{header.engine}, policy {header.policy}, seed {phrases.seed(header.seed)}"),
        ("environment", f"{header.env}, outcome from {header.outcome_from}"),
        *([("success means", header.semantics)] if header.semantics else []),
        ("promise", f"{header.promise}: {header.promise_note}"),
        ("digest", header.digest),
    ]
    warnings = [f"Degraded: {header.degraded}"] if header.degraded else []
    warnings += [f"Drift allowed: {sentence}" for sentence in header.drift]
    rows = tuple(_success(_name(part), part.accounting) for part in report.parts)
    names = ("", "end to end", "conditional", "infra", "worst to best case", "missing")
    grid = Grid(caption="Success against both denominators, 95% intervals", names=names, rows=rows)
    return Section(title="Summary", blocks=(*(Prose(text=text, tone="warning") for text in warnings), grid, Facts(pairs=tuple(pairs))))


def _name(part: Part) -> str:
    return f"{part.phase} / {part.split}" + ("" if part.step is None else f", step {part.step}")


def _rate(rate: Rate, usual: Rate | None = None) -> str:
    """A share over its interval; with ``usual``, the rate whose label a page gives, what is not as there."""
    if rate.value is None:
        return f"{phrases.NO_DATA}\n{phrases.of(rate)}"
    lines = [f"{phrases.percent(rate.value)} ({phrases.of(rate)})", phrases.interval(rate), *(phrases.apart_from(rate, usual) if usual else ())]
    return "\n".join(lines)


def _success(name: str, found: Accounting, usual: Accounting | None = None) -> tuple[str, ...]:
    others = (usual.end_to_end, usual.conditional, usual.infra_share) if usual else (None, None, None)
    rates = map(_rate, (found.end_to_end, found.conditional, found.infra_share), others)
    return (name, *rates, phrases.extremes(found), f"{found.missing:,}")


def _denominators(report: Report) -> Section:
    rows = tuple((_name(part), outcome_counts(part.accounting)) for part in report.parts)
    ledgers = tuple(Prose(text=f"{_name(part)}: {part.ledger.sentence}") for part in report.parts)
    drawn = (Bars(title="What became of every scheduled episode", rows=rows),) if rows else ()
    return Section(title="Denominators", blocks=(*drawn, *ledgers))


def _before_and_after(report: Report) -> Iterator[Section]:
    def row(name: str, before: Rate, after: Rate, changed: Change) -> tuple[str, ...]:
        return (name, _rate(before), _rate(after), "\n".join(phrases.points(changed)), changed.method or "")

    for item in report.comparisons:
        rows = [
            row("end to end", item.before.end_to_end, item.after.end_to_end, item.end_to_end),
            row("conditional", item.before.conditional, item.after.conditional, item.conditional),
            ("infra", _rate(item.before.infra_share), _rate(item.after.infra_share), "", ""),
            ("worst to best case", phrases.extremes(item.before), phrases.extremes(item.after), "", ""),
        ]
        grid = Grid(caption="Differences in points, 95% intervals", names=("", "before", "after", "points", "how"), rows=tuple(rows))
        yield Section(title=f"Before and after training: {item.split}", blocks=(grid,))


def curves(learning: Learning) -> Iterator[Section]:
    """What was learned, drawn over the shaded stages of the horizon; no section where nothing was."""
    lines = [_line(curve, learning) for curve in learning.curves if curve.name != "horizon" and any(value is not None for _, value in curve.points)]
    groups: list[Block] = [Facts(pairs=(("groups", phrases.groups(learning.groups)),))] if learning.groups else []
    if lines:
        yield Section(title="Learning", blocks=(*lines, *groups))


_WORDS = {"success": "success of scored episodes", "reward_mean": "mean reward", "loss": "loss"}


def _line(curve: Curve, learning: Learning) -> Line:
    what = f"{curve.phase}: {_WORDS.get(curve.name, curve.name)}"
    top = 1.0 if curve.name == "success" else None
    if curve.phase != "train":
        return Line(title=what, x="step", points=tuple((float(step), value) for step, value in curve.points), shades=(), top=top)
    if learning.axis is None:
        shades = tuple((float(stage.first_step), float(stage.last_step), f"horizon {stage.horizon}") for stage in learning.stages)
        return Line(title=f"{what}, by step", x="step", points=tuple((float(step), value) for step, value in curve.points), shades=shades, top=top)
    at = dict(learning.axis.at)
    points = tuple((at[step], value) for step, value in curve.points if step in at)
    spans = tuple(
        (starts_at(learning.axis, stage.first_step), at.get(stage.last_step, points[-1][0]), f"horizon {stage.horizon}") for stage in learning.stages
    )
    shades = tuple((max(begins, points[0][0]), ends, label) for begins, ends, label in spans)
    return Line(title=f"{what}, by {learning.axis.name}", x=learning.axis.name, points=points, shades=shades, top=top)


def _diagnosis(report: Report) -> Iterator[Section]:
    for section in sections.diagnosis(report, queries=True):
        yield Section(title=section.title, blocks=(*section.blocks, sections.quiet_rules(report)))


def _part(part: Part) -> Section:
    found = part.accounting
    rates = (("end to end", found.end_to_end), ("conditional", found.conditional), ("infra", found.infra_share))
    rows = tuple(
        (name, phrases.percent(rate.value), phrases.of(rate), phrases.interval(rate), rate.method or phrases.NO_DATA) for name, rate in rates
    )
    blocks: list[Block] = [Grid(caption="All tasks of the split", names=("", *_RATES), rows=rows)]
    if len(part.categories) > 1:
        names = ("category", "end to end", "conditional", "infra", "worst to best case", "missing")
        shown = tuple(_success(item.name, item.accounting, found) for item in part.categories)
        blocks += [Grid(caption="By category", names=names, rows=shown), sections.category_sums(part)]
    return Section(title=_name(part), blocks=(*blocks, Facts(pairs=tuple(phrases.details(part))), Code(what="Rows", text=part.rows)))


def _failures(report: Report) -> Iterator[Section]:
    rows = tuple(
        (_name(part), stop.reason, stop.cause or "", f"{stop.episodes:,}", stop.example)
        for part in report.parts
        for stop in part.stops
        if stop.reason != "done"
    )
    if rows:
        grid = Grid(
            caption="Episodes that did not end with done, by reason and cause", names=("", "stopped by", "cause", "episodes", "e.g."), rows=rows
        )
        yield Section(title="Failures", blocks=(grid,))


def _metrics(report: Report) -> Iterator[Section]:
    rows = tuple(
        (item.phase, item.name, f"{item.steps:,}", *map(phrases.number, (item.first, item.last, item.mean, item.least, item.most)))
        for item in report.learning.metrics
    )
    if rows:
        names = ("phase", "metric", "steps", "first", "last", "mean", "least", "most")
        yield Section(title="Metrics", blocks=(Grid(caption="Every metric over its steps", names=names, rows=rows),))


def _segments(report: Report) -> Iterator[Section]:
    blocks = [Prose(text=phrases.segment(segment)) for segment in report.segments]
    drift = [Prose(text=f"segment {segment.segment} ran with {said}", tone="warning") for segment in report.segments for said in segment.drift]
    yield Section(title="Segments and drift", blocks=(*blocks, *drift, *(() if drift else (Prose(text="No drift was recorded.", tone="good"),))))


def _probes(report: Report) -> Iterator[Section]:
    if report.probes:
        rows = tuple((probe.name, probe.result, probe.url, probe.detail) for probe in report.probes)
        marks = tuple(("", {"pass": "good", "fail": "bad"}.get(probe.result, "weak"), "", "") for probe in report.probes)
        grid = Grid(caption="Checks of the latest segment that probed", names=("check", "result", "server", "detail"), rows=rows, marks=marks)
        yield Section(title="Probes", blocks=(Prose(text=phrases.probes(report.probes)), grid))


def _frozen(report: Report) -> Section:
    header = report.header
    pairs = (("digest", header.digest), ("stack", header.stack or phrases.NO_DATA), ("lock, SHA-256", header.lock or phrases.NO_DATA))
    blocks: list[Block] = [Facts(pairs=pairs)]
    if report.checkpoints:
        rows = tuple((f"{item.step:,}", item.path, item.digest) for item in report.checkpoints)
        blocks.append(Grid(caption="Checkpoints", names=("step", "folder", "SHA-256 of the weights"), rows=rows))
    return Section(title="How to reproduce", blocks=(*blocks, *(Code(what=pointer.what, text=pointer.how) for pointer in report.reproduce)))
