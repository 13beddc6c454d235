"""verl asks for a platform when it is imported; these tests have a CPU. The files that take longest are first, so that two processes end together."""

from __future__ import annotations

import os

import pytest

os.environ.update(
    VERL_PLATFORM="cpu",
    VERL_USE_EXTERNAL_MODULES="agentgym_cli.learn.verl.plugin,agentgym_cli.learn.verl.platform_cpu",
    VERL_USE_EXTERNAL_PLUGINS="none",
    TORCHDYNAMO_DISABLE="1",
)
LONGEST_FIRST = ("test_world_dies", "test_rehearsal", "test_sft", "test_async", "test_two_ranks", "test_served")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order files by how long they take; inside a file nothing changes."""
    places = {name: place for place, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: places.get(item.path.stem, len(places)))
