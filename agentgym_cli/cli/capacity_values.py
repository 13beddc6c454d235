"""A capacity answer as JSON has it, with the unit of every number. Knows no screen."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from agentgym_cli.capacity.service import TIME_ERROR
from agentgym_cli.capacity.verdict import MEMORY_ERROR

if TYPE_CHECKING:
    from agentgym_cli.capacity.money import Stage
    from agentgym_cli.verbs.capacity import CapacityAnswer
    from agentgym_cli.verbs.estimate import Estimate

Values = dict[str, object]
UNITS: dict[str, str] = {
    "parameters": "numbers",
    "parameters_published": "numbers",
    "memory_share": "share, up or down",
    "time_factor": "factor, up or down",
    "count": "GPUs",
    "trainers": "GPUs",
    "samplers": "GPUs",
    "tensor_parallel": "GPUs",
    "per_machine": "GPUs",
    "batched_tokens": "tokens",
    "memory_bytes": "bytes",
    "host_bytes": "bytes",
    "margin": "share of the device's memory, negative where it does not fit",
    "episodes_wanted": "episodes",
    "episodes_at_once": "episodes",
    "step_seconds": "seconds",
    "policy_utilisation": "share of all places, while episodes are played",
    "env_utilisation": "share of all places, while episodes are played",
    "episodes_decoding": "episodes, mean",
    "sizing": "replicas",
    "concurrency": "episodes",
    "doublings_save_seconds": "seconds of a step",
    "episodes": "episodes",
    "in_flight": "episodes",
    "horizon": "turns",
    "mean_turns": "turns of an episode",
    "prompt_tokens": "tokens of the first context",
    "observation_tokens": "tokens of a turn",
    "response_tokens": "tokens of a turn",
    "failures": "share of attempts",
    "most_attempts": "attempts at an episode",
    "checkpoint_every": "steps",
    "first_step": "step",
    "last_step": "step",
    "seconds": "seconds",
    "gpu_hours": "GPU-hours",
    "tokens_read": "tokens",
    "tokens_sampled": "tokens",
    "cost": "the currency of the price",
    "rate": "share of episodes that succeed",
    "steps": "steps",
    "seconds_p50": "seconds of a step",
    "seconds_p95": "seconds of a step",
    "play_mean": "seconds",
    "lock_step_p50": "seconds of a step",
    "policy_idle": "share of play",
    "env_idle": "share of play",
    "policy_used": "share of places and play",
    "env_used": "share of places and play",
    "straggler_share": "share of play",
    "group_wait": "share of play",
    "width": "share",
    "share": "share of a GPU",
    "gap": "share",
    "samples": "episodes of a task",
    "tasks": "tasks",
}
"""Of every number, by the name of its key; of what stands in a section without a unit of its own, the section's."""


def answer_values(answer: CapacityAnswer) -> Values:
    """The whole answer."""
    return {
        "recipe": answer.recipe,
        "profile": answer.profile,
        "profile_reason": answer.profile_reason,
        "model": answer.model,
        "parameters": answer.parameters,
        "parameters_published": answer.published,
        "fits": answer.fits,
        "changes": [asdict(way) for way in answer.changes],
        **estimate_values(answer.main),
        "twice_gpus": asdict(answer.twice_gpus) if answer.twice_gpus is not None and answer.fits else None,
        "no_cost": answer.no_cost,
        "per_success": [asdict(row) for row in answer.per_success] if answer.fits else [],
        "kinds": [{"kind": name, "fits": found.fits, "margin": found.margin, "lacking": found.lacking} for name, found in answer.kinds],
        "alternatives": [{"name": each.name, "fits": each.estimate.verdict.fits, **estimate_values(each.estimate)} for each in answer.alternatives],
        "notes": list(answer.notes),
        "measured_in": _measured(answer),
        "simulated": [{"horizon": horizon, **asdict(found)} for horizon, found in answer.simulated],
        "evaluation": None if answer.evaluation is None else asdict(answer.evaluation),
        "errors": {"memory_share": MEMORY_ERROR, "time_factor": TIME_ERROR},
        "units": UNITS,
    }


def _measured(answer: CapacityAnswer) -> Values | None:
    """The run of ``--from``, and what became of each kind of its measurements."""
    found = answer.measured
    return None if found is None else {"source": found.source, "episodes": found.episodes, "use": [asdict(line) for line in found.use.lines]}


def estimate_values(found: Estimate) -> Values:
    """One estimate: devices, memory, time, money; times and money are null where it does not fit."""
    fits = found.verdict.fits
    return {
        "devices": _devices(found),
        "memory_bytes": _memory(found),
        "step_seconds": _step(found) if fits else None,
        "sizing": {**asdict(found.sizing), "why_no_policy_replicas": found.sizing.why_no_policy_replicas} if fits else None,
        "doublings_save_seconds": dict(found.doublings) if fits else None,
        "load": asdict(found.load),
        "sources": dict(found.services.sources),
        "stages": [_stage(stage, fits) for stage in found.stages],
        "total": _stage(found.total, fits),
    }


def _devices(found: Estimate) -> Values:
    layout = found.plan.layout
    return {"kind": found.plan.kind.name, "count": layout.devices, **{k: v for k, v in asdict(layout).items() if k != "devices"}}


def _memory(found: Estimate) -> Values:
    verdict, training = found.verdict, found.verdict.training
    return {
        "available": verdict.memory,
        "peak": verdict.peak,
        "peak_while": verdict.where,
        "margin": verdict.margin,
        "lacking": verdict.lacking,
        "reserved": verdict.reserved,
        "training": None if training is None else {**training.parts(), "total": training.total, "resting": training.resting, "host": training.host},
        "policy": {"weights": verdict.sampling.weights, "working": verdict.sampling.working},
        "cache": {
            "per_token": verdict.sampling.cache_per_token,
            "per_episode": verdict.sampling.cache_per_sequence,
            "wanted": verdict.sampling.cache,
            "episodes_wanted": found.plan.sequences,
            "episodes_at_once": verdict.sequences,
        },
    }


def _step(found: Estimate) -> Values:
    step = found.step
    return {
        "total": step.total,
        "play": step.play,
        "update": step.update,
        "weight_sync": step.weight_sync,
        "checkpoint": step.checkpoint,
        "busy": dict(step.busy),
        "bottleneck": step.slowest,
        "policy_utilisation": step.policy_utilisation,
        "env_utilisation": step.env_utilisation,
        "turn": step.turn_seconds,
        "episodes_decoding": step.decoding,
    }


def _stage(stage: Stage, fits: bool) -> Values:
    values: Values = asdict(stage)
    return values if fits else {**values, "seconds": None, "gpu_hours": None, "cost": None}
