"""Whether a run is degraded: more of its episodes ended in the world's failures than its recipe allows. The one rule of verbs and reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseFailures:
    """Counts of one phase."""

    episodes: int
    infra: int
    """Of these, infra errors."""
    induced: int
    """Of these, infra errors that came back on the same action."""


def degraded(phases: Mapping[str, PhaseFailures], *, most_infra: float, most_induced: float) -> str | None:
    """Why a run counts as degraded, in a sentence; None when it does not. Limits are shares of a phase's episodes; at the limit is within it."""
    infra = [_share(phase, of.infra, of.episodes) for phase, of in phases.items() if of.infra > most_infra * of.episodes]
    induced = [_share(phase, of.induced, of.episodes) for phase, of in phases.items() if of.induced > most_induced * of.episodes]
    said = [
        f"{what}: expected at most {100 * most:g}% of scheduled episodes, got {', '.join(over)}"
        for what, most, over in (("infra share", most_infra, infra), ("errors that came back on the same action", most_induced, induced))
        if over
    ]
    return "; ".join(said) or None


def _share(phase: str, failed: int, episodes: int) -> str:
    return f"{phase} {100 * failed / episodes:.1f}% ({failed} of {episodes})"
