"""What the kill drill kills: an evaluation of some hundred episodes, and a training run of a few seconds that learns at every step."""

from __future__ import annotations

from tests.drill.kills import Drilled, Point
from tests.e2e.commands import RECIPE, TINY

_EVERYWHERE = (
    Point(name="behind a commit", most=3),
    Point(name="before a commit", most=3),
    Point(name="inside a load", most=4, seconds=0.06),
    Point(name="before a sync", most=3),
)
EVALUATION = Drilled(
    verb="eval",
    words=("recipes/package_prep.yaml", "evaluation.samples_per_task=12", "engine.slots=16"),
    points=(
        *_EVERYWHERE,
        Point(name="before a line", most=80),
        Point(name="inside a line", most=80),
        Point(name="behind a line", most=80),
        Point(name="clock", most=1, seconds=1.0),
    ),
)
SMALLER = (
    "evaluation.limit=2",
    "evaluation.horizon=3",
    "horizon.turns=[2,3]",
    "horizon.steps=[1]",
    "budgets.response_tokens=6",
    "warm_start.demonstrations=8",
    "train.algorithm.entropy_coefficient=0.1",
)
"""A few seconds in all; the bonus on entropy gives every step a gradient where no episode succeeds."""
TRAINING = Drilled(
    verb="train",
    words=(RECIPE, *(word for word in TINY if not word.startswith(("evaluation.limit", "warm_start.demonstrations="))), *SMALLER),
    points=(
        *_EVERYWHERE,
        Point(name="behind a rename", most=4),
        Point(name="before a rename", most=4),
        Point(name="behind a sync", most=6),
        Point(name="before a line", most=90),
        Point(name="inside a line", most=90),
        Point(name="behind a line", most=90),
        Point(name="clock", most=1, seconds=4.0),
    ),
)
