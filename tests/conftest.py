"""Where packages are not installed, test files marked as needing them are left out: their imports could not be satisfied."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

_PACKAGES = {"torch": ("torch",), "verl": ("verl",), "worlds": ("minigrid", "scienceworld", "tantivy")}
_MISSING = [f"mark.{marker}" for marker, packages in _PACKAGES.items() if not all(find_spec(package) for package in packages)]


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out files that say ``pytestmark = pytest.mark.torch`` (alone or in a list) where there is no torch; so for every marker above."""
    if not _MISSING or collection_path.suffix != ".py":
        return None
    lines = [line for line in collection_path.read_text().splitlines() if line.startswith("pytestmark")]
    return True if any(marker in line for line in lines for marker in _MISSING) else None
