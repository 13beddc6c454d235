"""Whether a run's infra share passed the recipe's limit, phase by phase."""

from __future__ import annotations

from agentgym_cli.verbs.play import Tally


class InfraShare:
    """Counts infra errors of phases against the share that a recipe allows."""

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._over: list[str] = []

    def add(self, phase: str, tally: Tally) -> None:
        """Judge one phase that is over."""
        if tally.episodes and tally.infra_errors > self._limit * tally.episodes:
            share = 100 * tally.infra_errors / tally.episodes
            self._over.append(f"{phase} {share:.1f}% ({tally.infra_errors} of {tally.episodes})")

    def sentence(self) -> str | None:
        """Why the run is degraded; None when it is not."""
        if not self._over:
            return None
        return f"infra share: expected at most {100 * self._limit:g}% of scheduled episodes, got {', '.join(self._over)}"
