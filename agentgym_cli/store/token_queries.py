"""The named questions about token ids that attempts kept."""

from __future__ import annotations

from dataclasses import dataclass

from agentgym_cli.store.db import Connection, rows_of
from agentgym_cli.store.queries import fetch

_ATTEMPTS = """
select attempt, outcome, stop, turns_count as turns, token_ids, action_mask, logprobs, policy_versions, policy_version_tokens
from attempts_final
where run = ? and episode = ?
order by attempt
"""
_EPISODES = """
select distinct episode from attempts_final where run = ? and token_ids is not null order by episode limit ?
"""
_PLAYED = """
select distinct episode from attempts_final where run = ? order by episode limit ?
"""
_SAID = """
select distinct detail from probes
where run = ? and result = 'known deviation' and name in ('endpoint: token ids', 'endpoint: log-probabilities', 'endpoint: history')
order by detail
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensRow:
    """One attempt at an episode; the lists are None where tokens were not kept."""

    attempt: int
    outcome: str
    stop: str
    turns: int
    token_ids: list[int] | None
    action_mask: list[bool] | None
    logprobs: list[float] | None
    policy_versions: list[int] | None
    policy_version_tokens: list[int] | None


def attempts_of(connection: Connection, run: str, episode: str) -> list[TokensRow]:
    """Attempts at one episode that are not superseded, in order."""
    return fetch(connection, TokensRow, _ATTEMPTS, [run, episode])


def episodes_with_tokens(connection: Connection, run: str, most: int) -> list[str]:
    """The first episodes, by name, of which some attempt kept its tokens."""
    return [str(row[0]) for row in rows_of(connection, _EPISODES, [run, most])]


def episodes_played(connection: Connection, run: str, most: int) -> list[str]:
    """The first episodes, by name, that have an attempt."""
    return [str(row[0]) for row in rows_of(connection, _PLAYED, [run, most])]


def said_of_tokens(connection: Connection, run: str) -> list[str]:
    """What was recorded of a served policy that gave no whole trajectories."""
    return [str(row[0]) for row in rows_of(connection, _SAID, [run])]
