"""What is known of a rehearsal before it runs: that the recipe's model takes no part in it, and what shipped ones took. Estimates nothing."""

from __future__ import annotations

from dataclasses import dataclass

from agentgym_cli.capacity.gpus import GIB
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.verbs.machine import machine_memory
from agentgym_cli.verbs.verl_place import rehearses

MEASURED_BYTES = int(6.7 * GIB)
"""Of all processes of a rehearsal of GRPO with one CPU in the place of a GPU; pages that several share count once. A critic is one process more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsedAnswer:
    """Why a rehearsal is not judged, and what there is to say."""

    recipe: str
    profile: str
    profile_reason: str
    model: str
    """The recipe's, in whose place a tiny one of the same architecture is launched."""
    processes: int
    """CPUs that stand for a GPU, each with a trainer and a sampler."""
    taken: int
    """Bytes: what one took, as often as there are."""
    memory: int
    """Bytes that this machine, or its container, has."""

    @property
    def why_no_memory(self) -> str:
        """In words that follow ``not judged:``."""
        return f"a rehearsal launches a tiny model in place of {self.model}"


def is_rehearsed(run: Run) -> bool:
    """Whether a run is a launch on verl without GPUs."""
    return run.engine.kind == "verl" and run.cluster is not None and rehearses(run)


def plan_rehearsal(run: Run, names: tuple[str, str, str]) -> RehearsedAnswer:
    """``names``: the recipe, its profile and why it was taken."""
    count = 1 if run.cluster is None else run.cluster.gpus
    return RehearsedAnswer(
        recipe=names[0],
        profile=names[1],
        profile_reason=names[2],
        model=run.policy.own_model.path,
        processes=count,
        taken=count * MEASURED_BYTES,
        memory=machine_memory(),
    )
