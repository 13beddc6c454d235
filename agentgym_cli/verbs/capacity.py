"""``agentgym capacity``: what a run needs, what will be slow and what it costs, before anything is paid for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from agentgym_cli.capacity.gpus import gpu_kinds
from agentgym_cli.capacity.measured import Evidence, Measured, Probed
from agentgym_cli.capacity.money import PerSuccess, Prices, per_success
from agentgym_cli.capacity.service import env_step_seconds, is_measured
from agentgym_cli.capacity.simulate import SimulatedSteps
from agentgym_cli.capacity.verdict import Verdict, judge
from agentgym_cli.errors import RecipeError
from agentgym_cli.learn.schedules import spans
from agentgym_cli.learn.verl.memory import memory_keys
from agentgym_cli.recipe.data import find_data
from agentgym_cli.recipe.layers import read_chain
from agentgym_cli.recipe.resolve import Resolved, resolve
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.recipe.tasks import MissingLists, select_tasks
from agentgym_cli.verbs.advice import Way, fitting_ways
from agentgym_cli.verbs.alternatives import Alternative, TwiceGpus, alternatives_of, twice_the_gpus
from agentgym_cli.verbs.deviceless import ServedAnswer, is_served, plan_served
from agentgym_cli.verbs.devices import devices_of, gpus_wanted, keys_of, shape_of
from agentgym_cli.verbs.estimate import Estimate, estimate, evaluation_stage
from agentgym_cli.verbs.evaluation_size import EvaluationPlan, plan_evaluation
from agentgym_cli.verbs.likeness import on_gpus, said_of
from agentgym_cli.verbs.measurements import measurements_of
from agentgym_cli.verbs.preflight import misfit
from agentgym_cli.verbs.probed import read_probe
from agentgym_cli.verbs.rehearsed import RehearsedAnswer, is_rehearsed, plan_rehearsal
from agentgym_cli.verbs.schedules import chosen_tasks, tasks_of
from agentgym_cli.verbs.simulation import simulated
from agentgym_cli.verbs.spoken import spoken_dialect
from agentgym_cli.verbs.target import require_recipe
from agentgym_cli.verbs.workload import plan_of

_GPU = "gpu"
_HIGHEST = 1e9
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
    probe: Path | None = None
    """Result of a probe whose times of the worlds are used; None assumes."""
    gpu_price: float | None = None
    """Of a GPU-hour; None where nobody said."""
    width: float | None = None
    """Wanted width of an evaluation's interval."""
    gap: float | None = None
    """Difference that an evaluation should detect."""


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
    changes: tuple[Way, ...]
    """Ways to make it fit, cheapest first; empty where it fits."""
    kinds: tuple[tuple[str, Verdict], ...]
    """The same number of every kind of GPU that is known; empty for one process."""
    alternatives: tuple[Alternative, ...]
    twice_gpus: TwiceGpus | None
    """None where twice as many are not possible."""
    per_success: tuple[PerSuccess, ...]
    notes: tuple[str, ...]
    """What was not counted, and why."""
    measured: Measured | None
    simulated: tuple[tuple[int, SimulatedSteps], ...]
    """Steps of each horizon, played event by event with a run's distributions; empty without ``--from``."""
    evaluation: EvaluationPlan | None
    """None where no width and no difference were asked for."""

    may_try: bool
    """Whether the recipe lets a run start that does not fit."""
    no_cost: str | None
    """Why there is no cost; None where there is one."""

    @property
    def fits(self) -> bool:
        """Whether the memory is enough."""
        return self.main.verdict.fits


Answer: TypeAlias = CapacityAnswer | ServedAnswer | RehearsedAnswer


def estimate_capacity(question: Question) -> CapacityAnswer:
    """Answer for the profile that is named; with ``--gpu`` or ``--gpus`` profile ``gpu`` where the recipe has it.

    Raises:
        RecipeError: a recipe, a model, a layout or a number that cannot be meant.
        StoreError: there is no such run.
    """
    return _estimated(question, _resolved(question))


def answer(question: Question) -> Answer:
    """``estimate_capacity``, or what there is to say of a run that needs no device here, and of a rehearsal. Raises as it does."""
    resolved = _resolved(question)
    run = resolved.run
    names = (str(resolved.recipe_path), run.profile, run.profile_reason)
    if is_rehearsed(run):
        return plan_rehearsal(run, names)
    if not is_served(run):
        return _estimated(question, resolved)
    measured = _measured(run, resolved.folders, question)
    return plan_served(
        run,
        names,
        _tasks(run, resolved.folders),
        measured=read_probe(question.probe) if question.probe is not None else measured,
        rates=_rates(measured),
        wanted=(question.width, question.gap),
        notes=(*_compared(measured), *_cut_short(run, measured)),
    )


