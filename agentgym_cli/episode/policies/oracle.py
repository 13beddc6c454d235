"""The policy that asks the world for a solution: ceilings and demonstrations."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from agentgym_cli.env.contract import EnvFailure, EnvSession, InfraCause
from agentgym_cli.episode.actions import ActionFormat
from agentgym_cli.episode.clock import EpisodeClock
from agentgym_cli.episode.policies.protocol import PolicyReply
from agentgym_cli.episode.policies.scripted import Speaker
from agentgym_cli.episode.types import ScheduledEpisode, Trajectory


class OraclePolicy:
    """Plays what the world's oracle route says, asked once per episode."""

    name = "oracle"

    def __init__(self, *, action_format: ActionFormat, env_call_seconds: float) -> None:
        """``env_call_seconds`` is how long the world may take to answer, which its dialect may make longer than that of another call."""
        self._action_format = action_format
        self._env_call_seconds = env_call_seconds

    def waves(self, episodes: Sequence[ScheduledEpisode]) -> list[list[ScheduledEpisode]]:
        """One list: nobody waits."""
        return [list(episodes)]

    async def open(self, episode: ScheduledEpisode, *, seed: int, session: EnvSession, clock: EpisodeClock) -> OracleEpisode:
        """Begin; the world is asked at the first observation, when the session has its task."""
        return OracleEpisode(session, action_format=self._action_format, seconds=self._env_call_seconds)


class OracleEpisode:
    """One episode of the oracle."""

    def __init__(self, session: EnvSession, *, action_format: ActionFormat, seconds: float) -> None:
        self._session = session
        self._action_format = action_format
        self._seconds = seconds
        self._speaker: Speaker | None = None

    async def act(self, observation: str) -> PolicyReply:
        """The next action of the world's solution. Raises EnvFailure when the world has none to give, or none in time."""
        if self._speaker is None:
            self._speaker = Speaker(await self._solution(), action_format=self._action_format)
        return await self._speaker.act(observation)

    async def _solution(self) -> tuple[str, ...]:
        try:
            async with asyncio.timeout(self._seconds) as scope:
                return await self._session.oracle()
        except TimeoutError as err:
            if not scope.expired():
                raise
            raise EnvFailure(InfraCause.TIMEOUT, f"oracle: expected an answer within {self._seconds:g} s, got none") from err

    def trajectory(self) -> Trajectory | None:
        """None: it has no tokens."""
        return None

    async def close(self) -> None:
        """Nothing to release."""
