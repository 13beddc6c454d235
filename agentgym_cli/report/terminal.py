"""A report on a terminal, 80 columns wide and as readable through a pipe. Computes nothing; foreign text is stripped."""

from __future__ import annotations

from collections.abc import Container, Iterable

from rich.console import Console, JustifyMethod
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from agentgym_cli.report import phrases, sections
from agentgym_cli.report.blocks import Block, Code, Facts, Grid, Prose, Section
from agentgym_cli.report.curves import draw_curves
from agentgym_cli.report.figures import Accounting, Change, Rate
from agentgym_cli.report.model import Comparison, Header, Part, Report
from agentgym_cli.report.text import for_terminal

_PARAGRAPH = 600
"""Most characters of a paragraph that can hold foreign text."""
_NAME = 14
"""A column of words no longer than this is never wrapped."""
_WIDTH = 100
"""Lines longer than this are hard to read, whatever the terminal's width."""
_SHOWN = ("logp_difference_max", "time/tokens_per_second", "approx_kl", "clip_fraction")
_AGES = ("policy_age_max", "policy_age_mean")
"""Metrics of training that are shown: these where any weights were not the newest."""


class _Page:
    """Prints lines of cleaned text; nothing is ever read as markup."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.ascii_only = not console.encoding.startswith("utf")
        self.width = min(console.width, _WIDTH)

    def clean(self, text: str) -> str:
        return for_terminal(text, ascii_only=self.ascii_only)

    def line(self, text: str = "", style: str = "") -> None:
        self.console.print(Text(text, style=style), width=self.width, soft_wrap=False)

    def indented(self, text: str, style: str = "") -> None:
        """A paragraph, wrapped under itself."""
        self.console.print(Padding(Text(text, style=style), (0, 0, 0, 2), expand=False), width=self.width)

    def heading(self, text: str) -> None:
        self.line()
        self.line(self.clean(text), "bold")

    def facts(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Two columns, the second wrapped under itself."""
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column(overflow="fold")
        for name, value in pairs:
            grid.add_row(Text(self.clean(name)), Text(for_terminal(value, ascii_only=self.ascii_only, limit=_PARAGRAPH)))
        self._indented(grid)

    def table(self, names: list[str], rows: Iterable[list[str]], words: Container[int] = (0,)) -> None:
        """Columns whose numbers are in ``words`` stand left, all others right."""
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_edge=False)
        cleaned = [["\n".join(map(self.clean, cell.split("\n"))) for cell in row] for row in rows]
        for number, name in enumerate(map(self.clean, names)):
            lines = [name, *(line for row in cleaned for line in row[number].split("\n"))]
            # Names of shares and cases stay whole: what is broken in the middle of a word cannot be looked for.
            whole = number in words and max(map(len, lines)) <= _NAME
            justify: JustifyMethod = "left" if number in words else "right"
            table.add_column(Text(name), header_style="dim", overflow="fold", justify=justify, no_wrap=whole)
        for row in cleaned:
            table.add_row(*map(Text, row))
        self._indented(table)

    def section(self, section: Section) -> None:
        """A section that every form has; figures are left out."""
        self.heading(section.title)
        for block in section.blocks:
            self.block(block)

    def block(self, block: Block) -> None:
        if isinstance(block, Facts):
            self.facts(block.pairs)
        elif isinstance(block, Grid):
            self.indented(self.clean(block.caption), "dim")
            columns = zip(*block.rows, strict=True)
            words = [place for place, cells in enumerate(columns) if not all(map(_number, cells))]
            self.table(list(block.names), map(list, block.rows), words)
        elif isinstance(block, Prose):
            style = {"warning": "yellow", "good": "green"}.get(block.tone, "")
            self.indented(for_terminal(block.text, ascii_only=self.ascii_only, limit=_PARAGRAPH), style)
        elif isinstance(block, Code):
            self.facts([(block.what, block.text)])

    def _indented(self, table: Table) -> None:
        self.console.print(Padding(table, (0, 0, 0, 2), expand=False), width=self.width)


def _number(cell: str) -> bool:
    return cell in ("", phrases.NO_DATA) or cell.lstrip("+-")[:1].isdigit()


def print_report(report: Report, console: Console) -> None:
    """Print the whole report."""
    page = _Page(console)
    _header(page, report.header)
    _sections(page, (*sections.standing(report), *sections.overlaps(report)))
    for comparison in report.comparisons:
        _comparison(page, comparison)
    for part in report.parts:
        _part(page, part)
    _sections(page, (*sections.averages(report), *sections.several_tries(report), *sections.diagnosis(report, queries=False)))
    _learning(page, report)
    _sections(page, (*sections.stages(report), *sections.spending(report), *sections.papers(report, brief=True), *sections.matrices(report, 0)))
    _segments(page, report)
    _probes(page, report)
    _sections(page, (*sections.servers(report), *sections.rules(report), *sections.gates(report)))
    page.heading("How to reproduce")
    page.facts((pointer.what, pointer.how) for pointer in report.reproduce)


def print_sections(title: str, found: Iterable[Section], console: Console) -> None:
    """Print sections under a title: a comparison, a gate's decision."""
    page = _Page(console)
    page.line(page.clean(title), "bold")
    _sections(page, found)


def _sections(page: _Page, found: Iterable[Section]) -> None:
    for section in found:
        page.section(section)