def _no_devices(question: Question) -> None:
    """Nothing is asked of devices that a run does not have."""
    for name, value in (("--gpu", question.gpu), ("--gpus", question.gpus), ("--gpu-price", question.gpu_price)):
        if value is not None:
            raise RecipeError(f"{name}: expected none where no GPU is used, got {value}", "profile=gpu where the recipe has it")


def _estimated(question: Question, resolved: Resolved) -> CapacityAnswer:
    run, folders = resolved.run, resolved.folders
    shape, published = shape_of(run, folders)
    measured = _measured(run, folders, question)
    # A run is planned on what it was measured on, unless another kind is asked for.
    known = measured.gpu if measured is not None and on_gpus(run) else None
    kind, layout = devices_of(run, gpu=question.gpu or known)
    evaluated, notes = _evaluated(run, folders)
    prices, plan = _prices(question), plan_of(run, shape, kind, layout)
    evidence = read_probe(question.probe) if question.probe is not None else measured
    main = estimate(run, plan, measured=evidence, evaluated=evaluated, prices=prices)
    others = alternatives_of(run, main, evaluated, prices, evidence)
    rates = _rates(measured)
    return CapacityAnswer(
        recipe=str(resolved.recipe_path),
        profile=run.profile,
        profile_reason=run.profile_reason,
        model=run.policy.own_model.path,
        parameters=shape.parameters,
        published=published,
        main=main,
        changes=fitting_ways(run, plan),
        kinds=() if layout.local else tuple((name, judge(replace(plan, kind=other))) for name, other in gpu_kinds().items()),
        alternatives=others,
        twice_gpus=twice_the_gpus(run, main, evidence),
        per_success=per_success(main.total, rates) if main.load.played else (),
        notes=(
            *notes,
            *_verls_keys(run),
            *_no_settings(run, others),
            *_played_ahead(run),
            *_on_a_gpu(run, question),
            *_compared(measured),
            *_cut_short(run, measured),
            *_never_measured(run, evidence),
        ),
        measured=measured,
        may_try=run.engine.memory_check == "warn",
        no_cost=_no_cost(main, question),
        simulated=() if measured is None or not (main.load.played and measured.use.play) else simulated(run, main, measured),
        evaluation=plan_evaluation(
            lambda episodes: evaluation_stage(run, plan, episodes, prices, measured),
            evaluated,
            width=question.width,
            gap=question.gap,
            measured=measured,
        ),
    )


def _rates(measured: Measured | None) -> tuple[float, ...]:
    return RATES if measured is None or not measured.use.play or not measured.success else (measured.success,)


def _measured(run: Run, folders: Sequence[Path], question: Question) -> Measured | None:
    if question.run is None:
        return None
    if question.probe is not None:
        raise RecipeError("--probe: expected no --from with it, since both say how long the worlds take", "leave one of them out")
    same = question.gpu is None and question.gpus is None
    return measurements_of(question.run, question.database, planned=run, folders=folders, same_devices=same, gpu=question.gpu)


def _compared(measured: Measured | None) -> tuple[str, ...]:
    """What of a run's measurements was not of what is planned."""
    if measured is None:
        return ()
    never = measured.use.play and measured.success == 0
    return (*said_of(measured.use), *((f"no episode of {measured.source} succeeded: a success is priced at assumed rates",) if never else ()))


def _no_settings(run: Run, others: Sequence[Alternative]) -> tuple[str, ...]:
    """Alternatives that no key of the run's engine sets."""
    return tuple(f"{each.name}: not a setting of engine {run.engine.kind}" for each in others if not each.setting)


def _verls_keys(run: Run) -> tuple[str, ...]:
    """What is taken of a recipe's keys in verl's own words, what is not, and that a pass shorter than a context is none."""
    if run.engine.kind != "verl" or run.cluster is None:
        return ()
    said, context = memory_keys(run.cluster, keys_of(run)), run.budgets.context_tokens
    notes = [f"of verl's keys, read: {', '.join(said.read)}"] if said.read else []
    notes += [f"of verl's keys, not read, whatever memory they take or save: {', '.join(said.unread)}"] if said.unread else []
    if said.pass_tokens is not None and said.pass_tokens < context:
        notes.append(f"verl ends a run at its first trajectory of more than the {said.pass_tokens:,} tokens of a pass; a context has {context:,}")
    return tuple(notes)


