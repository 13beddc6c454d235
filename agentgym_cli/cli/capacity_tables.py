"""The tables below a capacity answer: budgets, stages, simulated steps, an evaluation's size, alternatives. Few rows, 80 columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.table import Table

from agentgym_cli.capacity.training import host_of_machine
from agentgym_cli.cli.capacity_words import count, foreign, seconds, size_of
from agentgym_cli.report.phrases import duration

if TYPE_CHECKING:
    from agentgym_cli.capacity.money import Stage
    from agentgym_cli.verbs.alternatives import Alternative
    from agentgym_cli.verbs.capacity import CapacityAnswer
    from agentgym_cli.verbs.estimate import Estimate
    from agentgym_cli.verbs.evaluation_size import EvaluationPlan

_PARTS = 50
"""Most characters of a list of parts; those that are left out are in the JSON."""
_ROWS = 11
"""Most rows of stages and alternatives together, and of what else was asked for."""
_FEWEST = 3


def tables(answer: CapacityAnswer) -> Iterator[Table]:
    """The budgets, the stages, what was asked for besides, the same elsewhere; times only where it fits."""
    yield _budgets(answer.main)
    asked = [_simulated(answer)] if answer.simulated else []
    asked += [] if answer.evaluation is None else [evaluation_table(answer.evaluation)]
    left = max(2 * _FEWEST, _ROWS - sum(table.row_count + 1 for table in asked) - len(answer.notes))
    stages = max(_FEWEST, left - min(len(answer.alternatives), max(_FEWEST, left // 2)))
    if answer.fits:
        yield _stages(answer, stages)
    yield from asked
    if answer.alternatives:
        yield _alternatives(answer.alternatives, max(_FEWEST, left - min(stages, len(answer.main.stages))))


def _table(*names: str) -> Table:
    """The first column stands left, the others right."""
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="dim")
    for place, name in enumerate(names):
        table.add_column(name, justify="right" if place else "left", no_wrap=True)
    return table


def _budgets(found: Estimate) -> Table:
    """Each budget by itself: what training needs, what the policy needs, what the cache of episodes needs."""
    verdict, sampling = found.verdict, found.verdict.sampling
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="dim")
    for name, right in (("on one device", False), ("", True), ("of which", False)):
        table.add_column(name, justify="right" if right else "left", no_wrap=True)
    if verdict.training is not None:
        table.add_row("training", size_of(verdict.training.total), _sizes(verdict.training.parts()))
    parts = {"weights": sampling.weights, "working memory": sampling.working}
    table.add_row("policy, sampling", size_of(sampling.weights + sampling.working), _sizes(parts))
    each = f"{sampling.wanted:,} of {size_of(sampling.cache_per_sequence)}, at their longest"
    table.add_row("cache of episodes", size_of(sampling.cache), each)
    host = host_of_machine(verdict.training, found.plan.layout)
    table.add_row("driver or process", size_of(verdict.reserved), f"beside it, {size_of(host)} of a machine's own memory" if host else "")
    if verdict.fits:
        busy = {name: value for name, value in found.step.busy.items() if value >= 0.005}
        table.add_row("phases of a step", seconds(found.step.total), _largest(busy, {name: seconds(value) for name, value in busy.items()}))
    return table


def _sizes(parts: Mapping[str, int]) -> str:
    there = {name: size for name, size in parts.items() if size}
    return _largest(there, {name: size_of(size) for name, size in there.items()})


def _largest(values: Mapping[str, float], said: Mapping[str, str]) -> str:
    """The largest parts, as many as fit a line."""
    words: list[str] = []
    ranked = sorted(values, key=lambda name: values[name], reverse=True)
    for name in ranked:
        more = f"{name} {said[name]}"
        if len(", ".join([*words, more])) > _PARTS - (0 if name == ranked[-1] else len(", ...")):
            return ", ".join([*words, "..."])
        words.append(more)
    return ", ".join(words)


def _stages(answer: CapacityAnswer, most: int) -> Table:
    table = _table("stage", "steps", "clock", "GPU-h", "read", "sampled", "cost")
    stages = answer.main.stages
    shown = stages if len(stages) <= most else [*stages[: most - 2], *stages[-1:]]
    for stage in shown:
        table.add_row(foreign(stage.name, 24), *_stage(stage))
    if len(shown) < len(stages):
        table.add_row(f"{len(stages) - len(shown)} more: --json", *[""] * 6)
    table.add_row("all", "-", *_stage(answer.main.total)[1:])
    return table


def _stage(stage: Stage) -> tuple[str, ...]:
    steps = f"{stage.first_step}-{stage.last_step}" if stage.steps > 1 else "-"
    cost = "n/a" if stage.cost is None else count(stage.cost) if stage.cost >= 1e6 else f"{stage.cost:,.2f}"
    tokens = (count(number) for number in (stage.tokens_read, stage.tokens_sampled))
    return (steps if len(steps) <= 12 else "many", clock(stage.seconds), hours(stage.gpu_hours), *tokens, cost)


def _simulated(answer: CapacityAnswer) -> Table:
    table = _table("simulated", "step p50", "p95", "policy idle", "worlds idle", "stragglers", "lock-step")
    for horizon, found in answer.simulated:
        shares = (f"{share:.0%}" for share in (found.policy_idle, found.env_idle, found.straggler_share))
        table.add_row(f"horizon {horizon}", seconds(found.seconds_p50), seconds(found.seconds_p95), *shares, seconds(found.lock_step_p50))
    return table


def evaluation_table(plan: EvaluationPlan) -> Table:
    """Sizes of an evaluation for what was asked for."""
    source = "assumed" if plan.rate_from == "assumed" else "measured"
    table = _table(f"evaluation at {plan.rate:.0%}, {source}", "samples", "tasks", "clock", "GPU-h", "cost")
    kinds = [(f"interval {plan.width or 0:.3g} wide", plan.for_width), (f"difference {plan.gap or 0:.3g}, each policy", plan.for_gap)]
    for name, sizes in (*kinds, ("  on the same tasks", plan.for_gap_paired)):
        for size in sizes:
            spent = ("n/a",) * 3 if size.stage is None else (_stage(size.stage)[1], *_stage(size.stage)[2::3])
            table.add_row(name, str(size.samples), "n/a" if size.tasks is None else f"{size.tasks:,}", *spent)
    return table


def _alternatives(alternatives: Sequence[Alternative], most: int) -> Table:
    table = _table("alternative", "fits", "left", "at once", "a step", "clock", "GPU-h", "cost")
    for each in _foremost(alternatives, most):
        found, verdict, total = each.estimate, each.estimate.verdict, each.estimate.total
        room = (f"{verdict.margin:.0%}" if verdict.margin > -10 else "<-1000%", count(verdict.sequences, exact=10_000))
        if not verdict.fits:
            table.add_row(foreign(each.name, 24), "no", *room, *["n/a"] * 4)
            continue
        sure = "yes" if verdict.surely else "barely"
        cost = "n/a" if total.cost is None else count(total.cost) if total.cost >= 1e6 else f"{total.cost:,.2f}"
        table.add_row(foreign(each.name, 24), sure, *room, seconds(found.step.total), clock(total.seconds), hours(total.gpu_hours), cost)
    return table


def _foremost(alternatives: Sequence[Alternative], most: int) -> list[Alternative]:
    """Those that fit before the others, in the order in which they come."""
    ranked = sorted(alternatives, key=lambda each: not each.estimate.verdict.fits)[:most]
    return [each for each in alternatives if each in ranked]


def clock(value: float) -> str:
    """A duration as it stands in a column; days where hours are many."""
    return duration(value) if value < 100 * 3600 else f"{count(value / 86400, exact=10_000)} days"


def hours(value: float) -> str:
    """GPU-hours as they stand in a column."""
    return f"{value:,.1f}" if value < 1e5 else count(value)
