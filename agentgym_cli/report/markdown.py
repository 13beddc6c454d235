"""A report as Markdown, for a pull request or a page. Computes nothing; foreign text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentgym_cli.report import phrases, sections
from agentgym_cli.report.blocks import Block, Code, Facts, Grid, Prose, Section
from agentgym_cli.report.curves import draw_curves
from agentgym_cli.report.figures import Accounting, Change, Rate
from agentgym_cli.report.model import Comparison, Part, Report
from agentgym_cli.report.text import for_code, for_markdown

_PLOT_WIDTH = 90
_TASKS = 60
"""Tasks of each split that are shown one by one."""


def render(report: Report) -> str:
    """The whole report."""
    blocks = [_header(report), *_sections((*sections.standing(report), *sections.overlaps(report)))]
    blocks += [_comparison(item) for item in report.comparisons]
    blocks += [_part(part) for part in report.parts]
    blocks += _sections((*sections.averages(report), *sections.several_tries(report), *sections.diagnosis(report, queries=True)))
    blocks.append(_learning(report))
    blocks += _sections(
        (*sections.stages(report), *sections.spending(report), *sections.papers(report, brief=False), *sections.matrices(report, _TASKS))
    )
    blocks += [
        _segments(report),
        _probes(report),
        *_sections(sections.servers(report)),
        _checkpoints(report),
        *_sections((*sections.rules(report), *sections.gates(report))),
    ]
    blocks.append("## How to reproduce\n\n" + "\n".join(f"- {pointer.what}: {for_code(pointer.how)}" for pointer in report.reproduce))
    return "\n\n".join(block for block in blocks if block) + "\n"


def render_sections(title: str, found: Iterable[Section]) -> str:
    """Sections under a title: a comparison, a gate's decision."""
    return "\n\n".join([f"# {for_markdown(title)}", *_sections(found)]) + "\n"


def _sections(found: Iterable[Section]) -> list[str]:
    return ["\n\n".join([f"## {for_markdown(section.title)}", *filter(None, map(_block, section.blocks))]) for section in found]


def _block(block: Block) -> str:
    if isinstance(block, Facts):
        return _facts(block.pairs)
    if isinstance(block, Grid):
        rows = [["<br>".join(for_markdown(line, 400) for line in cell.split("\n")) for cell in row] for row in block.rows]
        return f"{for_markdown(block.caption)}\n\n" + _table([for_markdown(name) for name in block.names], rows)
    if isinstance(block, Prose):
        text = for_markdown(block.text, 600)
        return f"**{text}**" if block.tone == "warning" else text
    return f"{block.what}: {for_code(block.text)}" if isinstance(block, Code) else ""


def _table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def _facts(pairs: Iterable[tuple[str, str]]) -> str:
    return _table(["", ""], [(for_markdown(name), for_markdown(value, 400)) for name, value in pairs])


def _header(report: Report) -> str:
    header = report.header
    labels = [header.label] if header.label else []
    labels += ["degraded"] if header.degraded else []
    labels += ["ran with drift"] if header.drift else []
    label = f" ({', '.join(labels)})" if labels else ""
    degraded = f"- Degraded: {for_markdown(header.degraded, 400)}" if header.degraded else ""
    drift = "\n".join(f"- Drift allowed: {for_markdown(sentence, phrases.LONGEST_DRIFT)}" for sentence in header.drift)
    facts = [
        ("run", header.run),
        ("status", header.status),
        ("time", phrases.time_span(header.created, header.ended)),
        ("verb", header.verb),
        ("profile", f"{header.profile} ({header.profile_reason})"),
        ("engine", header.engine),
        ("policy", header.policy),
        ("seed", phrases.seed(header.seed)),
        ("environment", header.env),
        ("outcome from", header.outcome_from),
        *([("success means", header.semantics)] if header.semantics else []),
        ("promise", f"{header.promise}: {header.promise_note}"),
        ("digest", header.digest),
        ("stack, lock", f"{header.stack or phrases.NO_DATA}, {header.lock or phrases.NO_DATA}"),
    ]
    return "\n\n".join(filter(None, [f"# {for_markdown(header.recipe)}{label}", _facts(facts), degraded, drift]))


