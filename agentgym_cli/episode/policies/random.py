"""The floor: a policy that draws each action evenly from a list. It learns what can be said from patterns it is given, not from code."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from agentgym_cli.env.contract import EnvSession, ListedActions
from agentgym_cli.episode.actions import ActionFormat, action_text
from agentgym_cli.episode.clock import EpisodeClock
from agentgym_cli.episode.policies.protocol import PolicyReply
from agentgym_cli.episode.types import ScheduledEpisode, Trajectory
from agentgym_cli.errors import RecipeError

MAX_READ_CHARS = 65_536
MAX_CANDIDATES = 1_000


class RandomPolicy:
    """Draws from ``always`` and from what the observation lists, or the first observation where the present one lists nothing.

    Raises RecipeError when it would have nothing to draw from.
    """

    name = "random"

    def __init__(self, *, always: Sequence[str], listed: Sequence[ListedActions], action_format: ActionFormat) -> None:
        if not always and not listed:
            raise RecipeError("random policy: expected actions or patterns that find them, got neither", hint="name them in the dialect")
        self._always = tuple(always)
        self._listed = tuple(listed)
        self._action_format = action_format

    def waves(self, episodes: Sequence[ScheduledEpisode]) -> list[list[ScheduledEpisode]]:
        """One list: nobody waits."""
        return [list(episodes)]

    async def open(self, episode: ScheduledEpisode, *, seed: int, session: EnvSession, clock: EpisodeClock) -> RandomEpisode:
        """Begin with a generator of the episode's own."""
        return RandomEpisode(self, seed=seed)

    def listed_in(self, observation: str) -> tuple[str, ...]:
        """Actions found in an observation, each once, in order; at most MAX_CANDIDATES."""
        found: dict[str, None] = {}
        for listed in self._listed:
            for match in re.finditer(listed.pattern, observation[:MAX_READ_CHARS], re.MULTILINE):
                found[listed.say.replace("{}", match.group(1) or "")] = None
                if len(found) == MAX_CANDIDATES:
                    return tuple(found)
        return tuple(found)

    def say(self, generator: random.Random, listed: Sequence[str]) -> str:
        """One action drawn evenly; '' when there is none to draw."""
        candidates = (*self._always, *listed)
        return action_text(generator.choice(candidates), self._action_format) if candidates else ""


class RandomEpisode:
    """One episode of random actions."""

    def __init__(self, policy: RandomPolicy, *, seed: int) -> None:
        self._policy = policy
        self._generator = random.Random(seed)
        self._first: tuple[str, ...] | None = None

    async def act(self, observation: str) -> PolicyReply:
        """Draw from what this observation lists, else from what the first one did."""
        listed = self._policy.listed_in(observation)
        if self._first is None:
            self._first = listed
        text = self._policy.say(self._generator, listed or self._first)
        return PolicyReply(text=text, response_tokens=0, context_tokens=0, cut=False)

    def trajectory(self) -> Trajectory | None:
        """None: it has no tokens."""
        return None

    async def close(self) -> None:
        """Nothing to release."""
