"""``agentgym capacity``: what a run needs, what will be slow and what it costs, before anything is paid for; and the same as train's preflight."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentgym_cli.capacity.advice import fitting_changes
from agentgym_cli.capacity.architecture import ModelShape, find_known, known_models, read_shape
from agentgym_cli.capacity.gpus import GpuKind, find_gpu, gpu_kinds, smallest_gpu, this_machine
from agentgym_cli.capacity.layout import Layout, colocated, one_process, separate
from agentgym_cli.capacity.measured import Measured
from agentgym_cli.capacity.money import PerSuccess, Prices, per_success
from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.data import find_data, try_find
from agentgym_cli.recipe.layers import read_chain
from agentgym_cli.recipe.resolve import resolve
from agentgym_cli.recipe.schema.computing import ClusterSpec
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.recipe.tasks import MissingLists, select_tasks
from agentgym_cli.recipe.wording import listed, shown
from agentgym_cli.verbs.estimate import Estimate, estimate, plan_of
from agentgym_cli.verbs.prepare import Prepared
from agentgym_cli.verbs.progress import Progress
from agentgym_cli.verbs.schedules import chosen_tasks, tasks_of
from agentgym_cli.verbs.spoken import spoken_dialect

_GPU = "gpu"
_DEFAULT_KIND = "a100-80g"
_BESIDE = ("rtx4090-24g", "l40s-48g", "a100-80g", "h100-80g", "h200-141g")
"""Kinds that alternatives show beside the one that is asked for."""
RATES = (0.1, 0.3, 0.5, 0.8)
"""Rates of success at which a success is priced where no run says one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a person asks."""

    recipe: str
    overrides: Sequence[str] = ()
    gpu: str | None = None
    """Kind of GPU; None takes the one that the profile asks for."""
    gpus: int | None = None
    """How many; None takes the profile's."""
    run: str | None = None
    """Run whose measurements are used; None assumes."""
    database: Path = Path("results.duckdb")
    gpu_price: float | None = None
    """Of a GPU-hour; None where nobody said."""
    width: float | None = None
    """Wanted width of an evaluation's interval."""
    gap: float | None = None
    """Difference that an evaluation should detect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """The same run on other devices."""

    name: str
    estimate: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityAnswer:
    """What a run needs on its devices, and how it would be on others."""

    recipe: str
    profile: str
    profile_reason: str
    model: str
    parameters: int
    published: int | None
    """Parameters as the shipped table has them from the model's publisher; None for a model that is not in it."""
    main: Estimate
    changes: tuple[str, ...]
    """Ways to make it fit, cheapest first; empty where it fits."""
    alternatives: tuple[Alternative, ...]
    per_success: tuple[PerSuccess, ...]
    notes: tuple[str, ...]
    """What was not counted, and why."""
    measured: Measured | None

    @property
    def fits(self) -> bool:
        """Whether the memory is enough."""
        return self.main.verdict.fits


def estimate_capacity(question: Question) -> CapacityAnswer:
    """Answer for the profile that is named; with ``--gpu`` or ``--gpus`` profile ``gpu`` where the recipe has it.

    Raises:
        RecipeError: a recipe, a model, a layout or a number that cannot be meant.
        StoreError: there is no such run.
    """
    resolved = resolve(question.recipe, _overrides(question), only_shown=True)
    run, folders = resolved.run, resolved.folders
    if question.gpus is not None and question.gpus < 1:
        raise RecipeError(f"--gpus: expected 1 or more, got {question.gpus}")
    shape, published = shape_of(run, folders)
    kind, layout = _devices(run, question)
    evaluated, notes = _evaluated(run, folders)
    prices = _prices(run, question)
    main = estimate(run, plan_of(run, shape, kind, layout), measured=None, evaluated=evaluated, prices=prices)
    others = _alternatives(run, shape, main, evaluated, prices)
    return CapacityAnswer(
        recipe=str(resolved.recipe_path),
        profile=run.profile,
        profile_reason=run.profile_reason,
        model=run.policy.own_model.path,
        parameters=shape.parameters,
        published=published,
        main=main,
        changes=fitting_changes(main.plan),
        alternatives=others,
        per_success=per_success(main.total, RATES),
        notes=notes,
        measured=None,
    )


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
    kind, layout = _devices(run, Question(recipe=prepared.frozen.recipe))
    evaluated = {name: len(tasks) for name, tasks in prepared.evaluation_tasks.items()}
    found = estimate(run, plan_of(run, shape, kind, layout), measured=None, evaluated=evaluated, prices=Prices())
    verdict = found.verdict
    progress.note("memory", f"{_mib(verdict.peak)} needed at the most, {_mib(verdict.memory)} there; a step {found.step.total:.1f} s by assumptions")
    if not verdict.fits:
        ways = fitting_changes(found.plan)
        raise RecipeError(
            f"memory: expected at most {_mib(verdict.memory)} on {kind.name}, got a peak of {_mib(verdict.peak)}: {verdict.lacking} does not fit",
            ways[0] if ways else "agentgym capacity RECIPE shows every part",
        )
    return found


