"""The named checks of a probe in their order: what each finds out, from which level on, and what it makes no sense without."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from agentgym_cli.env.dialect_schema import CheckName
from agentgym_cli.env.findings import Bench, Found
from agentgym_cli.env.probing.basics import create, health, identity, latency, observe, reset, step, types
from agentgym_cli.env.probing.ends import done_latching, noop_floor, oracle
from agentgym_cli.env.probing.lifetimes import id_recycling, idle_expiry, leak
from agentgym_cli.env.probing.load import capacity
from agentgym_cli.env.probing.refusals import close, double_close, error_style, unknown_session, use_after_close, wrong_types
from agentgym_cli.env.probing.repeats import isolation, reset_determinism, reset_determinism_concurrent, two_clients
from agentgym_cli.env.probing.tasks import content, replicas, task_range
from agentgym_cli.env.probing.wounds import hostile_text, oversized, recovery

Level = Literal["quick", "full", "soak"]
LEVELS: tuple[Level, ...] = ("quick", "full", "soak")
"""From the one with the fewest checks to the one with all of them."""

Check = Callable[[Bench], Awaitable[str | Found]]
"""Returns what it saw, or raises NotMet, NotApplicable or EnvFailure. Sessions that it makes are closed."""


@dataclass(frozen=True, slots=True)
class Named:
    """A check with its place among the others."""

    check: Check
    after: tuple[CheckName, ...] = ()
    """Checks that must not fail before."""
    level: Level = "quick"
    """The level from which on it is made."""


CHECKS: dict[CheckName, Named] = {
    "health": Named(health),
    "identity": Named(identity, ("health",)),
    "create": Named(create, ("identity",)),
    "reset": Named(reset, ("create",)),
    "observe": Named(observe, ("reset",)),
    "step": Named(step, ("reset",)),
    "types": Named(types, ("step",)),
    "reset_determinism": Named(reset_determinism, ("reset",)),
    "unknown_session": Named(unknown_session, ("reset",)),
    "wrong_types": Named(wrong_types, ("unknown_session", "types", "reset_determinism")),
    "error_style": Named(error_style, ("unknown_session",)),
    "close": Named(close, ("reset",)),
    "double_close": Named(double_close, ("close",)),
    "use_after_close": Named(use_after_close, ("close",)),
    "reset_determinism_concurrent": Named(reset_determinism_concurrent, ("reset_determinism",)),
    "isolation": Named(isolation, ("types", "reset_determinism")),
    "two_clients": Named(two_clients, ("isolation", "reset_determinism_concurrent")),
    "oracle": Named(oracle, ("types",)),
    "noop_floor": Named(noop_floor, ("types",)),
    "done_latching": Named(done_latching, ("types",)),
    "id_recycling": Named(id_recycling, ("isolation",)),
    "task_range": Named(task_range, ("reset_determinism",)),
    "content": Named(content, ("reset",)),
    "replicas": Named(replicas, ("reset_determinism",)),
    "latency": Named(latency, ("types",)),
    "capacity": Named(capacity, ("types",), "full"),
    "recovery": Named(recovery, ("types", "reset_determinism"), "full"),
    "oversized": Named(oversized, ("types", "reset_determinism"), "full"),
    "hostile_text": Named(hostile_text, ("types", "reset_determinism"), "full"),
    "leak": Named(leak, ("close",), "full"),
    "idle_expiry": Named(idle_expiry, ("isolation",), "soak"),
}
"""By name, in order."""


def checks_of(level: Level) -> dict[CheckName, Named]:
    """The checks that a level makes."""
    return {name: named for name, named in CHECKS.items() if LEVELS.index(named.level) <= LEVELS.index(level)}
