"""Whether a run is degraded: more of its episodes ended in the world's failures than its recipe allows. The one rule of verbs and reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agentgym_cli.report.frozen import FrozenFacts
from agentgym_cli.store.rows import CountsRow


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


def degraded_run(counts: Iterable[CountsRow], facts: FrozenFacts) -> str | None:
    """The same of a run in the store; None also where the limits of its recipe are not known."""
    phases: dict[str, PhaseFailures] = {}
    for row in counts:
        so_far = phases.get(row.phase, PhaseFailures(episodes=0, infra=0, induced=0))
        phases[row.phase] = PhaseFailures(
            episodes=so_far.episodes + row.scheduled, infra=so_far.infra + row.infra_error, induced=so_far.induced + row.action_induced
        )
    if facts.max_infra_share is None:
        return None
    induced = facts.max_action_induced_share
    return degraded(phases, most_infra=facts.max_infra_share, most_induced=1.0 if induced is None else induced)


def _share(phase: str, failed: int, episodes: int) -> str:
    return f"{phase} {100 * failed / episodes:.1f}% ({failed} of {episodes})"
