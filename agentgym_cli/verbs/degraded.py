"""Counts a run's failures by phase while it runs, earlier segments included, for the rule that calls it degraded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from agentgym_cli.episode.types import Outcome
from agentgym_cli.report.degraded import PhaseFailures, degraded


class InfraShare:
    """Counts final outcomes by phase against the shares of infra errors that a recipe allows."""

    def __init__(self, limit: float, earlier: Mapping[str, str], *, induced_limit: float = 1.0, induced: Collection[str] = ()) -> None:
        """What still counts from earlier segments.

        Args:
            limit: largest share of infra errors among the episodes of a phase.
            earlier: outcomes by episode id.
            induced_limit: the same share for errors that came back on the same action.
            induced: ids of the episodes that ended so.
        """
        self._limit, self._induced_limit = limit, induced_limit
        self._episodes: Counter[str] = Counter()
        self._infra: Counter[str] = Counter()
        self._induced: Counter[str] = Counter()
        for episode, outcome in earlier.items():
            self.count(episode, Outcome(outcome), induced=episode in induced)

    def count(self, episode: str, outcome: Outcome, *, induced: bool = False) -> None:
        """Count one episode that became final; its id begins with its phase."""
        phase = episode.partition("/")[0]
        self._episodes[phase] += 1
        self._infra[phase] += outcome is Outcome.INFRA_ERROR
        self._induced[phase] += outcome is Outcome.INFRA_ERROR and induced

    def sentence(self) -> str | None:
        """Why the run is degraded; None when it is not."""
        phases = {
            phase: PhaseFailures(episodes=episodes, infra=self._infra[phase], induced=self._induced[phase])
            for phase, episodes in self._episodes.items()
        }
        return degraded(phases, most_infra=self._limit, most_induced=self._induced_limit)
