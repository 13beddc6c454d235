"""A check of a lock tells drift from information, says how to undo it, and prints it so that nothing in it can do harm."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from agentgym_cli.cli.show_lock import show_lock
from agentgym_cli.errors import ExitCode, LockError, RecipeError
from agentgym_cli.recipe.installed import Altered
from agentgym_cli.recipe.lock import Lock, OtherVersion
from agentgym_cli.verbs.lock import LockCheck, check_against, check_lock, lock_failure
from agentgym_cli.verbs.progress import Cell, Silent
from tests.recipe.packages import finder, install

LOCK = Lock(stack="toy", torch="2.13.0", pins={"alpha": "1.0", "beta": "2.0"})


class Told(Silent):
    """Progress that keeps what it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def begin(self, phase: str, total: int, unit: str, done: int = 0, at_once: int = 1) -> None:
        """Keep it."""
        self.lines.append(f"{phase} of {total} {unit}")

    def advance(self, done: int, cells: Mapping[str, Cell]) -> None:
        """Keep it."""
        self.lines.append(f"{done} {dict(cells)}")


def ticking(*readings: float) -> Callable[[], float]:
    left: Iterator[float] = iter(readings)
    return lambda: next(left)


def as_locked(site: Path) -> Path:
    install(site, "alpha", "1.0")
    install(site, "beta", "2.0")
    install(site, "torch", "2.13.0+cpu")
    return site


def check(site: Path) -> LockCheck:
    return check_against(LOCK, progress=Silent(), find=finder(site))


def test_an_environment_as_locked_is_clean(tmp_path: Path) -> None:
    found = check(as_locked(tmp_path))
    assert found.clean
    assert (found.locked, found.files, found.altered, dict(found.extra), found.ours) == (3, 2, (), {}, None)
    assert (found.drift.torch, found.drift.torch_build) == ("2.13.0", "2.13.0+cpu")


def test_packages_beyond_the_lock_are_information_and_those_of_torch_are_not_even_that(tmp_path: Path) -> None:
    install(as_locked(tmp_path), "gamma", "0.1")
    for name in ("nvidia-cublas", "triton", "cuda-bindings"):
        install(tmp_path, name, "13.0")
    install(tmp_path, "agentgym-cli", "0.1.0")
    found = check(tmp_path)
    assert found.clean
    assert (dict(found.extra), found.ours) == ({"gamma": "0.1"}, ("0.1.0", "wheel"))


def test_files_of_torch_and_of_packages_beyond_the_lock_are_not_looked_at(tmp_path: Path) -> None:
    install(as_locked(tmp_path), "gamma", "0.1")
    (tmp_path / "gamma/__init__.py").unlink()
    (tmp_path / "torch/__init__.py").unlink()
    assert check(tmp_path).clean


def test_missing_packages_other_versions_and_altered_files_are_drift(tmp_path: Path) -> None:
    install(tmp_path, "alpha", "1.1", {"alpha/a.py": b"a", "alpha/b.py": b"b"})
    install(tmp_path, "torch", "2.12.0")
    (tmp_path / "alpha/b.py").unlink()
    found = check(tmp_path)
    assert not found.clean
    assert found.drift.missing == ("beta",)
    assert found.drift.different == (
        OtherVersion(name="torch", locked="2.13.0", installed="2.12.0"),
        OtherVersion(name="alpha", locked="1.0", installed="1.1"),
    )
    assert found.altered == (Altered(package="alpha", file="alpha/b.py", problem="missing"),)


def test_the_failure_counts_what_drifted_and_says_what_undoes_it(tmp_path: Path) -> None:
    install(tmp_path, "alpha", "1.1")
    install(tmp_path, "torch", "2.13.0")
    failure = lock_failure(check(tmp_path))
    assert str(failure) == "lockfiles/toy.txt: expected 3 packages as locked, got 1 missing, 1 in another version"
    assert failure.hint is not None
    assert failure.hint.startswith("pip install torch==2.13.0 && pip install --no-deps --require-hashes -r ")
    assert failure.hint.endswith("toy.txt")
    assert failure.exit_code is ExitCode.LOCK


