"""Wall time, GPU-hours, tokens and cost of a schedule, stage by stage and in all, and of one success at given rates of success."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What is paid for, in one currency; None where nobody said."""

    gpu_hour: float | None = None
    million_read: float | None = None
    million_sampled: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What one stage of the horizon takes, or an evaluation."""

    name: str
    first_step: int
    last_step: int
    horizon: int
    seconds: float
    """On the clock."""
    gpu_hours: float
    episodes: int
    tokens_read: float
    """Context at each call, cached or not."""
    tokens_sampled: float
    cost: float | None
    """None where nothing has a price."""

    @property
    def steps(self) -> int:
        """Optimizer steps; 1 for an evaluation."""
        return self.last_step - self.first_step + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PerSuccess:
    """What one success takes where episodes succeed at a rate."""

    rate: float
    seconds: float
    gpu_hours: float
    tokens_sampled: float
    cost: float | None


def cost_of(gpu_hours: float, read: float, sampled: float, prices: Prices) -> float | None:
    """In the prices' currency: devices by the hour and tokens by the million; None where nothing has a price."""
    known = [
        amount * price
        for amount, price in ((gpu_hours, prices.gpu_hour), (read / 1e6, prices.million_read), (sampled / 1e6, prices.million_sampled))
        if price is not None
    ]
    return sum(known) if known else None


def in_all(stages: Sequence[Stage]) -> Stage:
    """Everything together. Raises ValueError without a stage."""
    if not stages:
        raise ValueError("stages: expected at least one")
    costs = [stage.cost for stage in stages]
    return Stage(
        name="all",
        first_step=min(stage.first_step for stage in stages),
        last_step=max(stage.last_step for stage in stages),
        horizon=max(stage.horizon for stage in stages),
        seconds=sum(stage.seconds for stage in stages),
        gpu_hours=sum(stage.gpu_hours for stage in stages),
        episodes=sum(stage.episodes for stage in stages),
        tokens_read=sum(stage.tokens_read for stage in stages),
        tokens_sampled=sum(stage.tokens_sampled for stage in stages),
        cost=None if any(cost is None for cost in costs) else sum(cost for cost in costs if cost is not None),
    )


def per_success(total: Stage, rates: Sequence[float]) -> tuple[PerSuccess, ...]:
    """Everything spent over the successes among its episodes; rates that are not above 0 give no row."""
    found = []
    for rate in rates:
        successes = total.episodes * rate
        if successes <= 0:
            continue
        found.append(
            PerSuccess(
                rate=rate,
                seconds=total.seconds / successes,
                gpu_hours=total.gpu_hours / successes,
                tokens_sampled=total.tokens_sampled / successes,
                cost=None if total.cost is None else total.cost / successes,
            )
        )
    return tuple(found)
