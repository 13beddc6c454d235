"""A policy whose tokens some server samples: token ids in, token ids out, nothing decoded and encoded again. No barrier between episodes."""

from __future__ import annotations

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
    """One response."""

    token_ids: tuple[int, ...]
    """The stop token included where it was sampled."""
    logprobs: tuple[float, ...]
    """In nats, of the distribution sampled from; as many."""
    oldest: int
    """Optimizer step of the oldest weights that sampled any of them."""
    newest: int


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
        return SampledEpisode(self._sampler, self._turns)


class SampledEpisode:
    """The tokens of one episode as they come."""

    def __init__(self, sampler: Sampler, turns: TokenTurns) -> None:
        self._sampler, self._turns = sampler, turns
        self._ids: list[int] = []
        self._tokens = TrajectoryBuilder()
        self._stopped = False
        self.oldest: int | None = None
        """Optimizer step of the oldest weights that sampled any token; None before the first."""
        self.newest: int | None = None

    async def act(self, observation: str) -> PolicyReply:
        """Lay the observation out, ask for a response, keep it as it was sampled."""
        new = self._turns.lay_out(observation, first=not self._ids, stop_sampled=self._stopped)
        context = [*self._ids, *new]
        said = await self._sampler.sample(context, most=self._turns.room(len(context)), stop_ids=self._turns.stop_ids)
        if not said.token_ids or len(said.token_ids) != len(said.logprobs):
            raise PolicyProtocol(f"sampler: expected tokens and a log-probability of each, got {len(said.token_ids)} and {len(said.logprobs)}")
        self._tokens.add_context(new)
        self._tokens.add_sampled(said.token_ids, said.logprobs)
        self._ids = [*context, *said.token_ids]
        self._stopped = self._turns.stopped(said.token_ids)
        self.oldest = said.oldest if self.oldest is None else min(self.oldest, said.oldest)
        self.newest = said.newest if self.newest is None else max(self.newest, said.newest)
        return PolicyReply(
            text=self._turns.text_of(said.token_ids),
            response_tokens=len(said.token_ids),
            context_tokens=len(context),
            cut=not self._stopped,
        )

    def trajectory(self) -> Trajectory | None:
        """What there is so far, ending with the last action token; its version is that of the oldest weights."""
        return None if self.oldest is None else self._tokens.build(policy_version=self.oldest)

    async def close(self) -> None:
        """Nothing is held."""
