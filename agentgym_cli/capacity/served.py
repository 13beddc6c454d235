"""How long an evaluation takes whose policy has no devices of ours: a server is asked, or a rule acts. Little's law, and limits of a minute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agentgym_cli.capacity.service import Load

CALL_SECONDS, TOKEN_SECONDS = 0.5, 0.02
"""Of one call to a server that nobody measured, and of each token that it samples then: a busy one of a 7B model; others differ by ten times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Whoever acts, and what it may be asked. None is no limit."""

    turn_seconds: float
    """Of one turn; 0 for a rule."""
    in_flight: int
    """Most requests at once."""
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    """Read and sampled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedTime:
    """What an evaluation takes."""

    seconds: float
    turns_per_second: Mapping[str, float]
    """Of all episodes together, as each bound alone would allow, by its name; the least of them is what there is."""

    @property
    def bottleneck(self) -> str:
        """The bound that is met first."""
        return min(self.turns_per_second, key=lambda name: self.turns_per_second[name])


def served_time(load: Load, server: Server, *, env_step: float, env_reset: float, env_places: float) -> ServedTime:
    """All episodes, as many at once as are let in; behind the mean length the longest goes on alone.

    Args:
        env_step, env_reset: seconds of one call, more than 0.
        env_places: calls that all worlds together answer at once, more than 0.
    """
    turn = server.turn_seconds + env_step
    bounds = {"episodes at once": min(load.in_flight, load.episodes) / turn, "worlds": env_places / env_step}
    if server.turn_seconds > 0:
        bounds["requests at once"] = server.in_flight / server.turn_seconds
    if server.requests_per_minute is not None:
        bounds["requests a minute"] = server.requests_per_minute / 60
    if server.tokens_per_minute is not None and load.read + load.sampled > 0:
        bounds["tokens a minute"] = server.tokens_per_minute / 60 / ((load.read + load.sampled) / load.turns)
    resets = load.attempts * env_reset / env_places
    seconds = resets + load.turns / min(bounds.values()) + (load.horizon - load.mean_turns) * turn
    return ServedTime(seconds=seconds, turns_per_second=bounds)