def test_altered_files_need_an_installation_that_pip_does_not_skip(tmp_path: Path) -> None:
    install(as_locked(tmp_path), "gamma", "1.0")
    (tmp_path / "alpha/__init__.py").write_bytes(b"")
    failure = lock_failure(check(tmp_path))
    assert str(failure).endswith("got 1 with altered files")
    assert failure.hint is not None
    assert failure.hint.endswith("toy.txt --force-reinstall")


def test_a_quick_check_tells_nothing_of_its_progress_and_a_slow_one_does(tmp_path: Path) -> None:
    quick, slow = Told(), Told()
    check_against(LOCK, progress=quick, find=finder(as_locked(tmp_path)), clock=ticking(0.0, 1.0, 2.0))
    check_against(LOCK, progress=slow, find=finder(tmp_path), clock=ticking(0.0, 1.9, 2.1))
    assert quick.lines == []
    assert slow.lines == ["lock check of 2 package", "2 {'files': 2}"]


def test_an_unknown_stack_is_a_recipe_error_that_names_the_nearest() -> None:
    with pytest.raises(RecipeError) as caught:
        check_lock("verl-cud", progress=Silent())
    assert str(caught.value) == "lock check: expected one of the stacks cpu, dev, envs, verl-cpu, verl-cuda, got 'verl-cud'"
    assert (caught.value.hint, caught.value.exit_code) == ("did you mean verl-cuda?", ExitCode.RECIPE)


@pytest.mark.parametrize("stack", ["../lockfiles/cpu", "cpu.txt", "", "models", "cpu\0"])
def test_promise_11_a_stack_is_a_name_and_never_a_path(stack: str) -> None:
    with pytest.raises(RecipeError, match="lock check: expected one of the stacks"):
        check_lock(stack, progress=Silent())


def test_json_has_everything_and_drift_ends_with_exit_code_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install(tmp_path, "alpha", "1.1")
    install(tmp_path, "gamma", "0.1")
    (tmp_path / "alpha/__init__.py").unlink()
    with pytest.raises(LockError):
        show_lock(check(tmp_path), as_json=True)
    assert json.loads(capsys.readouterr().out) == {
        "stack": "toy",
        "clean": False,
        "locked": 3,
        "files": 1,
        "torch": {"locked": "2.13.0", "installed": None},
        "agentgym": None,
        "missing": ["torch", "beta"],
        "different": [{"name": "alpha", "locked": "1.0", "installed": "1.1"}],
        "altered": [{"name": "alpha", "file": "alpha/__init__.py", "problem": "missing"}],
        "extra": {"gamma": "0.1"},
    }


def test_a_clean_check_prints_no_drift_and_fails_nowhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show_lock(check(as_locked(tmp_path)), as_json=False)
    assert capsys.readouterr().out.splitlines() == [
        "stack         toy: 3 packages locked, 2 files checked",
        "torch         2.13.0 locked, 2.13.0+cpu installed",
        "agentgym-cli  not installed",
        "no drift",
    ]


def test_promise_11_names_of_files_are_shown_harmless_bounded_and_within_80_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hostile = ["\x1b[2Jclear", "[bold red]markup[/]", "[/]", "\N{RIGHT-TO-LEFT OVERRIDE}reversed", "a" * 3000]
    names = [f"alpha/{name}" for name in (*hostile, *(f"{number}.py" for number in range(100)))]
    install(as_locked(tmp_path), "delta", "1.0", {}, record="".join(f'"{name}",sha256=AA,1\n' for name in names))
    lock = Lock(stack="toy", torch=None, pins={"delta": "1.0"})
    found = check_against(lock, progress=Silent(), find=finder(tmp_path))
    with pytest.raises(LockError):
        show_lock(found, as_json=False)
    out = capsys.readouterr().out
    assert not re.search(r"[\x00-\x09\x0b-\x1f\u202e]", out)
    assert "[bold red]markup[/]" in out.replace("\n", "")
    assert max(map(len, out.splitlines())) <= 80
    assert [line.split()[:4] for line in out.splitlines() if "more" in line] == [["file", "and", "85", "more"]]
    assert len(out.splitlines()) < 40
