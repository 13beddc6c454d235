"""The limits hold for the house, and the checker sees each way to break them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.habits.limits import sources, violations

HOUSE = Path(__file__).resolve().parents[2]
DOC = '"""Owns something."""\n'


def house_with(root: Path, name: str, text: str) -> list[str]:
    """What the checker says of a house whose only file is ``name``."""
    path = root / name
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    return violations(root)


def function_of(lines: int) -> str:
    return "def f() -> None:\n" + "    ...\n" * (lines - 1)


def test_the_house_keeps_its_limits() -> None:
    assert violations(HOUSE) == []


def test_the_checker_reads_every_room() -> None:
    read = {path.relative_to(HOUSE).parts[0] for path in sources(HOUSE)}
    assert {"agentgym_cli", "envs", "tests", "noxfile.py"} <= read


def test_a_function_of_60_lines_passes_and_one_of_61_does_not(tmp_path: Path) -> None:
    assert house_with(tmp_path / "a", "agentgym_cli/x.py", DOC + function_of(60)) == []
    assert house_with(tmp_path / "b", "agentgym_cli/x.py", DOC + function_of(61)) == ["agentgym_cli/x.py:2: f has 61 lines, more than 60"]


def test_a_long_async_method_is_seen(tmp_path: Path) -> None:
    body = "class A:\n    async def f(self) -> None:\n" + "        ...\n" * 60
    assert house_with(tmp_path, "envs/x.py", DOC + body) == ["envs/x.py:3: f has 61 lines, more than 60"]


def test_a_file_of_500_lines_passes_and_one_of_501_does_not(tmp_path: Path) -> None:
    assert house_with(tmp_path / "a", "tests/x.py", DOC + "\n" * 499) == []
    assert house_with(tmp_path / "b", "tests/x.py", DOC + "\n" * 500) == ["tests/x.py:501: 501 lines, more than 500"]


@pytest.mark.parametrize("name", ["utils.py", "common.py", "helpers.py", "base_policy.py"])
def test_a_file_without_a_name_of_its_own_is_refused(tmp_path: Path, name: str) -> None:
    assert house_with(tmp_path, f"agentgym_cli/env/{name}", DOC) == [f"agentgym_cli/env/{name}:1: {name} is not a name: call it after what it owns"]


def test_a_file_called_base_is_a_name(tmp_path: Path) -> None:
    assert house_with(tmp_path, "agentgym_cli/recipe/schema/base.py", DOC) == []


@pytest.mark.parametrize(
    ("handler", "claim"),
    [
        ("except:", "catches everything"),
        ("except Exception:", "catches Exception"),
        ("except Exception as error:", "catches Exception"),
        ("except (ValueError, Exception):", "catches Exception"),
        ("except BaseException:", "catches BaseException"),
    ],
)
def test_a_broad_except_is_seen(tmp_path: Path, handler: str, claim: str) -> None:
    text = DOC + f"try:\n    ...\n{handler}\n    ...\n"
    assert house_with(tmp_path, "agentgym_cli/store/x.py", text) == [f"agentgym_cli/store/x.py:4: {claim}"]


def test_raising_again_excuses_base_exception_only(tmp_path: Path) -> None:
    text = DOC + "try:\n    ...\nexcept {}:\n    raise\n"
    assert house_with(tmp_path / "a", "agentgym_cli/x.py", text.format("BaseException")) == []
    assert house_with(tmp_path / "b", "agentgym_cli/x.py", text.format("Exception")) == ["agentgym_cli/x.py:4: catches Exception"]
    swallows = text.replace("    raise", "    raise ValueError from None")
    assert house_with(tmp_path / "c", "agentgym_cli/x.py", swallows.format("BaseException")) == ["agentgym_cli/x.py:4: catches BaseException"]


def test_suppressing_every_exception_is_seen(tmp_path: Path) -> None:
    text = DOC + "with contextlib.suppress(OSError, Exception):\n    ...\n"
    assert house_with(tmp_path, "envs/x.py", text) == ["envs/x.py:2: suppresses Exception"]


@pytest.mark.parametrize("name", ["agentgym_cli/episode/loop.py", "agentgym_cli/env/probe.py", "agentgym_cli/cli/main.py"])
def test_a_broad_except_is_allowed_in_three_places(tmp_path: Path, name: str) -> None:
    assert house_with(tmp_path, name, DOC + "try:\n    ...\nexcept Exception:\n    ...\n") == []


def test_a_narrow_except_passes(tmp_path: Path) -> None:
    assert house_with(tmp_path, "envs/x.py", DOC + "try:\n    ...\nexcept (OSError, ValueError):\n    ...\n") == []


def test_a_package_file_must_be_empty(tmp_path: Path) -> None:
    assert house_with(tmp_path / "a", "envs/__init__.py", "") == []
    assert house_with(tmp_path / "b", "envs/__init__.py", DOC) == ["envs/__init__.py:1: __init__.py is not empty"]


def test_a_module_says_what_it_owns_in_five_lines(tmp_path: Path) -> None:
    assert house_with(tmp_path / "a", "docs/x.py", "import os\n") == ["docs/x.py:1: no module docstring"]
    assert house_with(tmp_path / "b", "docs/x.py", '"""' + "a\n" * 5 + '"""\n') == []
    assert house_with(tmp_path / "c", "docs/x.py", '"""' + "a\n" * 6 + '"""\n') == ["docs/x.py:1: a module docstring of 6 lines, more than 5"]


@pytest.mark.parametrize("name", ["agentgym_cli/learn/x.py", "benchmarks/x.py"])
def test_a_formula_or_a_measurement_has_15_lines(tmp_path: Path, name: str) -> None:
    assert house_with(tmp_path / "a", name, '"""' + "a\n" * 15 + '"""\n') == []
    assert house_with(tmp_path / "b", name, '"""' + "a\n" * 16 + '"""\n') == [f"{name}:1: a module docstring of 16 lines, more than 15"]
