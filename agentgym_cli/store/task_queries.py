"""The named questions about tasks, stages of the horizon, spending and latency. Returns rows; computes no rate."""

from __future__ import annotations

from agentgym_cli.store.db import Connection
from agentgym_cli.store.queries import by_phase, fetch
from agentgym_cli.store.rows import ReasonRow
from agentgym_cli.store.task_rows import CellRow, LatencyRow, PhaseSpendingRow, SpendingRow, StageRow, TaskRow

_STEP = "case when phase in ('train', 'warm_start') then null else step end"
_TALLY = """
    count(*) as scheduled, count(*) filter (outcome = 'success') as success, count(*) filter (outcome in ('success', 'failure')) as scored,
    count(*) filter (outcome = 'infra_error') as infra_error
""".strip()

_CELLS = f"""
with per_task as (
    select phase, split, {_STEP} as at_step, category, task, {_TALLY}
    from episodes_final where run = ? and starts_with(phase, 'eval') group by all
)
select phase, split, at_step, category, scheduled, success, scored, infra_error, count(*) as tasks
from per_task group by all
order by phase, at_step nulls first, split, category, scheduled, success, scored, infra_error
"""

_STAGES = f"""
with episodes as (
    select horizon, step, task, outcome, first_outcome, attempts from episodes_final where run = ? and phase = 'train' and horizon is not null
),
spans as (select horizon, min(step) as first_step, max(step) as last_step from episodes group by horizon),
per_task as (
    select
        horizon, task, {_TALLY}, count(*) filter (first_outcome = 'success') as first_success,
        count(*) filter (first_outcome in ('success', 'failure')) as first_scored,
        count(*) filter (first_outcome = 'infra_error') as first_infra_error, count(*) filter (attempts > 1) as retried
    from episodes group by horizon, task
)
select
    horizon, first_step, last_step, scheduled, success, scored, infra_error, first_success, first_scored, first_infra_error, retried,
    count(*) as tasks
from per_task join spans using (horizon)
group by all
order by first_step, horizon, scheduled, success, scored, infra_error, first_success, first_scored, first_infra_error, retried
"""

_REASONS = f"""
select
    phase, split, {_STEP} as at_step, category, horizon,
    coalesce(stop, case when outcome <> 'missing' then 'unknown' when spent_attempts > 0 then 'no outcome' else 'missing' end) as stop,
    cause, outcome, count(*) as episodes, count(*) filter (outcome = 'infra_error' and action_induced) as action_induced,
    min(coalesce(left(detail, 400), '')) as example
from episodes_final where run = ?
group by all
order by at_step nulls first, split, category, horizon, episodes desc, stop, cause, outcome
"""

_TASKS = f"""
select task, min(task_digest) as digest, min(category) as category, {_TALLY}, coalesce(sum(reward), 0) as reward, count(reward) as rewards
from episodes_final where run = ? and phase = ? and split = ? and step = ?
group by task
order by task
"""

_SPENDING = """
select
    count(*) as attempts, count(*) filter (outcome = 'infra_error') as infra_error, sum(turns_count) as turns,
    max(run_tokens_read) as tokens_read, sum(action_tokens) as tokens_sampled, sum(seconds) as attempt_seconds,
    sum(policy_seconds) as policy_seconds, sum(env_seconds) as env_seconds, max(run_seconds) as run_seconds
from attempts where run = ?
"""

_PHASE_SPENDING = """
select
    split_part(episode, '/', 1) as phase, count(*) as attempts, count(*) filter (outcome = 'infra_error') as infra_error,
    sum(action_tokens) as tokens_sampled, sum(seconds) as attempt_seconds
from attempts where run = ?
group by split_part(episode, '/', 1)
order by phase
"""

# Phase, split and step are the first words of an episode's name; a join for them would cost more than the quantiles.
_LATENCIES = """
with kept as (
    select
        split_part(episode, '/', 1) as phase, split_part(episode, '/', 2) as split, try_cast(split_part(episode, '/', 3) as bigint) as step,
        policy_seconds, env_seconds, context_tokens
    from turns where run = ?
),
parts as (select *, case when phase in ('train', 'warm_start') then null else step end as at_step from kept),
quantiles as (
    select
        phase, split, at_step, grouping(split) as all_splits, count(*) as turns, sum(context_tokens) as tokens_read,
        quantile_cont(policy_seconds, [0.5, 0.95]) as policy, quantile_cont(env_seconds, [0.5, 0.95]) as env
    from parts group by grouping sets ((), (phase), (phase, split, at_step))
)
select phase, split, at_step, turns, tokens_read, policy[1] as policy_p50, policy[2] as policy_p95, env[1] as env_p50, env[2] as env_p95
from quantiles
where turns > 0
order by phase nulls first, all_splits desc, split, at_step
"""


def cells(connection: Connection, run: str) -> list[CellRow]:
    """Tasks of evaluations counted by what became of their episodes, by phase, split, step and category."""
    return fetch(connection, CellRow, _CELLS, [run])


def stages(connection: Connection, run: str) -> list[StageRow]:
    """The same for training by horizon, in the order of the steps."""
    return fetch(connection, StageRow, _STAGES, [run])


def reasons(connection: Connection, run: str) -> list[ReasonRow]:
    """Stop reasons and infra causes by phase, split, category and horizon; spelled as ``queries.stops`` does."""
    return by_phase(fetch(connection, ReasonRow, _REASONS, [run]))


def tasks(connection: Connection, run: str, *, phase: str, split: str, step: int) -> list[TaskRow]:
    """Every task of one split of one evaluation, by name."""
    return fetch(connection, TaskRow, _TASKS, [run, phase, split, step])


def spending(connection: Connection, run: str) -> SpendingRow:
    """What the run took in all."""
    return fetch(connection, SpendingRow, _SPENDING, [run])[0]


def phase_spending(connection: Connection, run: str) -> list[PhaseSpendingRow]:
    """What each phase took, by name."""
    return fetch(connection, PhaseSpendingRow, _PHASE_SPENDING, [run])


def latencies(connection: Connection, run: str) -> list[LatencyRow]:
    """Latency of the policy and of the world over the turns that were kept: of the whole run, of each phase, and of each split and step of it."""
    return fetch(connection, LatencyRow, _LATENCIES, [run])
