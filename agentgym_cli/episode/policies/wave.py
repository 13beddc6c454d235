"""The local policy: turns as tokens, decoded in waves with a fixed number of slots. Knows no tensors; the decoder does."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym_cli.env.contract import EnvSession
from agentgym_cli.episode.clock import EpisodeClock
from agentgym_cli.episode.policies.barrier import Barrier
from agentgym_cli.episode.policies.protocol import Decoder, PolicyReply, SlotReply, SlotRequest
from agentgym_cli.episode.policies.token_turns import TokenTurns
from agentgym_cli.episode.tokens import TrajectoryBuilder, TurnTokens
from agentgym_cli.episode.types import ScheduledEpisode, Trajectory
from agentgym_cli.recipe.schema.world import BudgetsSpec

LONGEST_PATIENCE_SECONDS = 5.0


class WavePolicy:
    """Plays up to ``decoder.slots`` episodes at once; episode i of a schedule has slot i modulo slots, in every attempt.

    Args:
        system_prompt: instructions before the first observation; '' says nothing.
        temperature: of sampling; 0.0 is greedy.
    """

    def __init__(
        self, decoder: Decoder, *, tokens: TurnTokens, system_prompt: str, budgets: BudgetsSpec, temperature: float, name: str = "local"
    ) -> None:
        self.name = name
        self._decoder = decoder
        context = min(budgets.context_tokens, decoder.context)
        self._turns = TokenTurns(tokens, system_prompt=system_prompt, context=context, response=budgets.response_tokens)
        self._budgets = budgets
        self._temperature = temperature
        self._slots: dict[str, int] = {}
        patience = min(LONGEST_PATIENCE_SECONDS, budgets.policy_call_seconds / 10)
        self._barrier = Barrier(decoder, patience=patience)

    def waves(self, episodes: Sequence[ScheduledEpisode]) -> list[list[ScheduledEpisode]]:
        """Cut the whole schedule, in order, into lists of at most as many episodes as there are slots."""
        slots = self._decoder.slots
        self._slots = {episode.id: place % slots for place, episode in enumerate(episodes)}
        return [list(episodes[start : start + slots]) for start in range(0, len(episodes), slots)]

    async def open(self, episode: ScheduledEpisode, *, seed: int, session: EnvSession, clock: EpisodeClock) -> WaveEpisode:
        """Take the episode's slot."""
        slot = self._slots[episode.id]
        self._barrier.join(slot)
        return WaveEpisode(self, slot=slot, seed=seed)

    async def close(self, slot: int) -> None:
        """Give a slot back, once no decode uses it. Raises PolicyError when one never ends."""
        await self._barrier.leave(slot, seconds=self._budgets.policy_call_seconds)

    @property
    def policy_version(self) -> int:
        """Optimizer step of the weights that decode now."""
        return self._decoder.policy_version

    def lay_out(self, observation: str, *, first: bool, stop_sampled: bool) -> tuple[int, ...]:
        """Context tokens that an observation adds. Raises ContextFull for a text that cannot fit."""
        return self._turns.lay_out(observation, first=first, stop_sampled=stop_sampled)

    async def sample(self, *, slot: int, seed: int, new_tokens: tuple[int, ...], fresh: bool, length: int) -> SlotReply:
        """Feed ``new_tokens`` behind the ``length`` tokens there are and sample one response. Raises ContextFull, PolicyError."""
        request = SlotRequest(
            slot=slot,
            new_tokens=new_tokens,
            fresh=fresh,
            seed=seed,
            max_new=self._turns.room(length + len(new_tokens)),
            temperature=self._temperature,
        )
        return await self._barrier.reply(request)

    def text_of(self, reply: SlotReply) -> str:
        """What the sampled tokens say."""
        return self._turns.text_of(reply.token_ids)


class WaveEpisode:
    """One episode in its slot."""

    def __init__(self, policy: WavePolicy, *, slot: int, seed: int) -> None:
        self._policy = policy
        self._slot = slot
        self._seed = seed
        self._tokens = TrajectoryBuilder()
        self._stopped = False
        self._version = policy.policy_version

    async def act(self, observation: str) -> PolicyReply:
        """Lay the observation out, wait for the wave, keep what was sampled as it was sampled."""
        first, length = len(self._tokens) == 0, len(self._tokens)
        new_tokens = self._policy.lay_out(observation, first=first, stop_sampled=self._stopped)
        reply = await self._policy.sample(slot=self._slot, seed=self._seed, new_tokens=new_tokens, fresh=first, length=length)
        self._tokens.add_context(new_tokens)
        self._tokens.add_sampled(reply.token_ids, reply.logprobs)
        self._stopped = reply.stopped
        return PolicyReply(
            text=self._policy.text_of(reply),
            response_tokens=len(reply.token_ids),
            context_tokens=length + len(new_tokens),
            cut=not reply.stopped,
        )

    def trajectory(self) -> Trajectory | None:
        """What was fed and sampled so far, ending with the last action token."""
        return self._tokens.build(policy_version=self._version)

    async def close(self) -> None:
        """Give the slot back."""
        await self._policy.close(self._slot)
