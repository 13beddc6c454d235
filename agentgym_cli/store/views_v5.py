"""The views as the fifth migration makes them; never edited after release.

Only a run of several segments can have superseded records, so only such runs are sorted by segment. What reports count, ``episodes_final``,
is a table that each load brings up to date from the view ``episodes_now``.
"""

from __future__ import annotations

_POSITION = "case when phase in ('warm_start', 'eval_before', 'eval') then 0 else step end"
_SINGLE = "select run from segments group by run having count(*) = 1"
_STEP = "case when phase in ('train', 'warm_start') then null else step end"


def _final(table: str, position: str, joins: str, key: str) -> str:
    """The view of a table's rows that count; ``position`` of a row ``t`` is compared with the limit of its segment."""
    return f"""
create or replace view {table}_final as
select t.* from {table} t where t.run in ({_SINGLE})
union all
select t.* from {table} t join segment_limits l using (run, segment) {joins}
where t.run not in ({_SINGLE}) and (l.kept_to is null or {position} <= l.kept_to)
qualify row_number() over (partition by t.run, {key} order by t.segment desc) = 1
"""


_BY_EPISODE = "left join episode_positions p using (run, episode)"
_EPISODE_POSITION = "coalesce(p.position, 0)"
_EPISODES_NOW = """
create view episodes_now as
with spent as (
    select
        run, episode, count(*) as spent_attempts, count(*) filter (outcome = 'infra_error') as spent_infra_errors,
        try_cast(sum(turns_count) as bigint) as spent_turns, try_cast(sum(prompt_tokens) as bigint) as spent_prompt_tokens,
        try_cast(sum(action_tokens) as bigint) as spent_action_tokens, sum(seconds) as spent_seconds, sum(policy_seconds) as spent_policy_seconds,
        sum(env_seconds) as spent_env_seconds, min(ended) as first_ended, max(ended) as last_ended
    from attempts_final group by run, episode
)
select
    s.run, s.segment, s.episode, s.phase, s.split, s.step, s.task, s.task_index, s.task_digest, s.category, s.goal, s.sample, s.horizon,
    coalesce(o.outcome, 'missing') as outcome, coalesce(o.first_outcome, 'missing') as first_outcome,
    coalesce(o.attempts, 0) as attempts, o.attempt, o.reward, o.by_verifier, a.stop, a.cause, a.truncated, a.action_induced, a.detail,
    a.turns_count, a.invalid_actions, a.prompt_tokens, a.action_tokens, a.policy_version, a.seconds, a.policy_seconds, a.env_seconds, a.replica,
    coalesce(g.spent_attempts, 0) as spent_attempts, coalesce(g.spent_infra_errors, 0) as spent_infra_errors, g.spent_turns,
    g.spent_prompt_tokens, g.spent_action_tokens, g.spent_seconds, g.spent_policy_seconds, g.spent_env_seconds, g.first_ended, g.last_ended
from scheduled_final s
left join outcomes_final o on o.run = s.run and o.episode = s.episode
left join attempts_final a on a.run = s.run and a.episode = s.episode and a.attempt = o.attempt
left join spent g on g.run = s.run and g.episode = s.episode
"""
_UNSCHEDULED = f"""
create or replace view unscheduled as
select a.run, a.segment, a.episode, 'attempts' as kind
from attempts_final a anti join scheduled_final s on s.run = a.run and s.episode = a.episode where a.run not in ({_SINGLE})
union all
select o.run, o.segment, o.episode, 'outcomes'
from outcomes_final o anti join scheduled_final s on s.run = o.run and s.episode = o.episode where o.run not in ({_SINGLE})
"""
_TALLY = """
    count(*) as scheduled, count(*) filter (outcome = 'success') as success, count(*) filter (outcome = 'failure') as failure,
    count(*) filter (outcome = 'infra_error') as infra_error, count(*) filter (outcome = 'missing') as missing
"""
_DENOMINATORS = f"""
create view denominators as
select
    run, phase, split, {_STEP} as step, category, {_TALLY.strip()}, count(*) filter (by_verifier) as by_verifier,
    count(*) filter (outcome = 'infra_error' and action_induced) as action_induced, count(*) filter (truncated) as truncated,
    count(*) filter (first_outcome = 'success') as first_success, count(*) filter (first_outcome = 'failure') as first_failure,
    count(*) filter (first_outcome = 'infra_error') as first_infra_error, count(*) filter (first_outcome = 'missing') as first_missing,
    count(*) filter (attempts > 1) as retried
from episodes_final group by all
"""
_PER_TASK = f"""
create view per_task as
select
    run, phase, split, {_STEP} as step, category, task, {_TALLY.strip()}, sum(reward) as reward_sum, count(reward) as rewards,
    try_cast(sum(turns_count) as bigint) as turns
from episodes_final group by all
"""
_LEARNING_CURVE = f"""
create view learning_curve as
with steps as (
    select
        run, step, min(horizon) as horizon, {_TALLY.strip()}, count(*) filter (truncated) as truncated, sum(reward) as reward_sum,
        count(reward) as rewards, try_cast(sum(spent_turns) as bigint) as turns, try_cast(sum(spent_action_tokens) as bigint) as action_tokens,
        sum(spent_seconds) as seconds
    from episodes_final where phase = 'train' group by run, step
)
select
    *, try_cast(sum(turns) over so_far as bigint) as turns_so_far, try_cast(sum(action_tokens) over so_far as bigint) as action_tokens_so_far,
    sum(seconds) over so_far as seconds_so_far
from steps window so_far as (partition by run order by step)
"""
_ERRORS_BY_CAUSE = f"""
create view errors_by_cause as
select
    run, phase, split, {_STEP} as step, stop, cause, count(*) as episodes, count(*) filter (action_induced) as action_induced,
    count(distinct task) as tasks, count(distinct replica) as replicas, min(left(detail, 400)) as example
from episodes_final where outcome = 'infra_error' group by all
"""
_HORIZON_STAGES = f"""
create view horizon_stages as
with steps as (
    select run, step, horizon, {_TALLY.strip()}, count(*) filter (truncated) as truncated, try_cast(sum(turns_count) as bigint) as turns
    from episodes_final where phase = 'train' group by run, step, horizon
),
marked as (
    select *, case when horizon is distinct from lag(horizon) over (partition by run order by step, horizon) then 1 else 0 end as first
    from steps
),
numbered as (select *, cast(sum(first) over (partition by run order by step, horizon) as bigint) as stage from marked)
select
    run, stage, horizon, min(step) as first_step, max(step) as last_step, cast(sum(scheduled) as bigint) as scheduled,
    cast(sum(success) as bigint) as success, cast(sum(failure) as bigint) as failure, cast(sum(infra_error) as bigint) as infra_error,
    cast(sum(missing) as bigint) as missing, cast(sum(truncated) as bigint) as truncated, try_cast(sum(turns) as bigint) as turns
from numbered group by run, stage, horizon
"""
_THROUGHPUT = f"""
create view throughput as
select
    run, phase, split, {_STEP} as step, cast(sum(spent_attempts) as bigint) as attempts,
    cast(sum(spent_infra_errors) as bigint) as infra_error, try_cast(sum(spent_turns) as bigint) as turns,
    try_cast(sum(spent_prompt_tokens) as bigint) as prompt_tokens, try_cast(sum(spent_action_tokens) as bigint) as action_tokens,
    sum(spent_seconds) as seconds, sum(spent_policy_seconds) as policy_seconds, sum(spent_env_seconds) as env_seconds,
    min(first_ended) as first_ended, max(last_ended) as last_ended
from episodes_final where spent_attempts > 0 group by all
"""

ATTEMPTS_FINAL = _final("attempts", _EPISODE_POSITION, _BY_EPISODE, "t.episode, t.attempt")
VIEWS = (
    _final("scheduled", _POSITION, "", "t.episode"),
    ATTEMPTS_FINAL,
    _final("outcomes", _EPISODE_POSITION, _BY_EPISODE, "t.episode"),
    _final("metrics", _POSITION, "", "t.phase, t.step, t.name"),
    _EPISODES_NOW,
    _UNSCHEDULED,
    _DENOMINATORS,
    _PER_TASK,
    _LEARNING_CURVE,
    _ERRORS_BY_CAUSE,
    _HORIZON_STAGES,
    _THROUGHPUT,
    "insert into episodes_final by name from episodes_now",
)
