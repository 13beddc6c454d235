"""What a run needs, on one screen: fits, bottleneck, time, cost, what to change; then the budgets, each by itself, and alternatives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from agentgym_cli.capacity.service import TIME_ERROR
from agentgym_cli.capacity.verdict import MEMORY_ERROR
from agentgym_cli.cli.capacity_values import answer_values
from agentgym_cli.cli.show import print_json, stdout_console
from agentgym_cli.report.phrases import duration
from agentgym_cli.report.text import for_terminal

if TYPE_CHECKING:
    from agentgym_cli.capacity.money import Stage
    from agentgym_cli.verbs.capacity import CapacityAnswer
    from agentgym_cli.verbs.estimate import Estimate
    from agentgym_cli.verbs.evaluation_size import EvaluationPlan

_LABEL = 12
_LONGEST = 600
"""Most characters of a text that is shown."""


def show_capacity(answer: CapacityAnswer, *, as_json: bool) -> None:
    """Print the answer."""
    if as_json:
        print_json(answer_values(answer))
        return
    console = stdout_console()
    main = answer.main
    console.print(f"{foreign(answer.model)}: {answer.parameters:,} parameters; profile {answer.profile}; {devices(main)}", soft_wrap=True)
    console.print()
    for label, texts in _lines(answer).items():
        for place, text in enumerate(texts):
            _said(console, label if place == 0 else "", text)
    console.print()
    for table in _tables(answer):
        console.print(table)
    for note in (*answer.notes, _error(main)):
        console.print(foreign(note), style="dim")


def _tables(answer: CapacityAnswer) -> Iterator[Table]:
    """The budgets, the phases, the stages, the same elsewhere; times only where it fits."""
    main = answer.main
    yield _memory(main)
    if answer.fits:
        yield _stages(answer)
    if answer.simulated:
        yield _simulated(answer)
    if answer.evaluation is not None:
        yield _evaluation(answer.evaluation)
    if answer.alternatives:
        yield _alternatives(answer)


def devices(found: Estimate) -> str:
    """``8 x h100-80g, colocated``."""
    plan = found.plan
    if plan.kind.name == "cpu":
        return "this machine, one process" if plan.layout.local else "this machine"
    parallel = f", tensor parallel {plan.layout.tensor_parallel}" if plan.layout.tensor_parallel > 1 else ""
    return f"{plan.layout.devices} x {plan.kind.name}, {plan.layout.placement}{parallel}"


def _said(console: Console, label: str, text: str) -> None:
    table = Table.grid(padding=(0, 0))
    table.add_column(width=_LABEL)
    table.add_column(width=max(20, console.width - _LABEL), overflow="fold")
    table.add_row(label, foreign(text))
    console.print(table)


def _lines(answer: CapacityAnswer) -> dict[str, list[str]]:
    """The answer in a few lines, by what they are about."""
    main, verdict = answer.main, answer.main.verdict
    room = f"{size_of(verdict.peak)} of {size_of(verdict.memory)} while {verdict.where}"
    if verdict.fits:
        sure = "" if verdict.surely else "; less than the estimate's error, so it may not"
        fits = [f"yes: at most {room}, {verdict.margin:.0%} left{sure}"]
    else:
        fits = [f"no: {room}; the first that does not fit: {verdict.lacking}"]
    lines = {"fits": fits}
    if answer.kinds:
        names = [name for name, found in answer.kinds if found.fits]
        lines["fits on"] = [
            f"{main.plan.layout.devices} x {', '.join(names)}" if names else f"no kind that is known, {main.plan.layout.devices} of it"
        ]
    lines["cache"] = [_cache(main)]
    if verdict.fits:
        lines |= {"bottleneck": [_bottleneck(main)], "time": [_time(main)], "cost": [_cost(answer)], "change": _changes(main)}
    else:
        lines["change"] = [way.says for way in answer.changes] or ["nothing of what is known makes it fit; take a smaller model"]
    return lines


def _cache(found: Estimate) -> str:
    verdict, plan = found.verdict, found.plan
    token = f"{verdict.sampling.cache_per_token:,} bytes a token"
    return f"{verdict.sequences:,} episodes of {plan.context:,} tokens at once, {plan.sequences:,} wanted; {token} and GPU".replace(
        " and GPU", "" if plan.layout.local else " on each GPU"
    )


def _bottleneck(found: Estimate) -> str:
    step, slowest = found.step, found.step.slowest
    uses = f"; while playing, policy {step.policy_utilisation:.0%} and worlds {step.env_utilisation:.0%} used" if found.load.played else ""
    return f"{slowest}: {seconds(step.busy[slowest])} of {seconds(step.total)} a step at horizon {found.load.horizon}{uses}"


def _time(found: Estimate) -> str:
    steps = sum(stage.steps for stage in found.stages if stage.name.startswith("horizon"))
    return (
        f"{duration(found.total.seconds)} on the clock for {steps:,} steps and evaluations"
        if steps
        else f"{duration(found.total.seconds)} on the clock"
    )


def _cost(answer: CapacityAnswer) -> str:
    total = answer.main.total
    paid = f"{total.cost:,.2f} in all" if total.cost is not None else "no price was given (--gpu-price)"
    hours = f"{total.gpu_hours:,.1f} GPU-hours, " if total.gpu_hours else ""
    each = ", ".join(_each(row.rate, row.cost, row.gpu_hours, row.seconds) for row in answer.per_success)
    return f"{hours}{count(total.tokens_sampled)} tokens sampled; {paid}" + (f"; a success takes {each}" if each else "")


def _each(rate: float, cost: float | None, hours: float, clock: float) -> str:
    amount = f"{cost:.4f}" if cost is not None else f"{hours * 3600:.1f} GPU-s" if hours else f"{clock:.2f} s"
    return f"{amount} at {rate:.0%}"


def _changes(found: Estimate) -> list[str]:
    best = sorted(((saved, name) for name, saved in found.doublings.items() if saved > 0.01 * found.step.total), reverse=True)
    said = [f"twice the {name}: {seconds(saved)} less a step" for saved, name in best[:2]] or ["nothing that doubling helps"]
    sizing = found.sizing
    if found.load.played:
        wanted = f"for a policy that never waits: env replicas {sizing.env_replicas} (has {found.resources.env_replicas}), "
        said.append(wanted + f"episodes in flight {sizing.concurrency:,} (has {min(found.load.in_flight, found.load.episodes):,})")
        if sizing.policy_replicas is not None:
            said.append(f"for worlds that never wait: policy replicas {sizing.policy_replicas} (has {found.resources.policy_replicas})")
    return said


def _table(*names: str) -> Table:
    """The first column stands left, the others right."""
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="dim")
    for place, name in enumerate(names):
        table.add_column(name, justify="right" if place else "left", no_wrap=True)
    return table


def _memory(found: Estimate) -> Table:
    """Each budget by itself: what training needs, what the policy needs, what the cache of episodes needs."""
    verdict, sampling = found.verdict, found.verdict.sampling
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="dim")
    for name, side in (("on one device", "left"), ("", "right"), ("of which", "left")):
        table.add_column(name, justify="right" if side == "right" else "left", overflow="fold")
    if verdict.training is not None:
        parts = ", ".join(f"{name} {size_of(size)}" for name, size in verdict.training.parts().items() if size)
        table.add_row("training", size_of(verdict.training.total), parts)
    parts = f"weights {size_of(sampling.weights)}" + (f", working memory {size_of(sampling.working)}" if sampling.working else "")
    table.add_row("policy, sampling", size_of(sampling.weights + sampling.working), parts)
    table.add_row(
        "cache of episodes", size_of(sampling.cache), f"{sampling.wanted:,} of {size_of(sampling.cache_per_sequence)}, all at their longest"
    )
    table.add_row("driver or process", size_of(verdict.reserved), "")
    if verdict.fits:
        busy = ", ".join(f"{name} {seconds(value)}" for name, value in found.step.busy.items() if value >= 0.005)
        table.add_row("phases of a step", seconds(found.step.total), busy)
    return table


def _stages(answer: CapacityAnswer) -> Table:
    table = _table("stage", "steps", "clock", "GPU-h", "read", "sampled", "cost")
    for stage in _few(answer.main.stages):
        table.add_row(foreign(stage.name), *_stage(stage))
    table.add_row("all", "-", *_stage(answer.main.total)[1:])
    return table


def _simulated(answer: CapacityAnswer) -> Table:
    table = _table("simulated", "step p50", "p95", "policy idle", "worlds idle", "stragglers", "lock-step p50")
    for horizon, found in answer.simulated:
        shares = (f"{share:.0%}" for share in (found.policy_idle, found.env_idle, found.straggler_share))
        table.add_row(f"horizon {horizon}", seconds(found.seconds_p50), seconds(found.seconds_p95), *shares, seconds(found.lock_step_p50))
    return table


def _evaluation(plan: EvaluationPlan) -> Table:
    table = _table(f"evaluation at {plan.rate:.0%}, {foreign(plan.rate_from[:20])}", "samples", "tasks", "clock", "GPU-h", "cost")
    kinds = [(f"interval {plan.width or 0:.3g} wide", plan.for_width), (f"difference {plan.gap or 0:.3g}", plan.for_gap)]
    for name, sizes in (*kinds, ("  on the same tasks", plan.for_gap_paired)):
        for size in sizes:
            spent = ("n/a",) * 3 if size.stage is None else (_stage(size.stage)[1], *_stage(size.stage)[2::3])
            table.add_row(name, str(size.samples), "n/a" if size.tasks is None else f"{size.tasks:,}", *spent)
    return table


def _few(stages: Sequence[Stage]) -> Sequence[Stage]:
    return stages if len(stages) <= 6 else [*stages[:4], *stages[-2:]]


def _stage(stage: Stage) -> tuple[str, ...]:
    steps = f"{stage.first_step}-{stage.last_step}" if stage.steps > 1 else "-"
    cost = "n/a" if stage.cost is None else f"{stage.cost:,.2f}"
    tokens = (count(number) for number in (stage.tokens_read, stage.tokens_sampled))
    return (steps, duration(stage.seconds), f"{stage.gpu_hours:,.1f}", *tokens, cost)


def _alternatives(answer: CapacityAnswer) -> Table:
    table = _table("alternative", "fits", "left", "at once", "a step", "clock", "GPU-h", "cost")
    for each in answer.alternatives:
        found, verdict, total = each.estimate, each.estimate.verdict, each.estimate.total
        room = (f"{verdict.margin:.0%}", f"{verdict.sequences:,}")
        if not verdict.fits:
            table.add_row(foreign(each.name), "no", *room, *["n/a"] * 4)
            continue
        sure = "yes" if verdict.surely else "barely"
        cost = "n/a" if total.cost is None else f"{total.cost:,.2f}"
        table.add_row(foreign(each.name), sure, *room, seconds(found.step.total), duration(total.seconds), f"{total.gpu_hours:,.1f}", cost)
    return table


def _error(found: Estimate) -> str:
    known = sorted(set(found.services.sources.values()))
    source = f"times of {', '.join(known)} where it measured them, else assumed" if known else "times are assumed, none measured (--from RUN)"
    return f"Error: memory within {MEMORY_ERROR:.0%}; {source}, within a factor of {TIME_ERROR:g}. docs/capacity.md says how both are known."


def foreign(text: str) -> str:
    """Text of files and stores, made harmless: no markup, no control characters."""
    return escape(for_terminal(text, limit=_LONGEST))


def count(number: float) -> str:
    """A count of tokens in three digits or so."""
    for unit, scale in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= scale:
            return f"{number / scale:,.1f}{unit}"
    return f"{number:.0f}"


def size_of(size: int) -> str:
    """Bytes in the unit that fits them."""
    for unit, scale in (("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024)):
        if size >= scale:
            return f"{size / scale:,.1f} {unit}"
    return f"{size} B"


def seconds(value: float) -> str:
    """Seconds as short as they are told apart."""
    return f"{value:,.0f} s" if value >= 100 else f"{value:.1f} s" if value >= 1 else f"{value:.2f} s"