def _played_ahead(run: Run) -> tuple[str, ...]:
    """That steps which play beside updates are counted as if they did not."""
    if run.cluster is None or not run.cluster.max_staleness:
        return ()
    return ("cluster.max_staleness: each step's episodes are counted before its update; played ahead, a step may take less",)


def _cut_short(run: Run, measured: Measured | None) -> tuple[str, ...]:
    """That a run with shorter horizons cannot say how long episodes become."""
    longest = run.evaluation.horizon if run.train is None else max(turns for *_, turns in spans(run.horizon, after=0, steps=run.train.steps))
    if measured is None or not measured.use.play or measured.horizon >= longest:
        return ()
    return (f"{measured.source} had horizons of at most {measured.horizon} turns, this one has {longest}: its episodes may take more turns",)


def _never_measured(run: Run, evidence: Evidence | None) -> tuple[str, ...]:
    """That the time of the worlds is a guess, for a family of servers that nobody measured."""
    known = isinstance(evidence, Probed) or (evidence is not None and evidence.use.worlds)
    if known or is_measured(run.env.dialect):
        return ()
    taken = env_step_seconds(run.env.dialect)
    return (f"servers of {run.env.dialect} were never measured: {taken:.2f} s a call is a guess; --probe or --from puts a measurement in its place",)


def require_fit(found: Answer) -> None:
    """Raises RecipeError where a run that was judged does not fit and its recipe does not leave that at a warning, as ``train`` does."""
    if isinstance(found, CapacityAnswer) and not (found.fits or found.may_try):
        raise misfit(found.main, found.changes)


def _resolved(question: Question) -> Resolved:
    """The recipe with as many GPUs as are asked for, so that all its rules hold for them."""
    require_recipe(question.recipe, "capacity")
    said = _overrides(question)
    resolved = resolve(question.recipe, said, only_shown=True)
    if is_served(resolved.run) or is_rehearsed(resolved.run):
        _no_devices(question)
    more = () if question.gpus is None else gpus_wanted(resolved.run, question.gpus)
    return resolve(question.recipe, [*said, *more], only_shown=True) if more else resolved


def _on_a_gpu(run: Run, question: Question) -> tuple[str, ...]:
    """That one process has to be told to use a GPU."""
    if question.gpu is None or run.engine.kind != "local" or run.engine.device == "cuda":
        return ()
    return ("one process takes a GPU only with engine.device=cuda; this is the estimate with it",)


def _overrides(question: Question) -> list[str]:
    """With GPUs asked for, profile ``gpu`` where the recipe has it and no other is named."""
    said = list(question.overrides)
    asked = question.gpu is not None or question.gpus is not None
    if not asked or any(text.partition("=")[0] == "profile" for text in said):
        return said
    sections = [file.data.get("profiles") for file in read_chain(find_data(question.recipe, where="recipe"))]
    return [*said, f"profile={_GPU}"] if any(isinstance(section, dict) and _GPU in section for section in sections) else said


def _prices(question: Question) -> Prices:
    """Of a GPU-hour, as it was said."""
    if question.gpu_price is not None:
        _positive("--gpu-price", question.gpu_price)
    return Prices(gpu_hour=question.gpu_price)


def _no_cost(main: Estimate, question: Question) -> str | None:
    if main.total.cost is not None:
        return None
    if main.plan.kind.name == "cpu":
        return f"no {'price was given, and no GPU is used' if question.gpu_price is None else 'GPU is used, and --gpu-price is of a GPU-hour'}"
    return "no price was given (--gpu-price)"


def _positive(name: str, value: float) -> None:
    if not 0 < value < _HIGHEST:
        raise RecipeError(f"{name}: expected a number above 0 and below {_HIGHEST:,.0f}, got {value}", "docs/capacity.md says what is counted")


def _evaluated(run: Run, folders: Sequence[Path]) -> tuple[Mapping[str, int], tuple[str, ...]]:
    """Tasks of each evaluation split; none, and why, where a person has to supply the lists."""
    try:
        return _tasks(run, folders), ()
    except MissingLists as err:
        return {}, (f"evaluations are not counted: {err.message}",)


def _tasks(run: Run, folders: Sequence[Path]) -> Mapping[str, int]:
    env = spoken_dialect(run, beside=folders).name
    lists = select_tasks(run.tasks, env=env, beside=folders)
    splits = {name: tasks_of(rows, env=env, split=name) for name, rows in lists.evaluation.items()}
    return {name: len(tasks) for name, tasks in chosen_tasks(splits, run.evaluation.only, env=env).items()}