def _header(page: _Page, header: Header) -> None:
    label = f"  [{header.label.upper()}]" if header.label else ""
    label += "  [DEGRADED]" if header.degraded else ""
    label += "  [RAN WITH DRIFT]" if header.drift else ""
    page.line(page.clean(f"{header.recipe}, {header.verb}{label}"), "bold")
    facts = [
        ("run", header.run),
        ("status", f"{header.status}; {phrases.time_span(header.created, header.ended)}"),
        ("profile", f"{header.profile} ({header.profile_reason})"),
        ("engine", f"{header.engine}, policy {header.policy}, seed {phrases.seed(header.seed)}"),
        ("environment", f"{header.env}, outcome from {header.outcome_from}"),
        ("promise", f"{header.promise}: {header.promise_note}"),
        ("digest", header.digest),
    ]
    if header.semantics:
        facts.insert(5, ("success means", header.semantics))
    if header.stack:
        facts += [("stack", header.stack), ("lock", header.lock or phrases.NO_DATA)]
    page.facts(facts)
    if header.degraded:
        page.indented(page.clean(f"Degraded: {header.degraded}"), "yellow")
    for sentence in header.drift:
        page.indented(for_terminal(f"Drift allowed: {sentence}", ascii_only=page.ascii_only, limit=phrases.LONGEST_DRIFT), "yellow")


def _comparison(page: _Page, item: Comparison) -> None:
    page.heading(f"Before and after training: {item.split}")
    infra = [phrases.percent(rate.value) for rate in (item.before.infra_share, item.after.infra_share)]
    rows = [
        _compared("end to end", item.before.end_to_end, item.after.end_to_end, item.end_to_end),
        _compared("conditional", item.before.conditional, item.after.conditional, item.conditional),
        ["infra", *infra, "", ""],
        ["worst to best", phrases.extremes(item.before), phrases.extremes(item.after), "", ""],
    ]
    page.table(["", "before", "after", "points, 95%", "intervals"], rows)


def _compared(name: str, before: Rate, after: Rate, changed: Change) -> list[str]:
    cells = [_cell(rate) for rate in (before, after)]
    return [name, *cells, "\n".join([*phrases.points(changed), *([changed.method] if changed.method else [])]), phrases.overlap(changed)]


def _cell(rate: Rate, usual: Rate | None = None) -> str:
    """A share over its interval; with ``usual``, the rate whose label a page gives, what is not as there."""
    if rate.value is None:
        return f"{phrases.NO_DATA}\n{phrases.of(rate)}"
    return f"{phrases.percent(rate.value)} {phrases.of(rate)}\n" + "\n".join(
        [phrases.interval(rate), *(phrases.apart_from(rate, usual) if usual else ())]
    )


def _part(page: _Page, part: Part) -> None:
    weights = "" if part.step is None else f", weights of step {part.step}"
    page.heading(f"{part.phase} / {part.split}{weights}")
    accounting = part.accounting
    rates = [("end to end", accounting.end_to_end), ("conditional", accounting.conditional), ("infra", accounting.infra_share)]
    rows = [[name, phrases.percent(rate.value), phrases.of(rate), phrases.interval(rate)] for name, rate in rates]
    infra = phrases.NO_DATA if accounting.scheduled and accounting.best_case.value is None else f"{accounting.infra_error:,}"
    unscored = f"{infra} infra, {accounting.missing:,} missing"
    rows.append(["worst to best case", phrases.extremes(accounting), unscored, ""])
    page.table(["", "share", "of", "95% interval"], rows)
    if len(part.categories) > 1:
        _categories(page, part)
        page.block(sections.category_sums(part))
    page.facts(phrases.details(part))


def _rates(accounting: Accounting) -> tuple[Rate, Rate, Rate]:
    return accounting.end_to_end, accounting.conditional, accounting.infra_share


def _categories(page: _Page, part: Part) -> None:
    rows = []
    for category in part.categories:
        accounting = category.accounting
        pairs = zip(_rates(accounting), _rates(part.accounting), strict=True)
        cells = [_cell(rate, usual) for rate, usual in pairs]
        rows.append([category.name, *cells, phrases.extremes(accounting).replace(" to ", "\nto ")])
    page.table(["category", "end to end", "conditional", "infra", "worst to best"], rows)


def _learning(page: _Page, report: Report) -> None:
    learning = report.learning
    for title, lines in draw_curves(learning, width=page.width, ascii_only=page.ascii_only):
        page.heading(title)
        for line in lines:
            page.line(line)
    if learning.groups:
        page.facts([("groups", phrases.groups(learning.groups))])
    shown = [metric for metric in learning.metrics if metric.name in _SHOWN or (metric.name in _AGES and metric.most)]
    page.facts([(f"{metric.phase} {metric.name}", f"mean {phrases.number(metric.mean)}, most {phrases.number(metric.most)}") for metric in shown])


def _segments(page: _Page, report: Report) -> None:
    if len(report.segments) < 2:
        return
    page.heading("Segments")
    for segment in report.segments:
        page.line("  " + page.clean(phrases.segment(segment)))


def _probes(page: _Page, report: Report) -> None:
    if not report.probes:
        return
    page.heading("Probes")
    page.line(f"  {phrases.probes(report.probes)}")
    for probe in report.probes:
        if probe.result not in ("pass", "n/a"):
            page.line(page.clean(f"  {probe.result}: {probe.name} at {probe.url}: {probe.detail}"))
