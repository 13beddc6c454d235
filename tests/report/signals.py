"""What a diagnosis looks at, healthy unless a test says otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from agentgym_cli.report.signals import Signals
from agentgym_cli.store.diagnosis_rows import AgeRow, CutRow, GapRow, LoopRow, VerdictRow
from agentgym_cli.store.rows import CountsRow
from agentgym_cli.store.task_rows import LatencyRow, SpendingRow

STEPS = 12


def flat(value: float, steps: int = STEPS) -> list[tuple[int, float]]:
    """The same value at every step."""
    return [(step, value) for step in range(1, steps + 1)]


def bent(first: float, last: float) -> list[tuple[int, float]]:
    """One value in the first half of the steps, another in the second."""
    return [(step, first if step <= STEPS // 2 else last) for step in range(1, STEPS + 1)]


def make_counts(phase: str = "train", *, turns: int = 1000, invalid: int = 10) -> CountsRow:
    numbers = dict.fromkeys(CountsRow.__dataclass_fields__, 0)
    given = {"phase": phase, "split": "train", "step": None, "category": "", "turns": turns, "invalid_actions": invalid, "most_samples": 1}
    return CountsRow(**(numbers | given))  # type: ignore[arg-type]


def make_gap(seconds: float = 2.0, **changes: object) -> GapRow:
    row = GapRow(
        segment=1,
        seconds=seconds,
        typical=1.0,
        before_phase="train",
        before_step=3,
        phase="train",
        step=3,
        attempt_seconds=0.5,
        policy_seconds=0.4,
        env_seconds=0.1,
        episode="train/train/3/textcraft_1/0",
    )
    return replace(row, **changes)  # type: ignore[arg-type]


def make_verdicts(rewards: Callable[[int], float], passes: Callable[[int], int]) -> list[VerdictRow]:
    """Ten verified episodes a step: mean reward and passes by step."""
    return [
        VerdictRow(step=step, rewards=10, reward_sum=10 * rewards(step), scored=10, success=passes(step), by_verifier=10)
        for step in range(1, STEPS + 1)
    ]


def make_latency(env_p95: float = 0.1) -> LatencyRow:
    return LatencyRow(
        phase="train", split=None, step=None, turns=100, tokens_read=None, policy_p50=0.1, policy_p95=0.2, env_p50=0.01, env_p95=env_p95
    )


def make_spending(seconds: float | None = 100.0, env_seconds: float | None = 10.0) -> SpendingRow:
    return SpendingRow(
        attempts=100,
        infra_error=0,
        turns=1000,
        tokens_read=None,
        tokens_sampled=None,
        attempt_seconds=seconds,
        policy_seconds=None,
        env_seconds=env_seconds,
        run_seconds=None,
    )


def healthy(**changes: object) -> Signals:
    """A run in which no rule finds anything and every rule has data."""
    signals = Signals(
        metrics={
            "groups_planned": flat(10.0),
            "groups_zero_variance": flat(2.0),
            "groups_dropped": flat(0.0),
            "entropy": flat(1.0),
            "approx_kl": flat(0.01),
            "clip_fraction": flat(0.05),
            "gradient_norm": flat(0.5),
            "logp_difference_max": flat(1e-5),
        },
        counts=[make_counts()],
        cuts=[CutRow(phase="train", horizon=8, scheduled=100, truncated=10)],
        verdicts=make_verdicts(lambda step: 0.5, lambda step: 5),
        ages=[AgeRow(age=0, tokens=1000)],
        loops=LoopRow(attempts=100, looping=1, example="train/train/1/textcraft_1/0"),
        gaps=[make_gap()],
        latencies=[make_latency()],
        spending=make_spending(),
    )
    return replace(signals, **changes)  # type: ignore[arg-type]


def silent() -> Signals:
    """A run that kept nothing to judge."""
    return Signals(
        metrics={},
        counts=[],
        cuts=[],
        verdicts=[],
        ages=[],
        loops=LoopRow(attempts=0, looping=0, example=None),
        gaps=[],
        latencies=[],
        spending=make_spending(None, None),
    )
