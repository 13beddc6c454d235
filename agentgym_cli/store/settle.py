"""What reports count, kept as a table: one row for each scheduled episode that counts."""

from __future__ import annotations

from agentgym_cli.store.db import Connection, first_row

# Planning the views costs more than a small load, and a run of one segment needs none: nothing in it is superseded.
_ONE_SEGMENT = """
with spent as (
    select
        episode, count(*) as spent_attempts, count(*) filter (outcome = 'infra_error') as spent_infra_errors,
        try_cast(sum(turns_count) as bigint) as spent_turns, try_cast(sum(prompt_tokens) as bigint) as spent_prompt_tokens,
        try_cast(sum(action_tokens) as bigint) as spent_action_tokens, sum(seconds) as spent_seconds, sum(policy_seconds) as spent_policy_seconds,
        sum(env_seconds) as spent_env_seconds, min(ended) as first_ended, max(ended) as last_ended
    from attempts where run = $run group by episode
)
insert into episodes_final by name
select
    s.run, s.segment, s.episode, s.phase, s.split, s.step, s.task, s.task_index, s.task_digest, s.category, s.goal, s.sample, s.horizon,
    coalesce(o.outcome, 'missing') as outcome, coalesce(o.first_outcome, 'missing') as first_outcome, coalesce(o.attempts, 0) as attempts,
    o.attempt, o.reward, o.by_verifier, a.stop, a.cause, a.truncated, a.action_induced, a.detail,
    a.turns_count, a.invalid_actions, a.prompt_tokens, a.action_tokens, a.policy_version, a.seconds, a.policy_seconds, a.env_seconds, a.replica,
    coalesce(g.spent_attempts, 0) as spent_attempts, coalesce(g.spent_infra_errors, 0) as spent_infra_errors, g.spent_turns,
    g.spent_prompt_tokens, g.spent_action_tokens, g.spent_seconds, g.spent_policy_seconds, g.spent_env_seconds, g.first_ended, g.last_ended
from (from scheduled where run = $run) s
left join (from outcomes where run = $run) o on o.episode = s.episode
left join (from attempts where run = $run) a on a.episode = s.episode and a.attempt = o.attempt
left join spent g on g.episode = s.episode
"""
_SEGMENTS = "insert into episodes_final by name from episodes_now where run = $run"


def settle(connection: Connection, run: str) -> None:
    """Bring a run's rows of ``episodes_final`` up to date with its records; the view ``episodes_now`` says what they are."""
    segments = first_row(connection, "select count(*) from segments where run = ?", [run])
    connection.execute("delete from episodes_final where run = ?", [run])
    connection.execute(_ONE_SEGMENT if segments == (1,) else _SEGMENTS, {"run": run})
