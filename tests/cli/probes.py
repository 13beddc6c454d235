"""Reports of probes, made by hand."""

from __future__ import annotations

from agentgym_cli.env.findings import Rung
from agentgym_cli.env.probe import CheckResult, ProbeReport, ServerReport

HOSTILE = "expected text, got \x1b[31m<script>&\"']]>\x00\x07[bold]red[/bold]"
RUNG = Rung(sessions=2, calls=8, failed=2, p50_ms=1.25, p95_ms=2.5, p99_ms=None)


def check(name: str, result: str = "pass", detail: str = "fine", **options) -> CheckResult:
    return CheckResult(name=name, result=result, detail=detail, seconds=0.25, **options)


def report(*servers: tuple[CheckResult, ...]) -> ProbeReport:
    """A report whose servers are http://host:1, http://host:2 and so on."""
    named = tuple(ServerReport(url=f"http://host:{number}", checks=checks) for number, checks in enumerate(servers, start=1))
    return ProbeReport(dialect="textcraft", level="full", servers=named)


GOOD = (check("health"), check("step"), check("done_latching", "known deviation", "done false (the client latches)"))
BAD = (check("health"), check("step", "fail", HOSTILE), check("done_latching", "n/a", "not run, since step failed"))
