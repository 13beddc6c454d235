"""``agentgym report RUN --gate FILE``: judge a run by a gate's rules and keep the decision in the store."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from agentgym_cli.errors import RecipeError
from agentgym_cli.report.gate import Decision, judge
from agentgym_cli.report.gate_file import read_gate
from agentgym_cli.report.held_out import find_shared
from agentgym_cli.report.side import read_side
from agentgym_cli.store.gates import GateRow, record_gates
from agentgym_cli.store.opening import open_for_writing


def decide(run: str, file: Path, database: Path) -> Decision:
    """Judge a run of an existing store and record the decision there.

    Raises:
        RecipeError: the gate's file cannot be meant, or its baseline is the run itself.
        StoreError: there is no such run, baseline or run that trained it; StoreBusy: another process holds the store.
    """
    gate = read_gate(file)
    with open_for_writing(database) as connection:
        side = read_side(connection, run)
        baseline = read_side(connection, gate.baseline) if gate.baseline is not None else None
        if baseline is not None and baseline.run == side.run:
            raise RecipeError(f"{file}: expected another run as baseline, got {side.run}, which is judged", "name a run that was promoted before")
        judged = side.splits.get(gate.split)
        step, phase = (judged.step, judged.phase) if judged else (0, "eval")
        shared = find_shared(connection, side.run, phase=phase, split=gate.split, step=step, trained_by=gate.trained_by)
        decision = judge(gate, side, shared, baseline, datetime.now(UTC).isoformat(timespec="seconds"))
        record_gates(connection, [_row(decision)])
    return decision


def _row(decision: Decision) -> GateRow:
    return GateRow(
        run=decision.run,
        gate=decision.gate,
        gate_digest=decision.gate_digest,
        baseline=decision.baseline,
        passed=decision.passed,
        evidence=json.dumps([asdict(check) for check in decision.checks], sort_keys=True, ensure_ascii=False),
        decided=decision.decided,
    )
