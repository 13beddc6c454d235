"""The seams between the episode loop, a policy, and whatever decodes tokens for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from agentgym_cli.env.contract import EnvSession
from agentgym_cli.episode.clock import EpisodeClock
from agentgym_cli.episode.types import ScheduledEpisode, Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyReply:
    """What a policy said in one turn."""

    text: str
    response_tokens: int
    context_tokens: int
    cut: bool
    """True when the response hit its token limit before a stop."""


class ContextFull(Exception):
    """The next turn does not fit the context budget; the episode stops with CONTEXT. Control flow, not a failure."""


class PolicyEpisode(Protocol):
    """One policy's side of one episode."""

    async def act(self, observation: str) -> PolicyReply:
        """Answer one observation. Raises ContextFull, or PolicyUnavailable / PolicyProtocol from agentgym_cli.episode.policies.failures."""

    def trajectory(self) -> Trajectory | None:
        """The episode so far as tokens, ending with the last action token; None for policies without tokens or before any action."""

    async def close(self) -> None:
        """Release what ``open`` took (a slot of a wave, a request). Idempotent."""


class Policy(Protocol):
    """Who acts."""

    name: str

    def waves(self, episodes: Sequence[ScheduledEpisode]) -> list[list[ScheduledEpisode]]:
        """Split a schedule into lists that run one after the other; a policy without a barrier returns one list."""

    async def open(self, episode: ScheduledEpisode, *, seed: int, session: EnvSession, clock: EpisodeClock) -> PolicyEpisode:
        """Begin an episode; ``session`` is only for policies that ask the world itself (the oracle), ``clock`` for those with limits of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRequest:
    """What one row of a decoding wave wants next."""

    slot: int
    new_tokens: tuple[int, ...]
    """Context tokens not yet fed: the first prompt, or the last sampled token's successors (closing, observation, opening)."""
    fresh: bool
    """True for the first request of an episode: the slot's cache starts empty."""
    seed: int
    """Of the episode; the draw for the token at position p of the trajectory depends on (seed, p) alone."""
    max_new: int
    """Most tokens to sample now."""
    temperature: float
    """0.0 is greedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotReply:
    """What one row sampled."""

    token_ids: tuple[int, ...]
    """Stop token included when it was sampled."""
    logprobs: tuple[float, ...]
    """In nats, of the distribution sampled from (temperature applied); for greedy, of the distribution at temperature 1."""
    stopped: bool
    """True when the last token is a stop token."""


class Decoder(Protocol):
    """Decodes whole waves with fixed shapes: (slots, chunk) to feed, (slots, 1) to sample, a cache of (slots, context)."""

    slots: int
    context: int
    """Tokens of cache per slot."""
    policy_version: int

    def decode(self, requests: Sequence[SlotRequest]) -> list[SlotReply]:
        """Feed and sample one turn for each request (distinct slots); a row's bits do not depend on the other rows."""
