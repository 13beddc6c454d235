"""The policy behind a vLLM server of our own: ids of a context to it, sampled ids back with their log-probabilities. No episode waits for another."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from agentgym_cli.env.contract import EnvSession
from agentgym_cli.env.pointer import Json
from agentgym_cli.episode.clock import EpisodeClock
from agentgym_cli.episode.policies.endpoint_call import LlmServer, Patience
from agentgym_cli.episode.policies.endpoint_presence import Presence
from agentgym_cli.episode.policies.endpoint_reply import read_said
from agentgym_cli.episode.policies.failures import PolicyProtocol, PolicyUnavailable
from agentgym_cli.episode.policies.protocol import ContextFull
from agentgym_cli.episode.policies.sampled import Sampled, SampledEpisode
from agentgym_cli.episode.policies.token_turns import TokenTurns
from agentgym_cli.episode.types import ScheduledEpisode
from agentgym_cli.recipe.schema.policy import SamplingSpec
from agentgym_cli.recipe.schema.world import BudgetsSpec

RETRY_SECONDS = 60.0
"""How long one call goes on asking a server that answers with errors; at most nine tenths of the call's deadline."""
_SHARE = 0.9
_PATH = "/completions"
_ENDS = ("stop", "length")
"""Reasons for which a response is over; any other is a server that gave up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """How tokens are drawn."""

    model: str
    """As the server calls it."""
    sampling: SamplingSpec
    temperature: float
    """0.0 is greedy; log-probabilities are then of the distribution at temperature 1."""

    def fields(self, context: Sequence[int], *, most: int, stop_ids: frozenset[int], seed: int) -> dict[str, Json]:
        """A request. Only ``stop_ids`` end a response, whatever else the model's folder says ends one."""
        return {
            "model": self.model,
            "prompt": [*context],
            "max_tokens": most,
            "temperature": self.temperature,
            "top_p": self.sampling.top_p,
            "top_k": self.sampling.top_k,
            "seed": seed,
            "stop_token_ids": [*sorted(stop_ids)],
            "ignore_eos": True,
            "logprobs": 0,
            "return_token_ids": True,
        }


class ServedPolicy:
    """Plays every episode at once, as one set of weights.

    Args:
        step: optimizer step of the weights.
        give_up_after: calls in a row that get no answer, after which a server that does not even list its models ends the run.
    """

    def __init__(
        self, server: LlmServer, drawing: Drawing, turns: TokenTurns, *, step: int, budgets: BudgetsSpec, give_up_after: int, name: str = "vLLM"
    ) -> None:
        self.name = name
        self.server, self.drawing, self.step = server, drawing, step
        self.presence = Presence(server, give_up_after=give_up_after)
        self._turns = turns
        self._budgets = budgets

    def waves(self, episodes: Sequence[ScheduledEpisode]) -> list[list[ScheduledEpisode]]:
        """One list: nobody waits."""
        return [list(episodes)]

    async def open(self, episode: ScheduledEpisode, *, seed: int, session: EnvSession, clock: EpisodeClock) -> SampledEpisode:
        """Begin an episode with no tokens."""
        # The episode began at most one env call earlier.
        end = clock.time() + self._budgets.episode_seconds - self._budgets.env_call_seconds
        return SampledEpisode(ServedSampler(self, seed=seed, clock=clock, end=end), self._turns, clock)

    def patience(self, *, seed: int, clock: EpisodeClock, end: float) -> Patience:
        """For a call that begins now, of an episode that may go on until ``end``."""
        seconds = self._budgets.policy_call_seconds
        return Patience(clock=clock, until=min(clock.time() + min(RETRY_SECONDS, _SHARE * seconds), end), seconds=seconds, seed=seed)


class ServedSampler:
    """The requests of one attempt; see ``Sampler``."""

    def __init__(self, policy: ServedPolicy, *, seed: int, clock: EpisodeClock, end: float) -> None:
        self._policy, self._seed, self._clock, self._end = policy, seed, clock, end

    async def sample(self, context: Sequence[int], *, most: int, stop_ids: frozenset[int]) -> Sampled:
        """See ``Sampler``. Raises ServersLost too, where the server stays away."""
        policy = self._policy
        seed = turn_seed(self._seed, len(context))
        fields = policy.drawing.fields(context, most=most, stop_ids=stop_ids, seed=seed)
        patience = policy.patience(seed=self._seed, clock=self._clock, end=self._end)
        try:
            body = await policy.server.ask(_PATH, fields, tokens=len(context) + most, patience=patience)
        except ContextFull as err:
            raise PolicyProtocol(f"{self._where}: expected room for {len(context)} + {most} tokens, got a context that is too short") from err
        except PolicyUnavailable as failure:
            with self._clock.held():
                await policy.presence.missed(failure)
            raise
        policy.presence.answered()
        return self._read(body, context, most=most)

    def _read(self, body: Json, context: Sequence[int], *, most: int) -> Sampled:
        """The response, where it is one to this context. Raises PolicyProtocol, PolicyUnavailable."""
        said = read_said(body, api="completions", calls=False, where=self._where)
        if (why := _reason(body)) not in _ENDS:
            raise PolicyUnavailable(f"{self._where}: expected a whole response, got one that ended by {why!r}")
        if said.prompt_ids != tuple(context):
            raise PolicyProtocol(f"{self._where}: expected a response to the {len(context)} tokens that were sent, got one to others")
        if not said.token_ids or said.logprobs is None or len(said.token_ids) > most:
            got = f"{len(said.token_ids or ())} and {len(said.logprobs or ())}"
            raise PolicyProtocol(f"{self._where}: expected 1 to {most} tokens and as many log-probabilities, got {got}")
        return Sampled(token_ids=said.token_ids, logprobs=said.logprobs, version=self._policy.step)

    @property
    def _where(self) -> str:
        return f"POST {self._policy.server.url}{_PATH}"


def turn_seed(seed: int, length: int) -> int:
    """Seed of one response of an attempt, 0 <= seed < 2**63: the first 63 bits of the SHA-256 of ``<seed>\\n<tokens before it>``.

    A server draws a request's tokens from the beginning of its seed's numbers: turns with one seed would share them.
    """
    return int.from_bytes(hashlib.sha256(f"{seed}\n{length}".encode()).digest()[:8], "big") >> 1


def _reason(body: Json) -> Json:
    choices = body.get("choices") if isinstance(body, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    return first.get("finish_reason") if isinstance(first, dict) else None
