"""A world and a policy in memory, with every fault a test can ask for, and builders for what a schedule is made of."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from agentgym_cli.env.contract import ActionRule, EnvSession, EpisodeRules, StepReply
from agentgym_cli.episode.clock import EpisodeClock
from agentgym_cli.episode.policies.protocol import PolicyReply
from agentgym_cli.episode.types import ScheduledEpisode, Task, Trajectory
from agentgym_cli.recipe.schema.world import BudgetsSpec

PLAIN = ActionRule(pattern=None, remove=None, on_many=None, on_none=None)
REACT = ActionRule(pattern=r"Action:\s*(.*?)(?=\n|$)", remove=r"[^A-Za-z0-9, ]+", on_many="One action only.", on_none=None)
BUDGETS = BudgetsSpec(response_tokens=8, context_tokens=64, policy_call_seconds=60.0, env_call_seconds=10.0, episode_seconds=300.0)
Fault = Exception | Literal["hang"] | None


def make_rules(
    *, reward_kind: Literal["terminal", "per_step", "cumulative"] = "terminal", success: float = 1.0, verified: bool = False
) -> EpisodeRules:
    return EpisodeRules(
        env="fake",
        system_prompt="",
        reward_kind=reward_kind,
        success_reward=success,
        invalid_action=("Could not ",),
        actions={"plain": PLAIN, "react": REACT},
        verified=verified,
    )


def make_episode(index: int = 0, *, horizon: int = 5, sample: int = 0, digest: str = "") -> ScheduledEpisode:
    task = Task(id=f"fake_{index}", index=index, split="train", category="", goal="", digest=digest)
    return ScheduledEpisode(phase="train", step=1, task=task, sample=sample, horizon=horizon)


def solve_in(turns: int) -> Callable[[int, str, int], StepReply]:
    """A world that is done, with reward 1, at the given turn."""
    return lambda task, action, turn: StepReply(observation=f"after {action}", reward=float(turn == turns), done=turn == turns)


@dataclass
class FakeEnv:
    """An EnvClient; sessions are numbered as they are asked for.

    ``answer(task, action, turn)`` plays the world, ``fault(call, session)`` and ``seconds(call, session)`` disturb it.
    """

    answer: Callable[[int, str, int], StepReply] = field(default_factory=lambda: solve_in(1))
    first: Callable[[int], str] = "task {}".format
    fault: Callable[[str, int], Fault] = lambda call, session: None
    seconds: Callable[[str, int], float] = lambda call, session: 0.0
    plan: tuple[str, ...] = ()
    satisfied: bool = True
    opened: list[int] = field(default_factory=list)
    closed: list[int] = field(default_factory=list)
    released: list[int] = field(default_factory=list)
    steps: list[tuple[int, str]] = field(default_factory=list)
    most_open: int = 0
    asked: int = 0

    async def ready(self) -> None:
        """It always is."""

    async def open(self) -> FakeSession:
        number, self.asked = self.asked, self.asked + 1
        await self.disturb("open", number)
        self.opened.append(number)
        self.most_open = max(self.most_open, len(self.opened) - len(self.closed))
        return FakeSession(self, number)

    async def aclose(self) -> None:
        """Nothing underneath."""

    async def disturb(self, call: str, session: int) -> None:
        fault = self.fault(call, session)
        await asyncio.sleep(10_000_000.0 if fault == "hang" else self.seconds(call, session))
        if isinstance(fault, Exception):
            raise fault

    @property
    def left_open(self) -> set[int]:
        return set(self.opened) - set(self.closed)


class FakeSession:
    """One session: calls never interleave, nothing after close, closed once."""

    def __init__(self, env: FakeEnv, number: int) -> None:
        self._env = env
        self._number = number
        self._busy = False
        self._task = -1
        self._turn = 0

    @property
    def replica(self) -> str:
        return f"fake://{self._number % 2}"

    @contextmanager
    def _call(self) -> Iterator[None]:
        assert not self._busy, "two calls on one session"
        assert self._number not in self._env.closed, "a call on a closed session"
        self._busy = True
        try:
            yield
        finally:
            self._busy = False

    async def reset(self, task_index: int) -> str:
        with self._call():
            await self._env.disturb("reset", self._number)
            self._task, self._turn = task_index, 0
            return self._env.first(task_index)

    async def step(self, action: str) -> StepReply:
        with self._call():
            self._env.steps.append((self._number, action))
            await self._env.disturb("step", self._number)
            self._turn += 1
            return self._env.answer(self._task, action, self._turn)

    async def oracle(self) -> tuple[str, ...]:
        with self._call():
            await self._env.disturb("oracle", self._number)
            return self._env.plan

    async def verify(self) -> bool:
        with self._call():
            await self._env.disturb("verify", self._number)
            return self._env.satisfied

    async def close(self) -> None:
        assert self._number not in self._env.closed, "closed twice"
        self._env.closed.append(self._number)
        await self._env.disturb("close", self._number)
        self._env.released.append(self._number)


@dataclass
class FakePolicy:
    """A Policy that says ``say(episode, observation, turn)``, after ``seconds(turn)``; an exception in place of a text is raised."""

    say: Callable[[ScheduledEpisode, str, int], str | Exception] = lambda episode, observation, turn: f"a{turn}"
    seconds: Callable[[int], float] = lambda turn: 0.0
    wave: int | None = None
    name: str = "fake"
    closed: int = 0
    seeds: list[int] = field(default_factory=list)

    def waves(self, episodes: Sequence[ScheduledEpisode]) -> list[list[ScheduledEpisode]]:
        size = self.wave or max(1, len(episodes))
        return [list(episodes[start : start + size]) for start in range(0, len(episodes), size)]

    async def open(self, episode: ScheduledEpisode, *, seed: int, session: EnvSession, clock: EpisodeClock) -> FakePlayer:
        self.seeds.append(seed)
        return FakePlayer(self, episode)


class FakePlayer:
    """One episode of the fake policy."""

    def __init__(self, policy: FakePolicy, episode: ScheduledEpisode) -> None:
        self._policy = policy
        self._episode = episode
        self._turn = 0

    async def act(self, observation: str) -> PolicyReply:
        self._turn += 1
        await asyncio.sleep(self._policy.seconds(self._turn))
        text = self._policy.say(self._episode, observation, self._turn)
        if isinstance(text, Exception):
            raise text
        return PolicyReply(text=text, response_tokens=2, context_tokens=10 * self._turn, cut=False)

    def trajectory(self) -> Trajectory | None:
        return None

    async def close(self) -> None:
        self._policy.closed += 1
