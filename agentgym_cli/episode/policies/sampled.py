"""A policy whose tokens some server samples: token ids in, token ids out, nothing decoded and encoded again. No barrier between episodes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from agentgym_cli.env.contract import EnvSession
from agentgym_cli.episode.clock import EpisodeClock
from agentgym_cli.episode.policies.failures import PolicyProtocol
from agentgym_cli.episode.policies.protocol import PolicyReply
from agentgym_cli.episode.policies.token_turns import TokenTurns
from agentgym_cli.episode.tokens import TrajectoryBuilder
from agentgym_cli.episode.types import ScheduledEpisode, Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """One response, or its beginning."""

    token_ids: tuple[int, ...]
    """The stop token included where it was sampled."""
    logprobs: tuple[float, ...]
    """In nats, of the distribution sampled from; as many."""
    version: int
    """Optimizer step of the weights that sampled them."""
    interrupted: bool = False
    """The server was stopped for new weights before the response ended; there may be no token at all."""


PAUSE_SECONDS = 0.5
"""Between two requests to a server that was stopped for new weights."""


class Sampler(Protocol):
    """Asks a server for one response."""

    async def sample(self, context: Sequence[int], *, most: int, stop_ids: frozenset[int]) -> Sampled:
        """At most ``most`` tokens behind ``context``. Raises PolicyUnavailable, PolicyProtocol."""


class SampledPolicy:
    """Plays with one sampler; every episode opened is independent of the others."""

    def __init__(self, sampler: Sampler, turns: TokenTurns, *, name: str) -> None:
        self.name = name
        self._sampler = sampler
        self._turns = turns

    def waves(self, episodes: Sequence[ScheduledEpisode]) -> list[list[ScheduledEpisode]]:
        """All at once."""
        return [list(episodes)]

    async def open(self, episode: ScheduledEpisode, *, seed: int, session: EnvSession, clock: EpisodeClock) -> SampledEpisode:
        """Begin an episode with no tokens."""
        return SampledEpisode(self._sampler, self._turns, clock)


class SampledEpisode:
    """The tokens of one episode as they come."""

    def __init__(self, sampler: Sampler, turns: TokenTurns, clock: EpisodeClock) -> None:
        self._sampler, self._turns, self._clock = sampler, turns, clock
        self._ids: list[int] = []
        self._tokens = TrajectoryBuilder()
        self._stopped = False
        self._runs: list[tuple[int, int]] = []

    async def act(self, observation: str) -> PolicyReply:
        """Lay the observation out, ask for a response, keep it as it was sampled."""
        new = self._turns.lay_out(observation, first=not self._ids, stop_sampled=self._stopped)
        context = [*self._ids, *new]
        pieces = await self._pieces(context)
        ids = [token for piece in pieces for token in piece.token_ids]
        if not ids:
            raise PolicyProtocol("sampler: expected tokens and a log-probability of each, got none")
        self._tokens.add_context(new)
        self._tokens.add_sampled(ids, [value for piece in pieces for value in piece.logprobs])
        for piece in pieces:
            self._sampled_by(piece.version, len(piece.token_ids))
        self._ids = [*context, *ids]
        self._stopped = self._turns.stopped(ids)
        return PolicyReply(text=self._turns.text_of(ids), response_tokens=len(ids), context_tokens=len(context), cut=not self._stopped)

    async def _pieces(self, context: Sequence[int]) -> list[Sampled]:
        """One response: where new weights come in between, they go on behind what there is. Waiting for them is no time of the episode's."""
        most, pieces, ids = self._turns.room(len(context)), [], list(context)
        while True:
            said = await self._sampler.sample(ids, most=most, stop_ids=self._turns.stop_ids)
            if len(said.token_ids) != len(said.logprobs):
                raise PolicyProtocol(f"sampler: expected a log-probability of each token, got {len(said.token_ids)} and {len(said.logprobs)}")
            pieces.append(said)
            ids += said.token_ids
            most -= len(said.token_ids)
            if not said.interrupted or most < 1 or self._turns.stopped(said.token_ids):
                return pieces
            with self._clock.held():
                await asyncio.sleep(PAUSE_SECONDS)

    def _sampled_by(self, version: int, tokens: int) -> None:
        """Add to the runs; the one before is made longer where it is of the same weights."""
        if self._runs and self._runs[-1][0] == version:
            tokens += self._runs.pop()[1]
        if tokens:
            self._runs.append((version, tokens))

    def trajectory(self) -> Trajectory | None:
        """What there is so far, ending with the last action token; its version is that of the oldest weights."""
        if not self._runs:
            return None
        versions = tuple(self._runs) if len(self._runs) > 1 else ()
        return self._tokens.build(policy_version=min(version for version, _ in self._runs), versions=versions)

    async def close(self) -> None:
        """Nothing is held."""
