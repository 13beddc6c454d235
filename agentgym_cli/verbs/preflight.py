"""Train's preflight: estimate a run before anything is loaded, refuse one that cannot fit, and keep the estimate beside what came of it."""

from __future__ import annotations

import resource

from agentgym_cli.capacity.money import Prices
from agentgym_cli.errors import RecipeError
from agentgym_cli.verbs.advice import fitting_ways
from agentgym_cli.verbs.devices import devices_of, shape_of
from agentgym_cli.verbs.estimate import Estimate, estimate
from agentgym_cli.verbs.prepare import Prepared
from agentgym_cli.verbs.progress import Progress
from agentgym_cli.verbs.recorder import Recorder
from agentgym_cli.verbs.workload import plan_of

PHASE = "estimate"
"""Under which the estimate stands in table ``metrics``, at step 0; its names begin with ``time/``, so that no digest depends on it."""


def preflight(prepared: Prepared, progress: Progress) -> Estimate | None:
    """Estimate a run and refuse one whose memory cannot be enough, before anything is loaded. None where the device is not known.

    Raises:
        RecipeError: the peak does not fit.
    """
    run, folders = prepared.run, prepared.frozen.beside
    if run.engine.kind == "local" and run.engine.device == "cuda":
        progress.note("memory", "not estimated: which GPU this is, is not known; agentgym capacity RECIPE --gpu KIND does it")
        return None
    shape, _ = shape_of(run, folders)
    kind, layout = devices_of(run)
    evaluated = {name: len(tasks) for name, tasks in prepared.evaluation_tasks.items()}
    found = estimate(run, plan_of(run, shape, kind, layout), measured=None, evaluated=evaluated, prices=Prices())
    verdict = found.verdict
    progress.note("memory", f"{_mib(verdict.peak)} needed at the most, {_mib(verdict.memory)} there; a step {found.step.total:.1f} s by assumptions")
    if not verdict.fits:
        ways = fitting_ways(run, found.plan)
        raise RecipeError(
            f"memory: expected at most {_mib(verdict.memory)} on {kind.name}, got a peak of {_mib(verdict.peak)}: {verdict.lacking} does not fit",
            ways[0].says if ways else "agentgym capacity RECIPE shows every part",
        )
    return found


def keep_estimate(recorder: Recorder, found: Estimate | None) -> None:
    """Record what was estimated, for the report to set beside what was measured."""
    if found is None:
        return
    step = found.step
    values = {
        "step_seconds": step.total,
        "play_seconds": step.play,
        "update_seconds": step.update,
        "run_seconds": found.total.seconds,
        "turns_mean": found.load.mean_turns,
        "tokens_sampled": found.total.tokens_sampled,
        "peak_bytes": float(found.verdict.peak),
    }
    recorder.metrics(PHASE, 0, {f"time/{name}": value for name, value in values.items()})


def keep_peak(recorder: Recorder) -> None:
    """Record the most memory that this process has had."""
    recorder.metrics(PHASE, 0, {"time/measured_peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0})


def _mib(size: int) -> str:
    return f"{size / 1024**2:,.0f} MiB"
