"""What a run needs, on one screen: fits, bottleneck, time, cost, what to change; then the budgets, each by itself, and alternatives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentgym_cli.capacity.service import TIME_ERROR
from agentgym_cli.capacity.training import host_of_machine
from agentgym_cli.capacity.verdict import MEMORY_ERROR
from agentgym_cli.cli.capacity_tables import clock, hours, tables
from agentgym_cli.cli.capacity_values import answer_values
from agentgym_cli.cli.capacity_words import count, foreign, seconds, size_of
from agentgym_cli.cli.show import print_json, stdout_console
from agentgym_cli.cli.show_unjudged import said, show_unjudged

if TYPE_CHECKING:
    from agentgym_cli.verbs.capacity import Answer, CapacityAnswer
    from agentgym_cli.verbs.estimate import Estimate

_KEYS = {"env replicas": "env servers (env.replicas)", "slots": "slots (engine.slots)"}
"""What doubling can save a step's time beside GPUs, as a recipe's keys set it; the JSON has what each phase's own share would save."""
_NOTE = 155
"""Most characters of a note; the JSON has all of it."""
_MODEL = 100
"""Most characters of a model's path."""


def show_answer(found: Answer, *, as_json: bool) -> None:
    """Print an answer of any kind."""
    from agentgym_cli.verbs.capacity import CapacityAnswer

    if isinstance(found, CapacityAnswer):
        show_capacity(found, as_json=as_json)
    else:
        show_unjudged(found, as_json=as_json)


def show_capacity(answer: CapacityAnswer, *, as_json: bool) -> None:
    """Print the answer."""
    if as_json:
        print_json(answer_values(answer))
        return
    console = stdout_console()
    main = answer.main
    title = f"{foreign(answer.model, _MODEL)}: {count(answer.parameters, exact=1e12)} parameters; profile {answer.profile}; {devices(main)}"
    console.print(title, overflow="fold")
    for label, texts in _lines(answer).items():
        for place, text in enumerate(texts):
            said(console, label if place == 0 else "", text)
    console.print()
    for table in tables(answer):
        console.print(table)
    for note in answer.notes:
        console.print(foreign(note, _NOTE), style="dim", overflow="fold")
    console.print(_error(main), style="dim", overflow="fold")


def devices(found: Estimate) -> str:
    """``8 x h100-80g, colocated``."""
    plan, layout = found.plan, found.plan.layout
    if plan.kind.name == "cpu":
        return "this machine, one process" if layout.local else "this machine"
    parallel = f", tensor parallel {layout.tensor_parallel}" if layout.tensor_parallel > 1 else ""
    machines = f" on {layout.machines} machines" if layout.machines > 1 else ""
    return f"{layout.devices} x {plan.kind.name}{machines}, {layout.placement}{parallel}"


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
        lines["fits on"] = [_kinds(answer)]
    lines["cache"] = [_cache(main)]
    if verdict.fits:
        lines |= {"bottleneck": [_bottleneck(main)], "time": [_time(main)], "cost": [_cost(answer)], "change": _changes(answer)}
    else:
        lines["change"] = _ways(answer) or ["nothing of what is known makes it fit; take a smaller model"]
    return lines


def _kinds(answer: CapacityAnswer) -> str:
    """The kinds of GPU that it fits on; where these are the largest ones, the first of them stands for all."""
    ranked = sorted(answer.kinds, key=lambda kind: kind[1].memory)
    names, every = [name for name, found in ranked if found.fits], [name for name, _ in ranked]
    count = answer.main.plan.layout.devices
    if not names:
        return f"no kind that is known, {count:,} of it"
    last = len(names) > 1 and names == every[-len(names) :]
    return f"{count:,} x {names[0]} and all larger kinds" if last else f"{count:,} x {', '.join(names)}"


