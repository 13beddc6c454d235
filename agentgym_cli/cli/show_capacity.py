"""What a run needs, on one screen: fits, bottleneck, time, cost, what to change; then the budgets, each by itself, and alternatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from agentgym_cli.cli.capacity_values import answer_values
from agentgym_cli.cli.show import print_json, stdout_console
from agentgym_cli.report.phrases import duration

if TYPE_CHECKING:
    from agentgym_cli.capacity.money import Stage
    from agentgym_cli.verbs.capacity import CapacityAnswer
    from agentgym_cli.verbs.estimate import Estimate

_GIB = 1024**3
_LABEL = 12


def show_capacity(answer: CapacityAnswer, *, as_json: bool) -> None:
    """Print the answer."""
    if as_json:
        print_json(answer_values(answer))
        return
    console = stdout_console()
    main = answer.main
    console.print(f"{escape(answer.model)}: {answer.parameters:,} parameters; profile {answer.profile}; {devices(main)}", soft_wrap=True)
    console.print()
    for label, texts in _lines(answer).items():
        for place, text in enumerate(texts):
            _said(console, label if place == 0 else "", text)
    console.print()
    console.print(_memory(main))
    console.print(_phases(main))
    console.print(_stages(answer))
    if answer.alternatives:
        console.print(_alternatives(answer))
    for note in (*answer.notes, _error(main)):
        console.print(escape(note), style="dim")


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
    table.add_row(label, escape(text))
    console.print(table)


def _lines(answer: CapacityAnswer) -> dict[str, list[str]]:
    """The answer in a few lines, by what they are about."""
    main, verdict = answer.main, answer.main.verdict
    room = f"{gib(verdict.peak)} of {gib(verdict.memory)} GiB while {verdict.where}"
    if verdict.fits:
        sure = "" if verdict.surely else "; less than the estimate's error, so it may not"
        fits = [f"yes: at most {room}, {verdict.margin:.0%} left{sure}"]
    else:
        fits = [f"no: {room}; the first that does not fit: {verdict.lacking}"]
    lines = {"fits": fits, "cache": [_cache(main)]}
    if verdict.fits:
        lines |= {"bottleneck": [_bottleneck(main)], "time": [_time(main)], "cost": [_cost(answer)], "change": _changes(main)}
    else:
        lines["change"] = list(answer.changes) or ["nothing of what is known makes it fit; take a smaller model"]
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
    return f"{hours}{total.tokens_sampled / 1e6:,.1f}M tokens sampled; {paid}" + (f"; a success takes {each}" if each else "")


def _each(rate: float, cost: float | None, hours: float, clock: float) -> str:
    amount = f"{cost:.4f}" if cost is not None else f"{hours * 3600:.1f} GPU-s" if hours else f"{clock:.2f} s"
    return f"{amount} at {rate:.0%}"


def _changes(found: Estimate) -> list[str]:
    best = sorted(((saved, name) for name, saved in found.doublings.items() if saved > 0.01 * found.step.total), reverse=True)
    said = [f"twice the {name}: {seconds(saved)} less a step" for saved, name in best[:2]] or ["nothing that doubling helps"]
    sizing = found.sizing
    if found.load.played:
        replicas = f"{sizing.env_replicas} env replica{'s' if sizing.env_replicas > 1 else ''} keep the policy from waiting"
        fed = "" if sizing.policy_replicas is None else f"; {sizing.policy_replicas} policy replicas keep the worlds busy"
        said.append(f"{replicas} (has {found.resources.env_replicas}){fed}")
    return said


def _memory(found: Estimate) -> Table:
    """Each budget by itself: what training needs, what the policy needs, what the cache of episodes needs."""
    verdict = found.verdict
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    for name in ("GiB on one device", "parts", ""):
        table.add_column(name, justify="right" if not name else "left", overflow="fold")
    if verdict.training is not None:
        parts = ", ".join(f"{name} {gib(size)}" for name, size in verdict.training.parts().items() if size)
        table.add_row("training", parts, gib(verdict.training.total))
    sampling = verdict.sampling
    table.add_row("policy", f"weights {gib(sampling.weights)}, working {gib(sampling.working)}", gib(sampling.weights + sampling.working))
    table.add_row("cache", f"{sampling.wanted:,} episodes of {gib(sampling.cache_per_sequence)}", gib(sampling.cache))
    table.add_row("kept by the driver or process", "", gib(verdict.reserved))
    return table


def _phases(found: Estimate) -> Table:
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    table.add_column("seconds a step")
    for name in found.step.busy:
        table.add_column(name, justify="right")
    table.add_row("alone", *(f"{value:,.1f}" for value in found.step.busy.values()))
    return table


def _stages(answer: CapacityAnswer) -> Table:
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    table.add_column("stage")
    for name in ("steps", "clock", "GPU-h", "read", "sampled", "cost"):
        table.add_column(name, justify="right", no_wrap=True)
    main = answer.main
    for stage in (*_few(main.stages), main.total):
        table.add_row(escape(stage.name), *_stage(stage, main.verdict.fits))
    return table


def _few(stages: Sequence[Stage]) -> Sequence[Stage]:
    return stages if len(stages) <= 6 else [*stages[:4], *stages[-2:]]


def _stage(stage: Stage, fits: bool) -> tuple[str, ...]:
    steps = f"{stage.first_step}-{stage.last_step}" if stage.steps > 1 else "-"
    clock, hours = (duration(stage.seconds), f"{stage.gpu_hours:,.1f}") if fits else ("n/a", "n/a")
    cost = "n/a" if stage.cost is None or not fits else f"{stage.cost:,.2f}"
    return steps, clock, hours, f"{stage.tokens_read / 1e6:,.1f}M", f"{stage.tokens_sampled / 1e6:,.1f}M", cost


def _alternatives(answer: CapacityAnswer) -> Table:
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    table.add_column("alternative")
    for name in ("fits", "left", "at once", "a step", "clock", "GPU-h", "cost"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in answer.alternatives:
        found, verdict, total = each.estimate, each.estimate.verdict, each.estimate.total
        if not verdict.fits:
            table.add_row(escape(each.name), "no", f"{verdict.margin:.0%}", f"{verdict.sequences:,}", *["n/a"] * 4)
            continue
        cost = "n/a" if total.cost is None else f"{total.cost:,.2f}"
        cells = (seconds(found.step.total), duration(total.seconds), f"{total.gpu_hours:,.1f}", cost)
        table.add_row(escape(each.name), "yes" if verdict.surely else "barely", f"{verdict.margin:.0%}", f"{verdict.sequences:,}", *cells)
    return table


def _error(found: Estimate) -> str:
    known = sorted(set(found.services.sources.values()))
    source = f"times of {', '.join(known)} where it measured them, else assumed" if known else "times are assumed, none measured (--from RUN)"
    return f"Error: memory within 15%; {source}, within a factor of 2. docs/capacity.md says how both are known."


def gib(size: int) -> str:
    """Gibibytes with a digit that matters."""
    return f"{size / _GIB:,.1f}" if size >= _GIB / 10 else f"{size / _GIB:.3f}"


def seconds(value: float) -> str:
    """Seconds as short as they are told apart."""
    return f"{value:,.0f} s" if value >= 100 else f"{value:.1f} s" if value >= 1 else f"{value:.2f} s"
