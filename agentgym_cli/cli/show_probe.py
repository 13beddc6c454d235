"""What a probe found, on stdout: every check of one server, or checks by servers; and in files, as JSON and as JUnit XML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from agentgym_cli.cli.junit import junit_xml
from agentgym_cli.cli.show import print_json, stdout_console
from agentgym_cli.errors import StoreError
from agentgym_cli.recipe.canonical import printed_json
from agentgym_cli.report.text import for_terminal
from agentgym_cli.verbs.world import probe_failure

if TYPE_CHECKING:
    from agentgym_cli.env.probe import CheckResult, ProbeReport, ServerReport

_COLOURS = {"pass": "green", "fail": "red", "known deviation": "yellow", "n/a": "dim"}
_SHORT = {"pass": "pass", "fail": "FAIL", "known deviation": "known", "n/a": "n/a"}
_COLUMNS = 8
"""Most servers that one table of 80 columns holds."""
_LONGEST = 600
"""Most characters of a detail that are shown."""


def show_probe(report: ProbeReport, *, as_json: bool, output: Path | None = None, junit: Path | None = None) -> None:
    """Print every check of every server and write the files that were asked for. Raises EnvError (exit 4) when a check failed."""
    if as_json:
        print_json(values(report))
    else:
        _print(report, stdout_console())
    if output is not None:
        write_result(output, printed_json(values(report), indent=2) + "\n")
    if junit is not None:
        write_result(junit, junit_xml(report))
    if not report.ok:
        raise probe_failure(report)


def values(report: ProbeReport) -> dict[str, object]:
    """The report as JSON has it."""
    servers = [{"url": server.url, "checks": [asdict(check) for check in server.checks]} for server in report.servers]
    return {"dialect": report.dialect, "level": report.level, "ok": report.ok, "servers": servers}


def _print(report: ProbeReport, console: Console) -> None:
    if len(report.servers) == 1:
        _print_server(report, report.servers[0], console)
        return
    console.print(f"{len(report.servers)} servers ({report.dialect}, {report.level})")
    if len(report.servers) <= _COLUMNS:
        _print_side_by_side(report.servers, console)
    else:
        _print_summaries(report.servers, console)
    _print_findings(report.servers, console)


def _print_server(report: ProbeReport, server: ServerReport, console: Console) -> None:
    """Every check with its detail."""
    table = Table(title=f"{_clean(server.url)} ({report.dialect}, {report.level})", title_justify="left", box=None, padding=(0, 1))
    for name, least in (("check", 16), ("result", 15), ("detail", 30)):
        table.add_column(name, min_width=least, overflow="fold")
    for check in server.checks:
        table.add_row(check.name, coloured(check.result, check.result), _clean(check.detail))
    console.print(table)
    for check in server.checks:
        if check.rungs:
            _print_rungs(check, console)


def _print_rungs(check: CheckResult, console: Console) -> None:
    table = Table(title=f"{check.name}, in milliseconds", title_justify="left", box=None, padding=(0, 1))
    for name in ("sessions", "calls", "failed", "p50", "p95", "p99"):
        table.add_column(name, justify="right")
    for rung in check.rungs:
        times = ("n/a" if time is None else f"{time:.1f}" for time in (rung.p50_ms, rung.p95_ms, rung.p99_ms))
        table.add_row(str(rung.sessions), str(rung.calls), f"{rung.failed} ({rung.failed / rung.calls:.1%})", *times)
    console.print(table)


def _print_side_by_side(servers: Sequence[ServerReport], console: Console) -> None:
    """Checks by servers; a server is a number, explained below."""
    table = Table(box=None, padding=(0, 1, 0, 0))
    table.add_column("check", no_wrap=True)
    for number, _ in enumerate(servers, start=1):
        table.add_column(str(number), justify="right", no_wrap=True)
    for row in zip(*(server.checks for server in servers), strict=True):
        table.add_row(row[0].name, *(coloured(_SHORT[check.result], check.result) for check in row))
    console.print(table)
    for number, server in enumerate(servers, start=1):
        console.print(f" {number}  {_clean(server.url)}", soft_wrap=True)


def _print_summaries(servers: Sequence[ServerReport], console: Console) -> None:
    """One line a server: how many checks went how."""
    table = Table(box=None, padding=(0, 1))
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("server", overflow="fold")
    for result in _SHORT.values():
        table.add_column(result, justify="right", no_wrap=True)
    for number, server in enumerate(servers, start=1):
        count = Counter[str](check.result for check in server.checks)
        cells = (coloured(str(count[result]), result if count[result] else "n/a") for result in _COLOURS)
        table.add_row(str(number), _clean(server.url), *cells)
    console.print(table)


def _print_findings(servers: Sequence[ServerReport], console: Console) -> None:
    """Failures, then known deviations, each once with the numbers of the servers that have it."""
    found: dict[tuple[str, str, str], list[int]] = {}
    for wanted in ("fail", "known deviation"):
        for number, server in enumerate(servers, start=1):
            for check in server.checks:
                if check.result == wanted:
                    found.setdefault((wanted, check.name, check.detail), []).append(number)
    for (result, name, detail), numbers in found.items():
        where = f"server{'s' if len(numbers) > 1 else ''} {', '.join(_ranges(numbers))}"
        console.print(f"{coloured(result, result)}: {name} at {where}: {_clean(detail)}", soft_wrap=True)


def _ranges(numbers: Sequence[int]) -> Iterator[str]:
    """Rising numbers, neighbours joined: 1-3, 7."""
    first = last = numbers[0]
    for number in (*numbers[1:], None):
        if number is None or number != last + 1:
            yield str(first) if first == last else f"{first}-{last}"
            first = number or first
        last = number or last


def coloured(text: str, result: str) -> str:
    """A text in the colour of a result, as markup."""
    return f"[{_COLOURS[result]}]{text}[/{_COLOURS[result]}]"


def _clean(text: str) -> str:
    return escape(for_terminal(text, limit=_LONGEST))


def write_result(path: Path, text: str) -> None:
    """Write what a probe found. Raises StoreError."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as err:
        raise StoreError(f"{path}: expected to write the result of the probe, got: {err.strerror or err}", "choose another place") from err
