"""Whether a plan fits the memory of its devices: with what margin, or what is the first that does not fit. Changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agentgym_cli.capacity.architecture import ModelShape
from agentgym_cli.capacity.gpus import GIB, GpuKind
from agentgym_cli.capacity.layout import Layout
from agentgym_cli.capacity.sampling import SamplingMemory, sampling_memory
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
    """Bytes on the fullest device at its fullest moment; on a GPU, all that the sampler takes for itself is counted."""
    where: str
    """``training`` or ``sampling``: when that is."""
    memory: int
    """Bytes that the device has."""
    lacking: str | None
    """The first budget that does not fit; None where all do."""
    sequences: int
    """Episodes at the limit of context whose cache fits at once, on all devices together; 0 where not one does."""
    surely: bool
    """Whether it fits with the estimate's error to spare. What the sampler takes in all is no estimate, what it needs of it is."""

    @property
    def fits(self) -> bool:
        """Whether it fits, the estimate taken as it is."""
        return self.lacking is None

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
    devices = _Device(memory=plan.kind.memory, layout=layout, training=training, sampling=sampling)
    moments = devices.moments()
    where = max(moments, key=lambda name: moments[name])
    return Verdict(
        training=training,
        sampling=sampling,
        reserved=devices.reserved,
        peak=moments[where],
        where=where,
        memory=plan.kind.memory,
        lacking=devices.lacking(),
        sequences=plan.sequences if sampling.fixed_cache else layout.replicas * sampling.sequences(devices.taken),
        surely=devices.lacking() is None and devices.lacking(1 + MEMORY_ERROR) is None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Device:
    """The fullest device of a plan."""

    memory: int
    layout: Layout
    training: TrainingMemory | None
    sampling: SamplingMemory

    @property
    def reserved(self) -> int:
        """What no allocator counts."""
        return _RESERVED_LOCAL if self.layout.local else _RESERVED

    @property
    def taken(self) -> int:
        """What the sampler takes: all that it needs in one process; of a GPU its share, whatever it needs."""
        return self.sampling.least if self.layout.local else int(self.layout.share * self.memory)

    @property
    def beside(self) -> int:
        """Training state that lies beside the sampler."""
        return self.training.resting if self.training is not None and self.layout.placement in ("one process", "colocated") else 0

    def moments(self, error: float = 1.0) -> dict[str, int]:
        """Bytes on it while it trains and while it samples, with what is estimated ``error`` times as large."""
        least = self.sampling.least if self.layout.local else 0
        sampled = int(error * (self.reserved + self.beside + least)) + (0 if self.layout.local else max(self.taken, self.sampling.least))
        if self.training is None:
            return {"sampling": sampled}
        return {"training": int(error * (self.reserved + self.training.total + least)), "sampling": sampled}

    def lacking(self, error: float = 1.0) -> str | None:
        """The first budget that does not fit, in the order in which memory is taken; None where all do."""
        room, training, sampling = self.memory / error - self.reserved, self.training, self.sampling
        moments = self.moments(error)
        cache = sampling.cache if sampling.fixed_cache else sampling.cache_per_sequence
        sampled = {"sampler weights": sampling.weights, "sampler working memory": sampling.working, "cache of episodes": cache}
        state = {} if training is None else {f"training {name}": size for name, size in training.parts().items()}
        if moments.get("training", 0) > self.memory:
            return _beyond(state | (sampled if self.layout.local else {}), room) or "memory that the driver keeps"
        if not self.layout.local and error * sampling.least > self.taken:
            return f"{_beyond(sampled, self.taken / error)} in {self.layout.share:.3g} of the device"
        if moments["sampling"] > self.memory:
            return (_beyond(sampled, room) if self.layout.local else None) or "the sampler's share beside training state"
        return None


def _beyond(parts: Mapping[str, int], room: float) -> str | None:
    """The part with which the room is used up; None where there is enough."""
    used = 0
    for name, size in parts.items():
        used += size
        if used > room:
            return name
    return None
