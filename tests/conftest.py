"""Where torch is not installed, a test file marked ``torch`` is left out: its imports could not be satisfied."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

_TORCH = find_spec("torch") is not None


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out files that say ``pytestmark = pytest.mark.torch`` (alone or in a list) where there is no torch."""
    if _TORCH or collection_path.suffix != ".py":
        return None
    marked = any(line.startswith("pytestmark") and "mark.torch" in line for line in collection_path.read_text().splitlines())
    return True if marked else None
