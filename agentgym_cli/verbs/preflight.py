"""Train's preflight: estimate a run before anything is loaded, refuse one that cannot fit, and keep the estimate beside what came of it."""

from __future__ import annotations

import resource
from collections.abc import Sequence

from agentgym_cli.capacity.gpus import gpu_of_memory
from agentgym_cli.capacity.money import Prices
from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.profiles import Survey
from agentgym_cli.recipe.resolve import visible_gpus
from agentgym_cli.verbs.advice import Way, fitting_ways
from agentgym_cli.verbs.devices import devices_of, layout_of, shape_of
from agentgym_cli.verbs.estimate import Estimate, estimate
from agentgym_cli.verbs.prepare import Prepared
from agentgym_cli.verbs.progress import Progress
from agentgym_cli.verbs.recorder import Recorder
from agentgym_cli.verbs.workload import plan_of

PHASE = "estimate"
"""Under which the estimate stands in table ``metrics``, at step 0; its names begin with ``time/``, so that no digest depends on it."""


def preflight(prepared: Prepared, progress: Progress, survey: Survey = visible_gpus) -> Estimate | None:
    """Estimate a run and refuse one whose memory cannot be enough, before anything is loaded. None where the device is not known.

    Args:
        survey: gives the GPUs of this machine, of which one process takes the first.

    Raises:
        RecipeError: the peak does not fit, and ``engine.memory_check`` does not leave it at a warning.
    """
    run, folders = prepared.run, prepared.frozen.beside
    if run.cluster is not None and run.cluster.gpus_per_node == 0:
        progress.note("memory", "not estimated: a rehearsal has a tiny model in place of the real one")
        return None
    shape, _ = shape_of(run, folders)
    if run.engine.kind == "local" and run.engine.device == "cuda":
        found = survey()
        if not found.memory_mib:
            progress.note("memory", f"not estimated: which GPU this is, is not known ({found.why_none})")
            return None
        kind, layout = gpu_of_memory(found.memory_mib[0] * 1024**2), layout_of(run)
    else:
        kind, layout = devices_of(run)
    evaluated = {name: len(tasks) for name, tasks in prepared.evaluation_tasks.items()}
    estimated = estimate(run, plan_of(run, shape, kind, layout), measured=None, evaluated=evaluated, prices=Prices())
    verdict, step = estimated.verdict, estimated.step.total
    progress.note("memory", f"{_mib(verdict.peak)} needed at the most, {_mib(verdict.memory)} there; a step {step:.1f} s by assumptions")
    if not verdict.fits:
        refusal = misfit(estimated, fitting_ways(run, estimated.plan))
        if run.engine.memory_check == "error":
            raise refusal
        progress.warn(f"{refusal.message}; engine.memory_check is warn")
    return estimated


def misfit(found: Estimate, ways: Sequence[Way]) -> RecipeError:
    """What is said of a run that does not fit, by ``train`` and by ``capacity``."""
    verdict, plan = found.verdict, found.plan
    hint = f"{ways[0].says}; " if ways else ""
    return RecipeError(
        f"memory: expected at most {_mib(verdict.memory)} on {plan.kind.name}, got a peak of {_mib(verdict.peak)}: {verdict.lacking} does not fit",
        f"{hint}engine.memory_check=warn goes on all the same (docs/capacity.md)",
    )


def keep_estimate(recorder: Recorder, found: Estimate | None) -> None:
    """Record what was estimated, for the report to set beside what was measured."""
    if found is None:
        return
    mean = found.mean
    values = {
        "step_seconds": mean.seconds,
        "play_seconds": mean.play,
        # As it is measured: everything of a step that is not play.
        "update_seconds": mean.seconds - mean.play,
        "run_seconds": found.total.seconds,
        "turns_mean": mean.turns,
        "tokens_sampled": found.total.tokens_sampled,
        "peak_bytes": float(found.verdict.peak),
        "memory_bytes": float(found.verdict.memory),
    }
    recorder.metrics(PHASE, 0, {f"time/{name}": value for name, value in values.items()})


def keep_peak(recorder: Recorder, size: float | None = None) -> None:
    """Record the most memory that was taken, in bytes; None is what this process has had."""
    found = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0 if size is None else float(size)
    recorder.metrics(PHASE, 0, {"time/measured_peak_bytes": found})


def _mib(size: int) -> str:
    return f"{size / 1024**2:,.0f} MiB"
