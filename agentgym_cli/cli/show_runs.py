"""Several runs of one command on stdout: each played after the other, then side by side in one table."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from agentgym_cli.cli.live import StderrProgress, stderr_progress
from agentgym_cli.cli.show import print_json, report_of, run_and_report, stdout_console
from agentgym_cli.errors import AgentgymError, Degraded, Interrupted, StoreError

if TYPE_CHECKING:
    from rich.console import Console

    from agentgym_cli.report.model import Report
    from agentgym_cli.verbs.request import Request
    from agentgym_cli.verbs.segment import Finished

Verb = Callable[["Request", StderrProgress], "Finished"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Played:
    """What became of one request."""

    name: str
    """Who was asked to act."""
    run: str | None
    """None where it did not come to a run."""
    report: Report | None
    """None where there is no run, or the store waits."""
    failure: AgentgymError | None


def run_all_and_report(verb: Verb, requests: Sequence[Request], *, as_json: bool) -> None:
    """Run one request and print its report; or several, one after the other, and print them side by side.

    A policy that fails does not keep the others from being played; an interrupt does.

    Raises:
        AgentgymError: of the first that failed, or Degraded for the first whose infra share is too large, after the table.
    """
    if len(requests) == 1:
        run_and_report(verb, requests[0], as_json=as_json)
        return
    progress = stderr_progress()
    played: list[_Played] = []
    for number, request in enumerate(requests, start=1):
        progress.note("policy", f"{number} of {len(requests)}: {_asked(request)}")
        played.append(_play(verb, request, progress))
        if isinstance(played[-1].failure, Interrupted):
            break
    _show(played, as_json=as_json)
    failures = [each.failure for each in played if each.failure is not None]
    if failures:
        raise next((failure for failure in failures if not isinstance(failure, Degraded)), failures[0])


def _play(verb: Verb, request: Request, progress: StderrProgress) -> _Played:
    name = _asked(request)
    try:
        finished = verb(request, progress)
    except AgentgymError as failure:
        progress.warn(f"{name}: {failure.message}")
        return _Played(name=name, run=None, report=None, failure=failure)
    run, report = finished.prepared.name, report_of(finished)
    if isinstance(report, StoreError):
        return _Played(name=name, run=run, report=None, failure=report)
    degraded = None if finished.degraded is None or request.allow_degraded else Degraded(f"{run}: {finished.degraded}", f"agentgym report {run}")
    return _Played(name=name, run=run, report=report, failure=degraded)


def _asked(request: Request) -> str:
    choice = request.policy
    assert choice is not None
    if choice.endpoint is not None:
        return f"{choice.model or 'the model'} at {choice.endpoint}"
    return str(choice.checkpoint or choice.kind or "the recipe's policy")


def _show(played: Sequence[_Played], *, as_json: bool) -> None:
    if as_json:
        print_json([_document(each) for each in played])
        return
    console = stdout_console()
    for number, each in enumerate(played, start=1):
        state = "" if each.failure is None else f": {each.failure.message}"
        console.print(f"[bold]{number}[/bold]  {escape(_clean(console, each.name))}{escape(_clean(console, state))}", soft_wrap=True)
        if each.report is not None:
            console.print(f"   {escape(_clean(console, each.report.header.policy))}", soft_wrap=True)
        if each.run is not None:
            console.print(f"   agentgym report {escape(each.run)}", soft_wrap=True)
    if any(each.report is not None for each in played):
        console.print(_table(played))
        console.print("Intervals are 95%; worst to best is end to end, if all that was not scored had failed or succeeded.")


def _document(each: _Played) -> dict[str, object]:
    from agentgym_cli.report.jsonout import to_json

    report = None if each.report is None else json.loads(to_json(each.report))
    return {"policy": each.name, "run": each.run, "report": report, "failure": None if each.failure is None else each.failure.message}


def _table(played: Sequence[_Played]) -> Table:
    """A row for each run and split, with both denominators, their intervals, the infra share and the extreme cases."""
    from agentgym_cli.report import phrases

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_edge=False)
    for name in ("", "split", "tasks", "episodes", "of scheduled", "of scored", "infra", "worst to best"):
        table.add_column(name, header_style="dim", overflow="fold", justify="left" if name in ("", "split") else "right")
    for number, each in enumerate(played, start=1):
        for part in each.report.parts if each.report is not None else ():
            found = part.accounting
            rates = [f"{phrases.percent(rate.value)}\n{phrases.interval(rate)}" for rate in (found.end_to_end, found.conditional, found.infra_share)]
            tasks = f"{part.tasks:,}" + (f" of {part.tasks + part.left_out:,}" if part.left_out else "")
            cells = [str(number), part.split, tasks, f"{found.scheduled:,}", *rates, phrases.extremes(found).replace(" to ", " to\n")]
            table.add_row(*map(Text, cells))
    return table


def _clean(console: Console, text: str) -> str:
    from agentgym_cli.report.text import for_terminal

    return for_terminal(text, ascii_only=not console.encoding.startswith("utf"))
