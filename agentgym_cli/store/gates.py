"""Decisions of gates: kept in the store alone, since no journal of a run holds what was decided about it later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields

from agentgym_cli.store.db import Connection, rows_of, transaction
from agentgym_cli.store.queries import fetch


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRow:
    """One decision. Kept when a store is made again from journals, which do not hold it."""

    run: str
    """The run that was judged."""
    gate: str
    """Name of the gate's file."""
    gate_digest: str
    """SHA-256 of the gate's file."""
    baseline: str | None
    """The run that it was compared with; null where the gate compares with none."""
    passed: bool
    """Whether every rule was met."""
    evidence: str
    """Every rule with what it expected and what it got, as JSON; holds foreign text."""
    decided: str
    """UTC, ISO 8601."""


_COLUMNS = ", ".join(field.name for field in fields(GateRow))
_INSERT = f"insert into gates ({_COLUMNS}) values ({', '.join('?' for _ in fields(GateRow))})"
_DECISIONS = f"select {_COLUMNS} from gates where run = ? order by decided, gate, gate_digest"
_ALL = f"select {_COLUMNS} from gates order by decided, run, gate"

_SHARED = """
with training as (select distinct task, task_digest from episodes_final where run = ? and phase in ('train', 'warm_start', 'demonstrate', 'explore')),
judged as (select distinct task, task_digest from episodes_final where run = ? and phase = ? and split = ? and step = ?)
select (select count(*) from training), count(*) from judged j
where exists (select 1 from training t where t.task = j.task or (t.task_digest != '' and t.task_digest = j.task_digest))
"""


def shared_with_training(connection: Connection, run: str, *, trained: str, phase: str, split: str, step: int) -> tuple[int, int]:
    """Tasks that the run ``trained`` played in training, and the tasks of one evaluation of ``run`` among them, by number or by content."""
    played, shared = rows_of(connection, _SHARED, [trained, run, phase, split, step])[0]
    return int(played), int(shared)


def record_gates(connection: Connection, rows: Sequence[GateRow]) -> None:
    """Add decisions, in one transaction."""
    with transaction(connection):
        for row in rows:
            connection.execute(_INSERT, list(astuple(row)))


def decisions(connection: Connection, run: str) -> list[GateRow]:
    """What was decided about a run, oldest first."""
    return fetch(connection, GateRow, _DECISIONS, [run])


def every_decision(connection: Connection) -> list[GateRow]:
    """What was decided about any run, oldest first."""
    return fetch(connection, GateRow, _ALL)
