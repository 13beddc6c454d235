"""What a run, or a probe, measured, put in the place of assumptions. Says of each phase where its time is from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from agentgym_cli.capacity.service import RESET_CALLS, Load, Services
from agentgym_cli.errors import RecipeError

How: TypeAlias = Literal["as measured", "scaled", "left out"]
FEWEST_EPISODES = 20
"""Below, a mean says little and a tail nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What one turn took."""

    policy_seconds: float
    env_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What becomes of one kind of measurement."""

    what: str
    how: How
    differs: tuple[str, ...]
    """Keys of the recipe, or other words for what is not alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What of a run's measurements is of what is planned, by comparison of the two recipes."""

    worlds: bool
    """Times, places and failures of the environment."""
    play: bool
    """Turns and tokens of episodes, and how many succeed."""
    policy: float | None
    """Measured time of a policy's turn over the one that would be assumed of that run; None leaves the policy's times to assumptions."""
    update: float | None
    """The same of a step's update."""
    lines: tuple[Line, ...] = ()

    @property
    def elsewhere(self) -> Use:
        """On other devices: their times are assumed."""
        return replace(self, policy=None, update=None)


ALL = Use(worlds=True, play=True, policy=None, update=None)
"""Of the run itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Distributions of one run's scored training episodes, or of its evaluations where it trained nothing. None: not kept."""

    source: str
    """As it is shown, e.g. ``run NAME``."""
    episodes: int
    turns: tuple[int, ...]
    """Of each episode, at most a few thousand of them."""
    horizon: int
    """The longest horizon that these episodes had."""
    sampled_turns: tuple[Turn, ...]
    """Turns, drawn evenly; empty where they were not kept."""
    prompt_tokens: float | None
    response_tokens: float | None
    observation_tokens: float | None
    failures: float
    """Share of attempts that ended in an infra error."""
    reset_seconds: float | None
    update_seconds: float | None
    """Of one step, mean."""
    success: float | None
    """End-to-end success of these episodes."""
    in_flight: float | None
    """Episodes that were at work at once, mean."""
    env_places: float
    """Calls at once that one replica of that run's worlds is known to answer at these times: those that were there on average, and one more (the
    arrival theorem of closed networks, which takes what was waited for in line as line)."""
    use: Use
    """What of all this is of what is planned."""
    gpu: str | None = None
    """Kind of GPU that it was measured on; None for none, and where nobody knows."""

    def applied_to(self, load: Load) -> Load:
        """A load with this run's turns and tokens: turns beyond the load's horizon are cut there, those cut by a shorter one stay as they are."""
        load = replace(load, failures=self.failures) if self.use.worlds else load
        if not self.use.play:
            return load
        turns = sum(min(count, load.horizon) for count in self.turns) / len(self.turns)
        return replace(
            load,
            mean_turns=max(1.0, turns),
            prompt_tokens=load.prompt_tokens if self.prompt_tokens is None else self.prompt_tokens,
            observation_tokens=load.observation_tokens if self.observation_tokens is None else self.observation_tokens,
            response_tokens=load.response_tokens if not self.response_tokens else self.response_tokens,
        )

    def replaced_in(self, services: Services, load: Load) -> Services:
        """Services with what was measured of the worlds, and with assumed times of the policy and the update multiplied by what was measured of
        them over what would have been assumed of that run."""
        sources: dict[str, str] = {}
        changed = services
        step, reset, _ = self.worlds(services.env_step, services.env_reset)
        if self.use.worlds and self.env_seconds is not None:
            changed, sources["env step"] = replace(changed, env_step=step), self.source
        if self.use.worlds and (self.env_seconds is not None or self.reset_seconds is not None):
            changed, sources["env reset"] = replace(changed, env_reset=reset), self.source
        if self.use.policy is not None:
            scale = self.use.policy
            changed = replace(
                changed,
                prefill_token=changed.prefill_token * scale,
                decode_fixed=changed.decode_fixed * scale,
                decode_row=changed.decode_row * scale,
            )
            sources |= {"prefill": self.source, "decode": self.source}
        # A run that trains nothing has no update to put a time in the place of.
        if self.use.update is not None and changed.update > 0:
            changed, sources["update"] = replace(changed, update=changed.update * self.use.update), self.source
        return replace(changed, sources={**changed.sources, **sources})

    def worlds(self, step: float, reset: float) -> tuple[float, float, float]:
        """Seconds of a call and of a reset in place of those that are assumed, and calls at once that one replica answers; a reset that was not
        measured is as long as two calls."""
        if not self.use.worlds:
            return step, reset, 1.0
        found = self.env_seconds
        measured = self.reset_seconds if self.reset_seconds is not None or found is None else RESET_CALLS * found
        return found or step, reset if measured is None else measured, self.env_places

    @property
    def policy_seconds(self) -> float | None:
        """Of one turn, mean; None where turns were not kept."""
        return _mean([turn.policy_seconds for turn in self.sampled_turns])

    @property
    def env_seconds(self) -> float | None:
        """Of one turn, mean; None where turns were not kept."""
        return _mean([turn.env_seconds for turn in self.sampled_turns])


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """What a probe measured of the worlds; everything else stays assumed."""

    source: str
    """As it is shown, e.g. ``probe FILE``."""
    env_seconds: float
    """Of one call with one session, more than 0."""
    env_places: float
    """Calls at once that one replica answers at this time, 1 or more."""

    def applied_to(self, load: Load) -> Load:
        """The same load: a probe plays nothing."""
        return load

    def worlds(self, step: float, reset: float) -> tuple[float, float, float]:
        """As it is of ``Measured``: nothing is left as it was assumed."""
        return self.env_seconds, RESET_CALLS * self.env_seconds, self.env_places

    def replaced_in(self, services: Services, load: Load) -> Services:
        """Services with the world's time; a reset is taken as two calls, as it is where nobody measured one."""
        taken = {"env step": self.source, "env reset": self.source}
        return replace(services, env_step=self.env_seconds, env_reset=RESET_CALLS * self.env_seconds, sources={**services.sources, **taken})


Evidence = Measured | Probed


def require_enough(measured: Measured) -> Measured:
    """The same, where there are episodes enough. Raises RecipeError that says how many there are."""
    if measured.episodes < FEWEST_EPISODES or not measured.turns:
        raise RecipeError(
            f"--from {measured.source}: expected at least {FEWEST_EPISODES} scored episodes, got {measured.episodes}",
            "name a longer run, or leave --from out: times are then assumed",
        )
    return measured


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
