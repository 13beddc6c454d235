"""Stored episodes in the turns of a run's policy; what does not fit is counted by reason, never cut. Loads no torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from agentgym_cli.episode.tokens import TurnTokens
from agentgym_cli.episode.types import Trajectory
from agentgym_cli.learn.demonstrations import laid_out
from agentgym_cli.learn.pairs import Candidate, Pair
from agentgym_cli.verbs.stored import StoredEpisode


class Laying:
    """Lays out the episodes of one run and counts those it leaves out."""

    def __init__(self, tokens: TurnTokens, *, system_prompt: str, turns: int, context: int) -> None:
        """``turns`` and ``context``: most turns and tokens of an episode that is learned."""
        self._tokens, self._system_prompt, self._turns, self._context = tokens, system_prompt, turns, context
        self.left_out: Counter[str] = Counter()

    def trajectories(self, episodes: Iterable[StoredEpisode]) -> list[Trajectory]:
        """Those that fit and have something to learn, in order."""
        return [found for each in episodes if (found := self._one(each)) is not None]

    def candidates(self, episodes: Iterable[StoredEpisode]) -> list[Candidate]:
        """The same with what they were paid."""
        return [
            Candidate(task=each.conversation.number, reward=each.reward or 0.0, success=each.success, trajectory=found)
            for each in episodes
            if (found := self._one(each)) is not None
        ]

    def pairs(self, given: Iterable[tuple[StoredEpisode, StoredEpisode]]) -> list[Pair]:
        """Pairs of which both sides fit and differ."""
        found: list[Pair] = []
        for sides in given:
            laid = self.trajectories(sides)
            if len(laid) < len(sides):
                continue
            pair = Pair(chosen=laid[0], rejected=laid[1])
            if pair.equal:
                self.left_out["equal"] += 1
            else:
                found.append(pair)
        return found

    def fits(self, trajectory: Trajectory, turns: int) -> bool:
        """Whether an episode may be learned; counts it where it may not."""
        if turns > self._turns:
            self.left_out["turns"] += 1
        elif len(trajectory.token_ids) > self._context:
            self.left_out["tokens"] += 1
        else:
            return True
        return False

    def _one(self, episode: StoredEpisode) -> Trajectory | None:
        found = episode.trajectory or laid_out(episode.conversation, self._tokens, system_prompt=self._system_prompt)
        if found is None:
            self.left_out["nothing_learned"] += 1
            return None
        return found if self.fits(found, len(episode.conversation.turns)) else None
