"""A world's table of differences names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
OF_OUR_OWN = {"package_prep"}
"""Worlds without an upstream to differ from."""
READMES = sorted((HERE.parents[1] / "envs/agentgym_envs").glob("*/README.md"))
TESTS = set(re.findall(r"^(?:async )?def (test_\w+)", "\n".join(path.read_text(encoding="utf-8") for path in HERE.glob("test_*.py")), re.MULTILINE))


@pytest.mark.parametrize("readme", [path for path in READMES if path.parent.name not in OF_OUR_OWN], ids=lambda path: path.parent.name)
def test_every_difference_in_a_worlds_readme_names_tests_that_exist(readme: Path) -> None:
    rows = readme.read_text(encoding="utf-8").partition("## Differences")[2].partition("\n\n| ")[2].partition("\n\n")[0].split("\n")[2:]
    assert len(rows) >= 10
    for row in rows:
        named = re.findall(r"`(test_\w+)`", row.rsplit("|", 2)[1])
        assert named and set(named) <= TESTS, row


def test_every_mended_fault_that_is_tested_stands_in_a_worlds_readme() -> None:
    written = "\n".join(readme.read_text(encoding="utf-8") for readme in READMES)
    mended = {name for name in TESTS if name.startswith("test_mended_")}
    assert {name for name in mended if f"`{name}`" not in written} == set()
