"""A capacity answer as JSON has it: every number under a name that says its unit. Knows no screen."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentgym_cli.capacity.money import Stage
    from agentgym_cli.verbs.capacity import CapacityAnswer
    from agentgym_cli.verbs.estimate import Estimate

Values = dict[str, object]


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
        "per_success": [asdict(row) for row in answer.per_success] if answer.fits else [],
        "kinds": [{"kind": name, "fits": found.fits, "margin": found.margin, "lacking": found.lacking} for name, found in answer.kinds],
        "alternatives": [{"name": each.name, "fits": each.estimate.verdict.fits, **estimate_values(each.estimate)} for each in answer.alternatives],
        "notes": list(answer.notes),
        "measured_in": None if answer.measured is None else answer.measured.source,
        "simulated": [{"horizon": horizon, **asdict(found)} for horizon, found in answer.simulated],
        "evaluation": None if answer.evaluation is None else asdict(answer.evaluation),
    }


def estimate_values(found: Estimate) -> Values:
    """One estimate: devices, memory, time, money; times and money are null where it does not fit."""
    fits = found.verdict.fits
    return {
        "devices": _devices(found),
        "memory_bytes": _memory(found),
        "step_seconds": _step(found) if fits else None,
        "sizing": asdict(found.sizing) if fits else None,
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
        "training": None if training is None else {**training.parts(), "total": training.total, "host": training.host},
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
