"""What the fifth migration does to the tables; never edited after release.

Tables that grow with the episodes lose their primary keys, whose indexes cost more than everything else in a load and half the file; loading
keeps keys unique. Columns that nobody can know of an imported run may be null.
"""

from __future__ import annotations

_RUNS = (
    *(
        f"alter table runs alter column {name} drop not null"
        for name in ("profile", "profile_reason", "engine", "digest", "policy", "seed", "frozen", "fingerprint")
    ),
    "alter table runs add column imported varchar",
    "alter table runs add column source_digest varchar",
)
_SCHEDULED = """
create table scheduled (
    run varchar not null, segment bigint not null, episode varchar not null, phase varchar not null, split varchar not null,
    step bigint not null, task varchar not null, task_index bigint not null, task_digest varchar not null, category varchar not null,
    goal varchar not null, sample bigint not null, horizon bigint
)
"""
_ATTEMPTS = """
create table attempts (
    run varchar not null, segment bigint not null, episode varchar not null, attempt bigint not null, seed ubigint,
    stop varchar, outcome varchar, truncated boolean, cause varchar, detail varchar not null,
    action_induced boolean, reward double check (reward is null or outcome in ('success', 'failure')), verified boolean,
    turns_count bigint not null, invalid_actions bigint, prompt_tokens bigint, action_tokens bigint, policy_version bigint, seconds double,
    policy_seconds double, env_seconds double, replica varchar, final_observation varchar not null, ended varchar,
    token_ids bigint[], action_mask boolean[], logprobs double[],
    run_turns bigint, run_tokens_read bigint, run_tokens_sampled bigint, run_seconds double
)
"""
_TURNS = """
create table turns (
    run varchar not null, segment bigint not null, episode varchar not null, attempt bigint not null, turn bigint not null,
    observation varchar not null, text varchar not null, action varchar, valid boolean, reward double,
    done boolean, response_tokens bigint, context_tokens bigint, policy_seconds double, env_seconds double, cut boolean
)
"""
_OUTCOMES = """
create table outcomes (
    run varchar not null, segment bigint not null, episode varchar not null, attempt bigint not null, attempts bigint not null,
    outcome varchar not null check (outcome in ('success', 'failure', 'infra_error', 'missing')),
    first_outcome varchar not null check (first_outcome in ('success', 'failure', 'infra_error', 'missing')),
    reward double check (reward is null or outcome in ('success', 'failure')), by_verifier boolean not null
)
"""
_METRICS = """
create table metrics (
    run varchar not null, segment bigint not null, phase varchar not null, step bigint not null, name varchar not null, value double
)
"""
_EPISODES = """
create table episodes_final (
    run varchar not null, segment bigint not null, episode varchar not null, phase varchar not null, split varchar not null,
    step bigint not null, task varchar not null, task_index bigint not null, task_digest varchar not null, category varchar not null,
    goal varchar not null, sample bigint not null, horizon bigint, outcome varchar not null, first_outcome varchar not null,
    attempts bigint not null,
    attempt bigint, reward double, by_verifier boolean, stop varchar, cause varchar, truncated boolean, action_induced boolean, detail varchar,
    turns_count bigint, invalid_actions bigint, prompt_tokens bigint, action_tokens bigint, policy_version bigint, seconds double,
    policy_seconds double, env_seconds double, replica varchar,
    spent_attempts bigint not null, spent_infra_errors bigint not null, spent_turns bigint, spent_prompt_tokens bigint,
    spent_action_tokens bigint, spent_seconds double, spent_policy_seconds double, spent_env_seconds double,
    first_ended varchar, last_ended varchar
)
"""


def _again(name: str, statement: str) -> tuple[str, ...]:
    """Make a table again without its key, rows and all."""
    return (f"alter table {name} rename to {name}_before", statement, f"insert into {name} by name from {name}_before", f"drop table {name}_before")


STATEMENTS = (
    *_RUNS,
    *(
        line
        for name, statement in (
            ("scheduled", _SCHEDULED),
            ("attempts", _ATTEMPTS),
            ("turns", _TURNS),
            ("outcomes", _OUTCOMES),
            ("metrics", _METRICS),
        )
        for line in _again(name, statement)
    ),
    "drop view episodes_final",
    _EPISODES,
)
