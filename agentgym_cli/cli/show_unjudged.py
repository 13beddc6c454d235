"""What a run takes of which no memory is judged: an evaluation whose policy has no devices here, and a rehearsal."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from agentgym_cli.capacity.measured import Measured
from agentgym_cli.capacity.served import CALL_SECONDS, TOKEN_SECONDS
from agentgym_cli.cli.capacity_tables import clock, evaluation_table
from agentgym_cli.cli.capacity_values import UNITS, Values
from agentgym_cli.cli.capacity_words import count, foreign, size_of
from agentgym_cli.cli.show import print_json, stdout_console
from agentgym_cli.verbs.rehearsed import RehearsedAnswer

if TYPE_CHECKING:
    from agentgym_cli.verbs.deviceless import ServedAnswer

_LABEL = 12
_KEYS = {
    "episodes at once": "engine.slots",
    "requests at once": "policy.endpoint.max_in_flight, engine.slots",
    "requests a minute": "policy.endpoint.requests_per_minute",
    "tokens a minute": "policy.endpoint.tokens_per_minute",
    "worlds": "env.replicas",
}
"""What sets each bound of an evaluation."""
SERVED_UNITS: dict[str, str] = {
    "turns_per_second": "turns a second, all episodes together",
    "turn_seconds": "seconds of a turn",
    "requests_per_minute": "requests a minute",
    "tokens_per_minute": "tokens a minute",
    "taken": "bytes, all processes together",
    "memory": "bytes",
    "processes": "processes",
}
"""Of the numbers that only an answer without devices has; what it shares with others has the same unit."""


def show_unjudged(found: ServedAnswer | RehearsedAnswer, *, as_json: bool) -> None:
    """Print the answer."""
    if as_json:
        print_json(rehearsed_values(found) if isinstance(found, RehearsedAnswer) else served_values(found))
        return
    console = stdout_console()
    if isinstance(found, RehearsedAnswer):
        console.print(f"a tiny model in place of {foreign(found.model, 100)}; profile {found.profile}; this machine", overflow="fold")
        said(console, "fits", f"not judged: {found.why_no_memory}")
        all_of = f"{size_of(found.taken)} of all {found.processes:,} together" if found.processes > 1 else f"{size_of(found.taken)} in all"
        said(console, "memory", f"rehearsals took about {all_of}; {size_of(found.memory)} are here")
        said(console, "time", "2 to 5 minutes where a rehearsal was measured, of which a step takes seconds")
        said(console, "change", "the real model: agentgym capacity RECIPE profile=gpu")
        return
    _show_served(console, found)


def _show_served(console: Console, found: ServedAnswer) -> None:
    who = "no model" if found.model is None else f"{foreign(found.model, 100)} at an endpoint"
    console.print(f"{who}; policy {found.policy}; profile {found.profile}", overflow="fold")
    load, stage, bounds = found.load, found.stage, found.time.turns_per_second
    splits = ", ".join(f"{name} {tasks:,}" for name, tasks in found.tasks.items())
    slowest = found.time.bottleneck
    said(console, "fits", f"not judged: {found.why_no_memory}")
    said(console, "episodes", f"{stage.episodes:,} of at most {load.horizon} turns ({splits} tasks); {min(load.in_flight, load.episodes):,} at once")
    said(console, "bottleneck", f"{slowest} ({_KEYS[slowest]}): {bounds[slowest]:,.2f} turns a second")
    said(console, "time", f"{clock(stage.seconds)} on the clock")
    tokens = f"{count(stage.tokens_read)} tokens read, {count(stage.tokens_sampled)} sampled"
    each = ", ".join(f"{row.seconds:.2f} s{'' if row.cost is None else f' and {row.cost:.4f}'} at {row.rate:.0%}" for row in found.per_success)
    paid = f"n/a, {found.no_cost}" if stage.cost is None else f"{stage.cost:,.2f} in all"
    said(console, "cost", f"{paid}; {tokens}" + (f"; a success takes {each}" if each else ""))
    console.print()
    console.print(_bounds(found))
    if found.evaluation is not None:
        console.print(evaluation_table(found.evaluation))
    for note in found.notes:
        console.print(foreign(note, 155), style="dim", overflow="fold")
    console.print(_error(found), style="dim", overflow="fold")


def _bounds(found: ServedAnswer) -> Table:
    """What each bound alone would allow, the tightest first."""
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="dim")
    for name, right in (("bound", False), ("turns/s", True), ("key", False)):
        table.add_column(name, justify="right" if right else "left", no_wrap=True)
    for name, rate in sorted(found.time.turns_per_second.items(), key=lambda each: each[1]):
        table.add_row(name, f"{rate:,.2f}" if rate < 1e6 else count(rate), _KEYS[name])
    return table


def _error(found: ServedAnswer) -> str:
    worlds = "assumed" if found.measured is None else f"of {foreign(found.measured.source, 70)}"
    if found.model is None:
        return f"Error: times of worlds {worlds}: docs/capacity.md"
    server = (
        "measured there"
        if found.timed
        else f"a guess ({CALL_SECONDS:g} s a call, {TOKEN_SECONDS:g} s a token; --from RUN of an evaluation there measures)"
    )
    return f"Error: the server's times are {server}; times of worlds {worlds}: docs/capacity.md"


def served_values(found: ServedAnswer) -> Values:
    """An evaluation without devices, as JSON has it."""
    measured = found.measured
    return {
        **_names(found),
        "fits": None,
        "why_not_judged": found.why_no_memory,
        "policy": found.policy,
        "model": found.model,
        "tasks": dict(found.tasks),
        "load": asdict(found.load),
        "server": asdict(found.server),
        "server_timed": found.timed,
        "turns_per_second": dict(found.time.turns_per_second),
        "bottleneck": found.time.bottleneck,
        "total": asdict(found.stage),
        "no_cost": found.no_cost,
        "per_success": [asdict(row) for row in found.per_success],
        "evaluation": None if found.evaluation is None else asdict(found.evaluation),
        "notes": list(found.notes),
        "measured_in": None
        if measured is None
        else {"source": measured.source, "use": [asdict(line) for line in measured.use.lines] if isinstance(measured, Measured) else []},
        "units": {**UNITS, **SERVED_UNITS},
    }


def rehearsed_values(found: RehearsedAnswer) -> Values:
    """A rehearsal, as JSON has it."""
    return {
        **_names(found),
        "fits": None,
        "why_not_judged": found.why_no_memory,
        "model": found.model,
        "processes": found.processes,
        "taken": found.taken,
        "memory": found.memory,
        "units": {name: SERVED_UNITS[name] for name in ("processes", "taken", "memory")},
    }


def _names(found: ServedAnswer | RehearsedAnswer) -> Values:
    return {"recipe": found.recipe, "profile": found.profile, "profile_reason": found.profile_reason}


def said(console: Console, label: str, text: str) -> None:
    """A line of an answer: what it is about, and what there is to say."""
    table = Table.grid(padding=(0, 0))
    table.add_column(width=_LABEL)
    table.add_column(width=max(20, console.width - _LABEL), overflow="fold")
    table.add_row(label, foreign(text))
    console.print(table)
