"""Whether a plan fits the memory of its devices: with what margin, or what is the first that does not fit. Changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from agentgym_cli.capacity.architecture import ModelShape
from agentgym_cli.capacity.gpus import GIB, GpuKind
from agentgym_cli.capacity.layout import Layout
from agentgym_cli.capacity.sampling import SHARE, SamplingMemory, sampling_memory
from agentgym_cli.capacity.training import TrainingMemory, Workload, training_memory

MEMORY_ERROR = 0.2
"""How far measured peaks lay from predicted ones, as a share; docs/capacity.md has the points."""
_RESERVED = 3 * GIB // 2
"""Driver, kernels and buffers of collectives on a GPU, which no allocator counts."""
_RESERVED_LOCAL = GIB // 2
"""Python, torch and what a process has loaded before its first tensor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A model, what is done with it, and on what."""

    kind: GpuKind
    shape: ModelShape
    work: Workload | None
    """None where nothing is trained."""
    layout: Layout
    context: int
    """Limit of context of one episode, in tokens."""
    sequences: int
    """Episodes that should be in flight at once, on all devices together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a plan needs on its fullest device. Training memory and the cache of episodes are told apart, and never added up but in ``peak``."""

    training: TrainingMemory | None
    """None where nothing is trained."""
    sampling: SamplingMemory
    reserved: int
    peak: int
    """Bytes on the fullest device at its fullest moment."""
    where: str
    """``training`` or ``sampling``: when that is."""
    memory: int
    """Bytes that the device has."""
    lacking: str | None
    """The first budget that does not fit; None where all do."""
    sequences: int
    """Episodes at the limit of context whose cache fits at once, on all devices together; 0 where not one does."""

    @property
    def fits(self) -> bool:
        """Whether it fits, the estimate taken as it is."""
        return self.lacking is None

    @property
    def surely(self) -> bool:
        """Whether it fits with the estimate's error to spare."""
        return self.fits and self.peak * (1 + MEMORY_ERROR) <= self.memory

    @property
    def margin(self) -> float:
        """Share of the device's memory that is left; negative where it does not fit."""
        return 1 - self.peak / self.memory


def judge(plan: Plan) -> Verdict:
    """Weigh a plan. Raises RecipeError for an impossible layout (see ``check_layout``)."""
    layout = plan.layout
    training = None if plan.work is None else training_memory(plan.shape, plan.work, layout)
    merged = plan.work.merged if plan.work is not None and layout.local else 0
    sampling = sampling_memory(plan.shape, layout, context=plan.context, sequences=plan.sequences, merged=merged)
    reserved = _RESERVED_LOCAL if layout.local else _RESERVED
    moments = _moments(layout, training, sampling, reserved)
    where = max(moments, key=lambda name: moments[name])
    lacking = next((name for name, size in moments.items() if size > plan.kind.memory), None)
    return Verdict(
        training=training,
        sampling=sampling,
        reserved=reserved,
        peak=moments[where],
        where=where,
        memory=plan.kind.memory,
        lacking=None if lacking is None else _first(lacking, plan.kind.memory - reserved, layout, training, sampling),
        sequences=_sequences(plan, training, sampling, reserved),
    )


def _moments(layout: Layout, training: TrainingMemory | None, sampling: SamplingMemory, reserved: int) -> dict[str, int]:
    """Bytes on the fullest device while it trains and while it samples."""
    if layout.local:
        kept, most = (0, 0) if training is None else (training.resident, training.total)
        return ({} if training is None else {"training": reserved + most + sampling.least}) | {"sampling": reserved + kept + sampling.least}
    # The sampler itself may take a share of the card, whatever else lies there.
    whole = ceil(sampling.least / SHARE)
    if training is None:
        return {"sampling": max(reserved + sampling.least, whole)}
    beside = 0 if layout.placement == "separate" else training.resident
    return {"training": reserved + training.total, "sampling": max(reserved + beside + sampling.least, whole)}


def _first(moment: str, room: int, layout: Layout, training: TrainingMemory | None, sampling: SamplingMemory) -> str:
    """The part with which the room is used up, in the order in which memory is taken."""
    parts: dict[str, int] = {}
    if training is not None and (moment == "training" or layout.placement != "separate"):
        passing = ("gathered", "activations", "logits")
        parts |= {f"training {name}": size for name, size in training.parts().items() if moment == "training" or name not in passing}
    if moment == "sampling" or layout.local:
        cache = sampling.cache if sampling.fixed_cache else sampling.cache_per_sequence
        parts |= {"sampler weights": sampling.weights, "sampler working memory": sampling.working, "cache of episodes": cache}
    used = 0
    for name, size in parts.items():
        used += size
        if used > room:
            return name
    return "sampler's share of a card" if moment == "sampling" else "memory that the driver keeps"


def _sequences(plan: Plan, training: TrainingMemory | None, sampling: SamplingMemory, reserved: int) -> int:
    if sampling.fixed_cache:
        return plan.sequences
    beside = 0 if training is None or plan.layout.placement == "separate" else training.resident
    room = min(plan.kind.memory - reserved - beside, int(SHARE * plan.kind.memory))
    return plan.layout.replicas * sampling.sequences(room)
