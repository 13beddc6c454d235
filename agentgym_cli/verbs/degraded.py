"""Whether a run's infra share passed the recipe's limit, phase by phase, earlier segments included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from agentgym_cli.episode.types import Outcome


class InfraShare:
    """Counts final outcomes by phase against the share of infra errors that a recipe allows."""

    def __init__(self, limit: float, earlier: Mapping[str, str]) -> None:
        """``earlier`` has the outcomes, by episode id, that still count from earlier segments."""
        self._limit = limit
        self._episodes: Counter[str] = Counter()
        self._infra: Counter[str] = Counter()
        for episode, outcome in earlier.items():
            self.count(episode, Outcome(outcome))

    def count(self, episode: str, outcome: Outcome) -> None:
        """Count one episode that became final; its id begins with its phase."""
        phase = episode.partition("/")[0]
        self._episodes[phase] += 1
        self._infra[phase] += outcome is Outcome.INFRA_ERROR

    def sentence(self) -> str | None:
        """Why the run is degraded; None when it is not."""
        over = [
            f"{phase} {100 * self._infra[phase] / episodes:.1f}% ({self._infra[phase]} of {episodes})"
            for phase, episodes in self._episodes.items()
            if self._infra[phase] > self._limit * episodes
        ]
        return f"infra share: expected at most {100 * self._limit:g}% of scheduled episodes, got {', '.join(over)}" if over else None