def _cache(found: Estimate) -> str:
    verdict, plan = found.verdict, found.plan
    on = "" if plan.layout.local else " on each GPU"
    tokens = f"{count(verdict.sequences, exact=1e9)} episodes of {plan.context:,} tokens at once, {count(plan.sequences, exact=1e9)} wanted"
    return f"{tokens}; {verdict.sampling.cache_per_token:,} bytes a token{on}"


def _bottleneck(found: Estimate) -> str:
    step, slowest = found.step, found.step.slowest
    uses = f"; while playing, policy {step.policy_utilisation:.0%} and worlds {step.env_utilisation:.0%} used" if found.load.played else ""
    return f"{slowest}: {seconds(step.busy[slowest])} of {seconds(step.total)} a step at horizon {found.load.horizon}{uses}"


def _time(found: Estimate) -> str:
    steps = sum(stage.steps for stage in found.stages if stage.name.startswith("horizon"))
    more = f" for {steps:,} steps and evaluations" if steps else ""
    return f"{clock(found.total.seconds)} on the clock{more}"


def _cost(answer: CapacityAnswer) -> str:
    total = answer.main.total
    paid = f"{total.cost:,.2f} in all" if total.cost is not None else f"n/a, {answer.no_cost}"
    spent = f"{hours(total.gpu_hours)} GPU-hours, " if total.gpu_hours else ""
    each = ", ".join(_each(row.rate, row.cost, row.gpu_hours, row.seconds) for row in answer.per_success)
    return f"{paid}; {spent}{count(total.tokens_sampled)} tokens sampled" + (f"; a success takes {each}" if each else "")


def _each(rate: float, cost: float | None, gpu_hours: float, on_clock: float) -> str:
    amount = f"{cost:.4f}" if cost is not None else f"{gpu_hours * 3600:.1f} GPU-s" if gpu_hours else f"{on_clock:.2f} s"
    return f"{amount} at {rate:.0%}"


def _ways(answer: CapacityAnswer) -> list[str]:
    """Each by itself makes it fit; with what it puts into a machine's own memory."""
    now = host_of_machine(answer.main.verdict.training, answer.main.plan.layout)
    beside = [f" ({size_of(way.host_bytes)} of a machine's own memory)" if way.host_bytes > now else "" for way in answer.changes]
    return [f"{'or ' if place else ''}{way.says}{beside[place]}" for place, way in enumerate(answer.changes)]


def _changes(answer: CapacityAnswer) -> list[str]:
    found, more = answer.main, answer.twice_gpus
    saves = [(found.doublings[name], said) for name, said in _KEYS.items()]
    saves += [] if more is None else [(more.seconds, f"GPUs ({', '.join(more.keys)})")]
    best = sorted((each for each in saves if each[0] > 0.01 * found.step.total), reverse=True)
    said = ["; ".join(f"twice the {name}: {seconds(saved)} less a step" for saved, name in best[:2]) or "nothing that a key doubles helps"]
    sizing, load = found.sizing, found.load
    if load.played:
        has = f"a step has {load.episodes:,}" if load.episodes <= load.in_flight else f"engine.slots lets {load.in_flight:,} play"
        servers = f"{_many(sizing.env_replicas, 'env server')} (has {found.resources.env_replicas:,})"
        said.append(f"a policy that never waits: {servers}, {_many(sizing.concurrency, 'episode')} at work at once ({has})")
        needed = sizing.policy_replicas
        why = f"worlds that never wait: {sizing.why_no_policy_replicas}"
        if needed is not None:
            why = f"worlds that never wait: {_many(needed, 'copy', 'copies')} of the policy (has {found.resources.policy_replicas:,})"
        said.append(why)
    return said


def _many(number: int, one: str, several: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else several or one + 's'}"


def _error(found: Estimate) -> str:
    known = sorted(set(found.services.sources.values()))
    where = (
        f"measured in {foreign(', '.join(known), 70)} ({', '.join(found.services.sources)}), else assumed"
        if known
        else "assumed (--from RUN measures)"
    )
    return f"Error: memory within {MEMORY_ERROR:.0%}; times {where}, within a factor of {TIME_ERROR:g}: docs/capacity.md"
