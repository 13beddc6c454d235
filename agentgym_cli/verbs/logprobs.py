"""The sampler against the trainer: log-probabilities of sampled tokens from both sides, over real turns. Loads torch."""

from __future__ import annotations

import asyncio
from pathlib import Path

from agentgym_cli.env.contract import EnvSession
from agentgym_cli.episode.clock import EpisodeClock
from agentgym_cli.episode.policies.sampler import CausalModel, TorchDecoder
from agentgym_cli.episode.policies.wave import WavePolicy
from agentgym_cli.episode.qualification.findings import NotMet
from agentgym_cli.episode.qualification.masks import NoWorld
from agentgym_cli.episode.tokens import TurnTokens
from agentgym_cli.episode.types import ScheduledEpisode, Task, Trajectory
from agentgym_cli.learn.agreement import largest_difference
from agentgym_cli.learn.model import build_model
from agentgym_cli.learn.runtime import settle
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.recipe.schema.world import BudgetsSpec
from agentgym_cli.verbs.turns import Turns

LARGEST_DIFFERENCE = 1e-3
"""Nats, of one token: float32 gives about a hundredth of it, and a wrong mask, position or temperature far more."""
RESPONSE_TOKENS = 24
EPISODES = 2
OBSERVATIONS = (
    "You are in a kitchen. There is a locked door to the north.",
    "The door is still locked.\nA key lies on the table.",
    "Nothing happens.",
)


def weigh(run: Run, turns: Turns, model_folder: Path, system_prompt: str) -> str:
    """Sample a few turns and score them again as training does. Raises NotMet for a larger difference, PolicyError for a bad model."""
    settle(run.engine)
    context = _room(turns.tokens, system_prompt)
    if context > run.budgets.context_tokens:
        raise NotMet(f"expected {context} tokens of context for three short turns, got budgets.context_tokens of {run.budgets.context_tokens}")
    seed = run.seed if run.policy.own_model.weights == "seed" else None
    model = build_model(model_folder, seed=seed, vocabulary=turns.tokens.vocabulary, context=context)
    played = asyncio.run(_played(model, run, turns.tokens, system_prompt, context))
    difference, tokens = largest_difference(model, played, temperature=run.policy.sampling.temperature)
    said = f"max |sampler - trainer| {difference:.1e} nats over {tokens} sampled tokens"
    if not difference <= LARGEST_DIFFERENCE:
        raise NotMet(f"expected at most {LARGEST_DIFFERENCE:g} nats, got {said}")
    return f"{said}, at most {LARGEST_DIFFERENCE:g}"


def _room(tokens: TurnTokens, system_prompt: str) -> int:
    first, *later = OBSERVATIONS
    contexts = [tokens.initial(system_prompt, first), *(tokens.next(text, stop_sampled=False) for text in later)]
    return sum(map(len, contexts)) + len(contexts) * RESPONSE_TOKENS + 1


async def _played(model: CausalModel, run: Run, tokens: TurnTokens, system_prompt: str, context: int) -> list[Trajectory]:
    decoder = TorchDecoder(model, slots=EPISODES, context=context, stop_ids=tokens.stop_ids)
    budgets = BudgetsSpec(response_tokens=RESPONSE_TOKENS, context_tokens=context, policy_call_seconds=run.budgets.policy_call_seconds)
    policy = WavePolicy(decoder, tokens=tokens, system_prompt=system_prompt, budgets=budgets, temperature=run.policy.sampling.temperature)
    task = Task(id="script_0", index=0, split="script", category="", goal="", digest="")
    episodes = [ScheduledEpisode(phase="eval", step=0, task=task, sample=sample, horizon=len(OBSERVATIONS)) for sample in range(EPISODES)]
    policy.waves(episodes)
    played = await asyncio.gather(*(_play(policy, episode) for episode in episodes))
    return [trajectory for trajectory in played if trajectory is not None]


async def _play(policy: WavePolicy, episode: ScheduledEpisode) -> Trajectory | None:
    session: EnvSession = NoWorld()  # type: ignore[assignment]
    player = await policy.open(episode, seed=episode.sample + 1, session=session, clock=EpisodeClock())
    try:
        for observation in OBSERVATIONS:
            await player.act(observation)
        return player.trajectory()
    finally:
        await player.close()
