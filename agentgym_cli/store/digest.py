"""One digest over what a run did: equal for two runs of one frozen run wherever equal bits are promised, interrupted or not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256

import orjson

from agentgym_cli.store.db import Connection

_BATCH = 2000

_SCHEDULED = """
select episode, phase, split, step, task, task_index, task_digest, category, goal, sample, horizon
from scheduled_final where run = ? order by episode
"""
_ATTEMPTS = """
select
    episode, attempt, seed, stop, outcome, truncated, cause, action_induced, reward, verified, turns_count, invalid_actions,
    prompt_tokens, action_tokens, policy_version, final_observation
from attempts_final where run = ? order by episode, attempt
"""
_TURNS = """
select
    t.episode, t.attempt, t.turn, t.observation, t.text, t.action, t.valid, t.reward, t.done, t.response_tokens, t.context_tokens
from turns t join attempts_final a using (run, segment, episode, attempt)
where run = ? order by t.episode, t.attempt, t.turn
"""
_TOKENS = """
select episode, attempt, token_ids, action_mask, logprobs
from attempts_final where run = ? and token_ids is not null order by episode, attempt
"""
_VERSIONS = """
select episode, attempt, policy_versions, policy_version_tokens
from attempts_final where run = ? and policy_versions is not null order by episode, attempt
"""
_OUTCOMES = """
select episode, attempt, attempts, outcome, first_outcome, reward, by_verifier
from outcomes_final where run = ? order by episode
"""
_METRICS = """
select phase, step, name, value
from metrics_final where run = ? and not starts_with(name, 'time/') order by phase, step, name
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultsDigest:
    """SHA-256, 64 hex digits, of the rows that count; ``whole`` is over all parts, which show where two runs differ."""

    whole: str
    scheduled: str
    attempts: str
    turns: str
    tokens: str
    """Of no rows when the recipe keeps no tokens."""
    outcomes: str
    metrics: str
    rows: int


def results_digest(connection: Connection, run: str) -> ResultsDigest:
    """The digest of a run's results.

    Left out: superseded records, run and segment, every time and duration, paths, replicas, failure messages (they name ports), and metrics
    whose name begins with ``time/``. Floats count with all their bits.
    """
    parts = {
        "scheduled": (_SCHEDULED,),
        "attempts": (_ATTEMPTS,),
        "turns": (_TURNS,),
        "tokens": (_TOKENS, _VERSIONS),
        "outcomes": (_OUTCOMES,),
        "metrics": (_METRICS,),
    }
    digests, total = {}, 0
    for name, questions in parts.items():
        part = sha256()
        for row in (row for sql in questions for row in _rows(connection, sql, run)):
            part.update(orjson.dumps(row) + b"\n")
            total += 1
        digests[name] = part.hexdigest()
    whole = sha256(orjson.dumps(digests, option=orjson.OPT_SORT_KEYS)).hexdigest()
    return ResultsDigest(whole=whole, rows=total, **digests)


def _rows(connection: Connection, sql: str, run: str) -> Iterator[tuple[object, ...]]:
    result = connection.execute(sql, [run])
    while batch := result.fetchmany(_BATCH):
        yield from batch
