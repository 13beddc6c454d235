"""The tables as the first migration makes them; never edited after release."""

from __future__ import annotations

_RUNS = """
create table runs (
    run varchar not null, name varchar not null, verb varchar not null, profile varchar not null, profile_reason varchar not null,
    engine varchar not null, digest varchar not null, env varchar not null, policy varchar not null, seed ubigint not null,
    created varchar not null, frozen varchar not null, fingerprint varchar not null,
    primary key (run)
)
"""
_SEGMENTS = """
create table segments (
    run varchar not null, segment bigint not null, resumed_from_step bigint, started varchar not null, ended varchar, status varchar,
    primary key (run, segment)
)
"""
_SCHEDULED = """
create table scheduled (
    run varchar not null, segment bigint not null, episode varchar not null, phase varchar not null, split varchar not null,
    step bigint not null, task varchar not null, task_index bigint not null, task_digest varchar not null, category varchar not null,
    goal varchar not null, sample bigint not null, horizon bigint not null,
    primary key (run, segment, episode)
)
"""
_ATTEMPTS = """
create table attempts (
    run varchar not null, segment bigint not null, episode varchar not null, attempt bigint not null, seed ubigint not null,
    stop varchar not null, outcome varchar not null, truncated boolean not null, cause varchar, detail varchar not null,
    action_induced boolean not null, reward double, verified boolean, turns_count bigint not null, invalid_actions bigint not null,
    prompt_tokens bigint not null, action_tokens bigint not null, policy_version bigint, seconds double not null,
    policy_seconds double not null, env_seconds double not null, replica varchar not null, final_observation varchar not null,
    ended varchar not null, token_ids bigint[], action_mask boolean[], logprobs double[],
    primary key (run, segment, episode, attempt)
)
"""
_TURNS = """
create table turns (
    run varchar not null, segment bigint not null, episode varchar not null, attempt bigint not null, turn bigint not null,
    observation varchar not null, text varchar not null, action varchar not null, valid boolean not null, reward double,
    done boolean not null, response_tokens bigint not null, context_tokens bigint not null, policy_seconds double not null,
    env_seconds double not null,
    primary key (run, segment, episode, attempt, turn)
)
"""
_OUTCOMES = """
create table outcomes (
    run varchar not null, segment bigint not null, episode varchar not null, attempt bigint not null, attempts bigint not null,
    outcome varchar not null check (outcome in ('success', 'failure', 'infra_error', 'missing')),
    first_outcome varchar not null check (first_outcome in ('success', 'failure', 'infra_error', 'missing')),
    reward double, by_verifier boolean not null,
    primary key (run, segment, episode)
)
"""
_METRICS = """
create table metrics (
    run varchar not null, segment bigint not null, phase varchar not null, step bigint not null, name varchar not null, value double,
    primary key (run, segment, phase, step, name)
)
"""
_PROBES = """
create table probes (
    run varchar not null, segment bigint not null, url varchar not null, name varchar not null, result varchar not null,
    detail varchar not null, seconds double not null,
    primary key (run, segment, url, name)
)
"""
_CHECKPOINTS = """
create table checkpoints (
    run varchar not null, segment bigint not null, step bigint not null, path varchar not null, digest varchar not null,
    primary key (run, segment, step)
)
"""
_JOURNALS = """
create table journals (
    run varchar not null, segment bigint not null, loaded bigint not null, mark varchar not null,
    primary key (run, segment)
)
"""

TABLES = (_RUNS, _SEGMENTS, _SCHEDULED, _ATTEMPTS, _TURNS, _OUTCOMES, _METRICS, _PROBES, _CHECKPOINTS, _JOURNALS)
