"""``agentgym capacity``: how much memory a recipe's model needs on each device, before anything is paid for."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentgym_cli.capacity import memory
from agentgym_cli.capacity.memory import MemoryBudget, read_shape, sharded_memory_budget, shared_memory_budget
from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.data import try_find
from agentgym_cli.recipe.resolve import resolve
from agentgym_cli.recipe.schema.computing import ClusterSpec
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.verbs.prepare import Prepared
from agentgym_cli.verbs.progress import Progress

_SHIPPED_CONFIGS = Path(memory.__file__).parent / "models"
_GIB = 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityAnswer:
    """What a run needs on one device, and what there is."""

    recipe: str
    profile: str
    model: str
    device: str
    devices: int
    context: int
    budget: MemoryBudget
    available: int | None
    """Bytes on one device; None where it is not known."""

    @property
    def fits(self) -> bool | None:
        """Whether the peak fits; None where the device's memory is not known."""
        return None if self.available is None else self.budget.peak <= self.available


def estimate_capacity(recipe: str, overrides: Sequence[str]) -> CapacityAnswer:
    """Count memory for the chosen profile. Raises RecipeError for a model whose config.json is not at hand."""
    resolved = resolve(recipe, overrides)
    return _answer(resolved.run, str(resolved.recipe_path), resolved.folders)


def check_memory(prepared: Prepared, progress: Progress) -> None:
    """Refuse a run whose peak does not fit the device, before anything is loaded. Raises RecipeError."""
    answer = _answer(prepared.run, prepared.frozen.recipe, prepared.frozen.beside)
    progress.note("memory", f"{_mib(answer.budget.peak)} needed without activations, {_mib(answer.available or 0)} there")
    if answer.fits is False:
        raise RecipeError(
            f"memory: expected at most {_mib(answer.available or 0)} on {answer.device}, got a peak of {_mib(answer.budget.peak)}",
            "agentgym capacity RECIPE shows the parts; lower engine.slots or budgets.context_tokens",
        )


def _mib(size: int) -> str:
    return f"{size / 1024**2:,.0f} MiB"


def _answer(run: Run, recipe: str, folders: Sequence[Path]) -> CapacityAnswer:
    shape = read_shape(_config(run, folders))
    reference = run.train is not None and run.train.algorithm.kl_coefficient > 0
    context = run.budgets.context_tokens
    if run.engine.kind == "local":
        device, devices = "this machine's memory", 1
        budget = shared_memory_budget(shape, context=context, sequences=run.engine.slots, reference=reference)
        available: int | None = _physical_memory()
    else:
        cluster = run.cluster or ClusterSpec(gpus_per_node=1)
        device, devices = "GPU", cluster.gpus
        sequences = run.train.tasks_per_step * run.train.algorithm.group_size if run.train else run.engine.slots
        budget = sharded_memory_budget(shape, context=context, sequences=sequences, reference=reference, devices=devices)
        available = cluster.gpu_memory_gib * _GIB or None
    return CapacityAnswer(
        recipe=recipe,
        profile=run.profile,
        model=run.policy.own_model.path,
        device=device,
        devices=devices,
        context=context,
        budget=budget,
        available=available,
    )


def _config(run: Run, folders: Sequence[Path]) -> Path:
    name = run.policy.own_model.path
    folder = try_find(name, beside=folders)
    if folder is not None:
        return folder / "config.json"
    shipped = _SHIPPED_CONFIGS / f"{name.rsplit('/', 1)[-1]}.json"
    if not shipped.is_file():
        known = ", ".join(sorted(path.stem for path in _SHIPPED_CONFIGS.glob("*.json")))
        raise RecipeError(f"policy.model.path: expected a folder with config.json or one of {known}, got {name!r}", "name a local model folder")
    return shipped


def _physical_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