def _rate(rate: Rate, usual: Rate | None = None) -> str:
    """A share with its interval; with ``usual``, the rate whose label a page gives, what is not as there."""
    if rate.value is None:
        return f"{phrases.NO_DATA}: {phrases.of(rate)}"
    said = ", ".join([f"95% {phrases.interval(rate)}", *(phrases.apart_from(rate, usual) if usual else ())])
    return f"{phrases.percent(rate.value)} ({phrases.of(rate)}; {said})"


def _success(name: str, accounting: Accounting, usual: Accounting | None = None) -> list[str]:
    found = (accounting.end_to_end, accounting.conditional, accounting.infra_share)
    others = (usual.end_to_end, usual.conditional, usual.infra_share) if usual else (None, None, None)
    rates = [_rate(rate, other) for rate, other in zip(found, others, strict=True)]
    return [for_markdown(name) or "(none)", f"{accounting.scheduled:,}", *rates, phrases.extremes(accounting), f"{accounting.missing:,}"]


_SUCCESS = ["", "scheduled", "end to end", "conditional", "infra", "worst to best case", "missing"]


def _comparison(item: Comparison) -> str:
    def row(name: str, before: Rate, after: Rate, changed: Change) -> list[str]:
        return [name, _rate(before), _rate(after), "; 95% ".join(phrases.points(changed)), phrases.overlap(changed)]

    nothing = ["", ""]
    rows = [
        row("end to end", item.before.end_to_end, item.after.end_to_end, item.end_to_end),
        row("conditional", item.before.conditional, item.after.conditional, item.conditional),
        ["infra", _rate(item.before.infra_share), _rate(item.after.infra_share), *nothing],
        ["worst to best case", phrases.extremes(item.before), phrases.extremes(item.after), *nothing],
    ]
    table = _table(["", "before", "after", "points", "intervals"], rows)
    return f"## Before and after training: {for_markdown(item.split)}\n\n{table}"


def _part(part: Part) -> str:
    weights = "" if part.step is None else f", weights of step {part.step}"
    title = f"## {for_markdown(part.phase)} / {for_markdown(part.split)}{weights}"
    categories = part.categories if len(part.categories) > 1 else ()
    table = _table(_SUCCESS, [_success("all", part.accounting), *(_success(item.name, item.accounting, part.accounting) for item in categories)])
    sums = f"\n\n{_block(sections.category_sums(part))}" if categories else ""
    return f"{title}\n\n{table}{sums}\n\n{_facts(phrases.details(part))}\n\nRows: {for_code(part.rows)}"


def _learning(report: Report) -> str:
    learning = report.learning
    if not learning.metrics:
        return ""
    drawn = [
        f"{for_markdown(title)}\n\n```text\n" + "\n".join(lines) + "\n```"
        for title, lines in draw_curves(learning, width=_PLOT_WIDTH, ascii_only=False)
    ]
    groups = [_facts([("groups", phrases.groups(learning.groups))])] if learning.groups else []
    rows = [
        [for_markdown(metric.phase), for_markdown(metric.name), f"{metric.steps:,}"]
        + [phrases.number(value) for value in (metric.first, metric.last, metric.mean, metric.least, metric.most)]
        for metric in learning.metrics
    ]
    table = _table(["phase", "metric", "steps", "first", "last", "mean", "least", "most"], rows)
    return "\n\n".join(["## Learning", *drawn, *groups, table])


def _segments(report: Report) -> str:
    return "## Segments\n\n" + "\n".join(f"- {for_markdown(phrases.segment(segment), 400)}" for segment in report.segments)


def _probes(report: Report) -> str:
    if not report.probes:
        return ""
    rows = [[for_markdown(cell) for cell in (probe.result, probe.name, probe.url, probe.detail)] for probe in report.probes]
    return f"## Probes\n\n{phrases.probes(report.probes)}\n\n" + _table(["result", "check", "server", "detail"], rows)


def _checkpoints(report: Report) -> str:
    if not report.checkpoints:
        return ""
    rows = [[f"{item.step:,}", for_markdown(item.path), for_markdown(item.digest)] for item in report.checkpoints]
    return "## Checkpoints\n\n" + _table(["step", "folder", "SHA-256 of the weights"], rows)
