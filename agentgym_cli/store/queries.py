"""The named questions that reports ask of a store. Returns rows; computes no rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TypeVar

from agentgym_cli.errors import StoreError
from agentgym_cli.store.db import Connection, rows_of
from agentgym_cli.store.rows import (
    AttemptsRow,
    CheckpointRow,
    CountsRow,
    MetricRow,
    MetricTotals,
    PairRow,
    ProbeRow,
    ReasonRow,
    RunRow,
    SegmentRow,
    ServerRow,
    StopRow,
    WeightsRow,
)

R = TypeVar("R")
P = TypeVar("P", CountsRow, StopRow, ReasonRow, AttemptsRow, MetricRow, MetricTotals)


class NotInStore(StoreError):
    """What was named is not in the store."""

    general_hint = "choose one that is there"


_STEP = "case when phase in ('train', 'warm_start') then null else step end"
_PHASES = ("warm_start", "demonstrate", "eval_before", "explore", "train", "eval_during", "eval_after", "eval")

_IMPORTED = "imported from {}: the schedule is not known, so shares are of the rows that arrived, and infra errors cannot be told from failures"
_NAMES = "select run, name from runs order by created, run"
_RUNS = f"""
select
    r.run, r.name, r.verb, coalesce(r.profile, 'unknown') as profile,
    coalesce(r.profile_reason, replace('{_IMPORTED}', '{{}}', r.imported)) as profile_reason, coalesce(r.engine, 'unknown') as engine,
    coalesce(r.digest, 'none') as digest, r.env, coalesce(r.policy, 'unknown') as policy, r.seed, r.created,
    coalesce(r.frozen, '{{}}') as frozen, coalesce(r.fingerprint, '{{}}') as fingerprint, r.imported,
    count(s.segment) as segments, arg_max_null(s.status, s.segment) as status, arg_max_null(s.ended, s.segment) as ended
from runs r left join segments s on s.run = r.run
where list_contains(?, r.run)
group by all
order by r.created, r.run
"""

_SEGMENTS = """
select
    s.segment, s.resumed_from_step, s.started, s.ended, s.status, s.drift,
    coalesce(sum(g.records) filter (g.kind = 'attempts'), 0) as superseded_attempts,
    coalesce(sum(g.records) filter (g.kind = 'outcomes'), 0) as superseded_outcomes,
    coalesce(sum(g.records), 0) as superseded_records
from segments s left join superseded g on g.run = s.run and g.segment = s.segment
where s.run = ?
group by s.segment, s.resumed_from_step, s.started, s.ended, s.status, s.drift
order by s.segment
"""

_ONE_SEGMENT = """
select
    segment, resumed_from_step, started, ended, status, drift, 0 as superseded_attempts, 0 as superseded_outcomes, 0 as superseded_records
from segments where run = ?
"""

# One pass over the episodes: everything else is added up from its rows by task.
_COUNTS = f"""
with per_task as (
    select
        phase, split, {_STEP} as at_step, category, task, count(*) as n, count(*) filter (outcome = 'success') as x,
        count(*) filter (outcome = 'failure') as lost, count(*) filter (outcome = 'infra_error') as f,
        count(*) filter (outcome = 'missing') as missing, count(*) filter (by_verifier) as by_verifier,
        count(*) filter (outcome = 'infra_error' and action_induced) as action_induced, count(*) filter (truncated) as truncated,
        count(*) filter (first_outcome = 'success') as first_success, count(*) filter (first_outcome = 'failure') as first_failure,
        count(*) filter (first_outcome = 'infra_error') as first_infra_error, count(*) filter (first_outcome = 'missing') as first_missing,
        count(*) filter (attempts > 1) as retried, sum(turns_count) as turns, sum(invalid_actions) as invalid_actions,
        sum(prompt_tokens) as prompt_tokens, sum(action_tokens) as action_tokens, sum(seconds) as seconds,
        sum(policy_seconds) as policy_seconds, sum(env_seconds) as env_seconds
    from episodes_final where run = ? group by all
),
scored as (select *, x + lost as m, first_success as y, first_success + first_failure as k, first_infra_error as g from per_task)
select
    phase, split, at_step, category, sum(n) as scheduled, sum(x) as success, sum(lost) as failure, sum(f) as infra_error,
    sum(missing) as missing, sum(by_verifier) as by_verifier, sum(action_induced) as action_induced, sum(truncated) as truncated,
    sum(first_success) as first_success, sum(first_failure) as first_failure, sum(first_infra_error) as first_infra_error,
    sum(first_missing) as first_missing, sum(retried) as retried, coalesce(sum(turns), 0) as turns,
    coalesce(sum(invalid_actions), 0) as invalid_actions, coalesce(sum(prompt_tokens), 0) as prompt_tokens,
    coalesce(sum(action_tokens), 0) as action_tokens, coalesce(sum(seconds order by task), 0) as seconds,
    coalesce(sum(policy_seconds order by task), 0) as policy_seconds, coalesce(sum(env_seconds order by task), 0) as env_seconds,
    max(n) as most_samples, count(*) as tasks, count(*) filter (m > 0) as tasks_scored,
    sum(x * x) as xx, sum(x * n) as xn, sum(n * n) as nn, sum(x * m) as xm, sum(m * m) as mm, sum(f * f) as ff, sum(f * n) as fn,
    count(*) filter (k > 0) as first_tasks_scored, sum(y * y) as yy, sum(y * n) as yn, sum(y * k) as yk, sum(k * k) as kk, sum(g * g) as gg,
    sum(g * n) as gn