def shape_of(run: Run, folders: Sequence[Path]) -> tuple[ModelShape, int | None]:
    """The network of a run's model, from its folder or the shipped table, and its published count. Raises RecipeError."""
    name = run.policy.own_model.path
    folder, known = try_find(name, beside=folders), find_known(name)
    if folder is not None:
        return read_shape(folder / "config.json"), None
    if known is None:
        names = listed(model.name for model in known_models().values())
        raise RecipeError(f"policy.model.path: expected a folder with config.json or one of {names}, got {shown(name)}", "name a local model folder")
    return known.shape, known.published


def _overrides(question: Question) -> list[str]:
    """With GPUs asked for, profile ``gpu`` where the recipe has it and no other is named."""
    said = list(question.overrides)
    asked = question.gpu is not None or question.gpus is not None
    if not asked or any(text.partition("=")[0] == "profile" for text in said):
        return said
    sections = [file.data.get("profiles") for file in read_chain(find_data(question.recipe, where="recipe"))]
    return [*said, f"profile={_GPU}"] if any(isinstance(section, dict) and _GPU in section for section in sections) else said


def _prices(run: Run, question: Question) -> Prices:
    """Of a GPU-hour as it was said, of tokens as the recipe's endpoint has them where no GPU is paid for."""
    if question.gpu_price is not None:
        _positive("--gpu-price", question.gpu_price)
        return Prices(gpu_hour=question.gpu_price)
    return Prices()


def _positive(name: str, value: float) -> None:
    if not 0 < value < float("inf"):
        raise RecipeError(f"{name}: expected a number above 0, got {value}")


def _devices(run: Run, question: Question) -> tuple[GpuKind, Layout]:
    """What the run computes on, and how it is spread over it."""
    engine = run.engine
    if engine.kind == "local":
        layout = one_process(checkpointing=engine.activation_checkpointing)
        if question.gpu is not None:
            return find_gpu(question.gpu), layout
        if engine.device == "cuda":
            raise RecipeError("--gpu: expected a kind of GPU, since engine.device is cuda, got none", f"--gpu {_DEFAULT_KIND}")
        return this_machine(memory=_physical_memory(), threads=engine.threads), layout
    cluster = run.cluster or ClusterSpec(gpus_per_node=1)
    devices = cluster.gpus if question.gpus is None else question.gpus
    layout = colocated(devices, tensor_parallel=cluster.tensor_parallel)
    return (_asked_for(cluster) if question.gpu is None else find_gpu(question.gpu)), layout


def _asked_for(cluster: ClusterSpec) -> GpuKind:
    """The slowest kind of the memory that a cluster names."""
    if cluster.gpus_per_node == 0:
        return this_machine(memory=_physical_memory(), threads=1)
    found = smallest_gpu(cluster.gpu_memory_gib) if cluster.gpu_memory_gib else gpu_kinds()[_DEFAULT_KIND]
    if found is None:
        raise RecipeError(f"cluster.gpu_memory_gib: expected the memory of a known GPU, got {cluster.gpu_memory_gib}", "name the kind with --gpu")
    return found


def _evaluated(run: Run, folders: Sequence[Path]) -> tuple[Mapping[str, int], tuple[str, ...]]:
    """Tasks of each evaluation split; none, and why, where a person has to supply the lists."""
    env = spoken_dialect(run, beside=folders).name
    try:
        lists = select_tasks(run.tasks, env=env, beside=folders)
    except MissingLists as err:
        return {}, (f"evaluations are not counted: {err.message}",)
    splits = {name: tasks_of(rows, env=env, split=name) for name, rows in lists.evaluation.items()}
    return {name: len(tasks) for name, tasks in chosen_tasks(splits, run.evaluation.only, env=env).items()}, ()


def _alternatives(run: Run, shape: ModelShape, main: Estimate, evaluated: Mapping[str, int], prices: Prices) -> tuple[Alternative, ...]:
    """Half and twice the devices, trainer and sampler apart, and other kinds of GPU; none for one process."""
    plan = main.plan
    if plan.layout.local:
        return ()
    count, parallel, kind = plan.layout.devices, plan.layout.tensor_parallel, plan.kind
    found: list[tuple[str, GpuKind, Layout]] = []
    for other in (count // 2, count * 2):
        if other >= parallel and not other % parallel:
            found.append((f"{other} x {kind.name}", kind, colocated(other, tensor_parallel=parallel)))
    half = count // 2
    if half >= parallel and not (count - half) % parallel:
        layout = separate(count, trainers=half, tensor_parallel=parallel)
        found.append((f"{half} train, {count - half} sample", kind, layout))
    names = [name for name in _BESIDE if name != kind.name] if kind.name in gpu_kinds() else []
    found += [(f"{count} x {name}", gpu_kinds()[name], plan.layout) for name in names]
    return tuple(
        Alternative(name=name, estimate=estimate(run, plan_of(run, shape, other, layout), measured=None, evaluated=evaluated, prices=prices))
        for name, other, layout in found
    )


def _mib(size: int) -> str:
    return f"{size / 1024**2:,.0f} MiB"


def _physical_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
