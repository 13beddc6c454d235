"""The views as the second migration makes them; never edited after release.

A record is superseded when a later segment resumed from a step below the record's position; of what is left, the latest segment's counts.
"""

from __future__ import annotations

_POSITION = "case when phase in ('warm_start', 'eval_before', 'eval') then 0 else step end"

_SEGMENT_LIMITS = """
create view segment_limits as
select s.run, s.segment, min(later.resumed_from_step) as kept_to
from segments s left join segments later on later.run = s.run and later.segment > s.segment
group by s.run, s.segment
"""
_EPISODE_POSITIONS = f"""
create view episode_positions as
select run, episode, any_value(phase) as phase, any_value(step) as step, any_value({_POSITION}) as position
from scheduled group by run, episode
"""
_SCHEDULED_FINAL = f"""
create view scheduled_final as
select s.*
from scheduled s join segment_limits l using (run, segment)
where l.kept_to is null or {_POSITION} <= l.kept_to
qualify row_number() over (partition by s.run, s.episode order by s.segment desc) = 1
"""
ATTEMPTS_FINAL = """
create view attempts_final as
select a.*
from attempts a join segment_limits l using (run, segment) left join episode_positions p using (run, episode)
where l.kept_to is null or p.position is null or p.position <= l.kept_to
qualify row_number() over (partition by a.run, a.episode, a.attempt order by a.segment desc) = 1
"""
_OUTCOMES_FINAL = """
create view outcomes_final as
select o.*
from outcomes o join segment_limits l using (run, segment) left join episode_positions p using (run, episode)
where l.kept_to is null or p.position is null or p.position <= l.kept_to
qualify row_number() over (partition by o.run, o.episode order by o.segment desc) = 1
"""
_METRICS_FINAL = f"""
create view metrics_final as
select m.*
from metrics m join segment_limits l using (run, segment)
where l.kept_to is null or {_POSITION} <= l.kept_to
qualify row_number() over (partition by m.run, m.phase, m.step, m.name order by m.segment desc) = 1
"""
_CHECKPOINTS_FINAL = """
create view checkpoints_final as
select c.*
from checkpoints c join segment_limits l using (run, segment)
where l.kept_to is null or c.step <= l.kept_to
qualify row_number() over (partition by c.run, c.step order by c.segment desc) = 1
"""
_EPISODES_FINAL = """
create view episodes_final as
select
    s.run, s.segment, s.episode, s.phase, s.split, s.step, s.task, s.task_index, s.task_digest, s.category, s.goal, s.sample, s.horizon,
    coalesce(o.outcome, 'missing') as outcome, coalesce(o.first_outcome, 'missing') as first_outcome, coalesce(o.attempts, 0) as attempts,
    o.attempt, o.reward, o.by_verifier, a.stop, a.cause, a.truncated, a.action_induced, a.detail, a.turns_count, a.invalid_actions,
    a.prompt_tokens, a.action_tokens, a.policy_version, a.seconds, a.policy_seconds, a.env_seconds, a.replica
from scheduled_final s
left join outcomes_final o on o.run = s.run and o.episode = s.episode
left join attempts_final a on a.run = s.run and a.episode = s.episode and a.attempt = o.attempt
"""
_SUPERSEDED = f"""
create view superseded as
with gone as (
    select 'scheduled' as kind, s.run, s.segment, s.phase, s.step
    from scheduled s join segment_limits l using (run, segment) where {_POSITION} > l.kept_to
    union all
    select 'attempts', a.run, a.segment, p.phase, p.step
    from attempts a join segment_limits l using (run, segment) join episode_positions p using (run, episode) where p.position > l.kept_to
    union all
    select 'outcomes', o.run, o.segment, p.phase, p.step
    from outcomes o join segment_limits l using (run, segment) join episode_positions p using (run, episode) where p.position > l.kept_to
    union all
    select 'metrics', m.run, m.segment, m.phase, m.step
    from metrics m join segment_limits l using (run, segment) where {_POSITION} > l.kept_to
    union all
    select 'checkpoints', c.run, c.segment, 'train', c.step
    from checkpoints c join segment_limits l using (run, segment) where c.step > l.kept_to
)
select run, segment, kind, phase, step, count(*) as records from gone group by run, segment, kind, phase, step
"""
_UNSCHEDULED = """
create view unscheduled as
select a.run, a.segment, a.episode, 'attempts' as kind
from attempts_final a anti join scheduled_final s on s.run = a.run and s.episode = a.episode
union all
select o.run, o.segment, o.episode, 'outcomes'
from outcomes_final o anti join scheduled_final s on s.run = o.run and s.episode = o.episode
"""

VIEWS = (
    _SEGMENT_LIMITS,
    _EPISODE_POSITIONS,
    _SCHEDULED_FINAL,
    ATTEMPTS_FINAL,
    _OUTCOMES_FINAL,
    _METRICS_FINAL,
    _CHECKPOINTS_FINAL,
    _EPISODES_FINAL,
    _SUPERSEDED,
    _UNSCHEDULED,
)