from scored
group by phase, split, at_step, category
order by at_step nulls first, split, category
"""

_STOPS = f"""
select
    phase, split, {_STEP} as at_step,
    coalesce(stop, case when outcome <> 'missing' then 'unknown' when spent_attempts > 0 then 'no outcome' else 'missing' end) as stop,
    cause, outcome, count(*) as episodes, min(coalesce(left(detail, 400), '')) as example
from episodes_final where run = ?
group by all
order by at_step nulls first, split, episodes desc, stop, cause, outcome
"""

_ATTEMPTS = """
select
    phase, split, step, attempts, infra_error, turns, action_tokens, seconds
from throughput where run = ?
order by step nulls first, split
"""

_PAIRS = """
with per_task as (
    select
        split, phase, task, count(*) as scheduled, count(*) filter (outcome = 'success') as success,
        count(*) filter (outcome in ('success', 'failure')) as scored
    from episodes_final where run = ? and phase in ('eval_before', 'eval_after') group by all
)
select
    b.split, b.success as before_success, b.scored as before_scored, b.scheduled as before_scheduled,
    a.success as after_success, a.scored as after_scored, a.scheduled as after_scheduled, count(*) as tasks
from per_task b join per_task a on a.split = b.split and a.task = b.task and a.phase = 'eval_after'
where b.phase = 'eval_before'
group by all
order by all
"""

_CURVE = """
select phase, step, name, value from metrics_final
where run = ? and list_contains(?, name)
order by phase, name, step
"""

_METRIC_TOTALS = """
select
    phase, name, count(value) as steps, sum(value order by step) as total, sum(value order by step) / count(value) as mean,
    min(value) as least, max(value) as most, arg_min(value, step) as first, arg_max(value, step) as last
