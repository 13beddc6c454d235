"""Runs as a comparison sees them, without a store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agentgym_cli.report.accounting import account, ledger
from agentgym_cli.report.compare import Judged, Played, Side
from agentgym_cli.report.conditions import Conditions
from agentgym_cli.report.figures import Accounting, FirstAttempts
from agentgym_cli.store.rows import ReasonRow
from agentgym_cli.store.task_rows import TaskRow

CONDITIONS = Conditions(
    env="textcraft",
    dialect="d",
    protocol="own",
    tasks={"test": "t"},
    success="s",
    prompt="p",
    horizon=12,
    samples=1,
    temperature="1",
    chosen="all",
    attempts=3,
)


def make_task(number: int, success: int, *, category: str = "depth 1", digest: str = "x", infra: int = 0) -> TaskRow:
    """A task with one episode."""
    scored = 1 - infra
    return TaskRow(
        task=f"textcraft_{number}",
        digest=f"{digest}{number}" if digest else "",
        category=category,
        scheduled=1,
        success=success,
        scored=scored,
        infra_error=infra,
        reward=float(success),
        rewards=scored,
    )


def make_played(found: Accounting) -> Played:
    """Successes that were done, failures at the horizon; no episode was tried again, no turn was kept."""
    counts = {"success": found.success, "failure": found.failure, "infra_error": found.infra_error, "missing": found.missing}
    stops = {"success": "done", "failure": "horizon", "infra_error": "env_error", "missing": "missing"}
    rows = [
        ReasonRow(
            phase="eval", split="test", step=0, category="", horizon=12, stop=stops[outcome], cause=None, outcome=outcome, episodes=count,
            action_induced=0, example="",
        )
        for outcome, count in counts.items()
        if count
    ]  # fmt: skip
    return Played(ledger=ledger(rows, left_out=0), first_attempts=FirstAttempts(retried=0, accounting=found), latency=None)


def make_judged(tasks: Sequence[TaskRow]) -> Judged:
    def count(rows: Sequence[TaskRow]) -> tuple[int, int, int]:
        return sum(row.success for row in rows), sum(row.scored for row in rows), len(rows)

    def counted(rows: Sequence[TaskRow]) -> Accounting:
        success, scored, scheduled = count(rows)
        return account(success=success, failure=scored - success, infra_error=scheduled - scored, missing=0, scheduled=scheduled)

    names = sorted({row.category for row in tasks})
    categories = {name: counted([row for row in tasks if row.category == name]) for name in names}
    found = counted(tasks)
    return Judged(phase="eval", step=0, accounting=found, played=make_played(found), categories=categories, tasks=tasks)


def make_side(run: str, tasks: Sequence[TaskRow], **changes: object) -> Side:
    side = Side(
        run=run,
        recipe="textcraft_grpo",
        policy="local",
        status="finished",
        label=None,
        digest="d" * 64,
        drift=(),
        degraded=None,
        conditions=CONDITIONS,
        splits={"test": make_judged(tasks)},
    )
    return replace(side, **changes)  # type: ignore[arg-type]
