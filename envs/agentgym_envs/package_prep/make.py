"""Writes the task list: ``python -m agentgym_envs.package_prep.make CHECKOUT``."""

from __future__ import annotations

import csv
import io
import sys
from hashlib import sha256
from pathlib import Path

from agentgym_envs.package_prep.orders import TASK_COUNT, order_of
from agentgym_envs.package_prep.world import PackagePrep

MANIFEST = "recipes/tasks/package_prep.csv"
_TRAINED = 96
"""Tasks from here on are the split ``test``; either split has every kind of order equally often."""


def manifest() -> str:
    """CSV with columns index, split, category, goal, digest; a digest is of the first observation, as of every task list."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("index", "split", "category", "goal", "digest"))
    session = PackagePrep().open()
    for index in range(TASK_COUNT):
        digest = sha256(session.reset(index).observation.encode()).hexdigest()[:16]
        order = order_of(index)
        writer.writerow((index, "train" if index < _TRAINED else "test", " and ".join(order.things), order.goal, digest))
    return out.getvalue()


if __name__ == "__main__":
    (Path(sys.argv[1]) / MANIFEST).write_text(manifest(), encoding="utf-8")