from metrics_final where run = ?
group by phase, name
order by phase, name
"""

_PROBES = """
select url, name, result, detail, seconds from probes
where run = ? and segment = (select max(segment) from probes where run = ?)
order by url, name
"""

_CHECKPOINTS = "select step, path, digest from checkpoints_final where run = ? order by step"

_SERVERS = "select segment, url, event, cause, left(detail, 400) as detail, happened from servers where run = ? order by segment, number"

_WEIGHTS = "select run, step, path from checkpoints_final where digest = ? order by run, step"

_UNSCHEDULED = "select kind || ' of ' || episode from unscheduled where run = ? order by all limit 3"


def fetch(connection: Connection, row: type[R], sql: str, parameters: Sequence[object] = ()) -> list[R]:
    """Rows of a query whose columns come in the order of the fields of ``row``."""
    names = [field.name for field in fields(row)]  # type: ignore[arg-type]
    return [row(**dict(zip(names, values, strict=True))) for values in rows_of(connection, sql, parameters)]


def by_phase(rows: list[P]) -> list[P]:
    """In the order in which phases happen; within a phase as the query ordered them."""
    return sorted(rows, key=lambda row: (_PHASES.index(row.phase) if row.phase in _PHASES else len(_PHASES), row.phase))


_SHOWN = 100
"""Most characters of a name that a message repeats."""


def run_names(connection: Connection) -> list[str]:
    """The names of all runs of the store, oldest first."""
    return [str(run) for run, _ in rows_of(connection, _NAMES)]


def some_runs(connection: Connection, names: Sequence[str]) -> list[RunRow]:
    """The runs of these names, oldest first; each has the whole of its frozen run, so ask for few."""
    return fetch(connection, RunRow, _RUNS, [list(names)])


def find_run(connection: Connection, text: str) -> RunRow:
    """The run that a person means by its name, a unique beginning of it, its folder, or the name of a recipe that has one run.

    Raises:
        NotInStore: none or several are meant; the candidates are named.
    """
    if not Path(text).name:
        raise NotInStore(f"run {text!r}: expected a run's name, a unique beginning of one, or its folder", hint="agentgym report NAME")
    runs = [(str(run), name) for run, name in rows_of(connection, _NAMES)]
    folder = Path(text).name
    exact = [wanted for wanted in (text, folder) if any(run == wanted for run, _ in runs)]
    close = exact[:1] or [run for run, _ in runs if run.startswith(folder)] or [run for run, name in runs if name == text]
    if len(close) == 1:
        return some_runs(connection, close)[0]
    candidates = close or [run for run, _ in runs]
    known = ", ".join(candidates[-8:]) + (f" and {older:,} older" if (older := len(candidates) - 8) > 0 else "")
    if close:
        raise NotInStore(f"run {text[:_SHOWN]!r}: expected one, got {len(close)}: {known}", hint="name one of them")
    raise NotInStore(
        f"run {text[:_SHOWN]!r}: there is none in this store; it has {known or 'no runs'}", hint="agentgym store rebuild loads what journals have"
    )


def segments(connection: Connection, run: str) -> list[SegmentRow]:
    """Segments of a run in order."""
    return fetch(connection, SegmentRow, _SEGMENTS if _resumed(connection, run) else _ONE_SEGMENT, [run])


def _resumed(connection: Connection, run: str) -> bool:
    """True when a run has several segments: only then can a record be superseded, and looking for such records is dear."""
    return len(rows_of(connection, "select 1 from segments where run = ? limit 2", [run])) > 1


def counts(connection: Connection, run: str) -> list[CountsRow]:
    """Outcomes by phase, split and category, in the order of phases.

    Raises:
        StoreError: an attempt or outcome counts although its episode is not scheduled (any more): the schedule would not be the denominator.
    """
    strays = rows_of(connection, _UNSCHEDULED, [run]) if _resumed(connection, run) else []
    if strays:
        raise StoreError(f"run {run!r}: expected every record to be scheduled, got {', '.join(str(stray[0]) for stray in strays)}")
    return by_phase(fetch(connection, CountsRow, _COUNTS, [run]))


def stops(connection: Connection, run: str) -> list[StopRow]:
    """Stop reasons and infra causes by phase and split.

    ``missing`` where there is no attempt, ``no outcome`` where none settled it, ``unknown`` in imported runs.
    """
    return by_phase(fetch(connection, StopRow, _STOPS, [run]))


def attempts(connection: Connection, run: str) -> list[AttemptsRow]:
    """All attempts that are not superseded, by phase and split."""
    return by_phase(fetch(connection, AttemptsRow, _ATTEMPTS, [run]))


def pairs(connection: Connection, run: str) -> list[PairRow]:
    """How tasks fared before and after training, by split; tasks that fared alike come together."""
    return fetch(connection, PairRow, _PAIRS, [run])


def curve(connection: Connection, run: str, names: Sequence[str]) -> list[MetricRow]:
    """Metrics of the given names by phase, name and step."""
    return by_phase(fetch(connection, MetricRow, _CURVE, [run, list(names)]))


def metric_totals(connection: Connection, run: str) -> list[MetricTotals]:
    """Every metric of a run, summed up over its steps."""
    return by_phase(fetch(connection, MetricTotals, _METRIC_TOTALS, [run]))


def probes(connection: Connection, run: str) -> list[ProbeRow]:
    """Checks of the latest segment that probed."""
    return fetch(connection, ProbeRow, _PROBES, [run, run])


def checkpoints(connection: Connection, run: str) -> list[CheckpointRow]:
    """Checkpoints that count, by step."""
    return fetch(connection, CheckpointRow, _CHECKPOINTS, [run])


def servers(connection: Connection, run: str) -> list[ServerRow]:
    """Servers that were given up or taken back, in order; those of superseded segments too, for it happened."""
    return fetch(connection, ServerRow, _SERVERS, [run])


def weights(connection: Connection, digest: str) -> list[WeightsRow]:
    """Checkpoints of any run with these weights, by the SHA-256 that was recorded."""
    return fetch(connection, WeightsRow, _WEIGHTS, [digest])
