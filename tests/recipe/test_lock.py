"""Lock files are read strictly and compared with what is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym_cli.errors import LockError, RecipeError
from agentgym_cli.recipe.lock import (
    Lock,
    OtherVersion,
    compare,
    enforce,
    find_lock,
    installed_version,
    lock_command,
    missing_packages,
    of_torch,
    read_lock,
    require_engine,
    stacks,
)

HASH = "sha256:" + "0" * 64
TEXT = f"""\
# Stack toy: how to use it
# torch==2.13.0

Alpha_One==1.2.3 \\
    --hash={HASH} \\
    --hash={HASH}
beta==2.0.post1 --hash={HASH}
"""
LOCK = Lock(stack="toy", torch="2.13.0", pins={"alpha-one": "1.2.3", "beta": "2.0.post1"})


def lock_file(folder: Path, text: str) -> Path:
    path = folder / "toy.txt"
    path.write_text(text)
    return path


def test_pins_and_the_version_of_torch_are_read(tmp_path: Path) -> None:
    assert read_lock(lock_file(tmp_path, TEXT)) == LOCK
    assert read_lock(lock_file(tmp_path, TEXT.replace("\n", "\r\n"))) == LOCK


@pytest.mark.parametrize(
    ("line", "got"),
    [
        ("--pre", "'--pre'"),
        ("gamma==1", "'gamma==1'"),
        (f"gamma>=1 --hash={HASH}", f"'gamma>=1 --hash={HASH}'"),
        (f"gamma==1.* --hash={HASH}", f"'gamma==1.* --hash={HASH}'"),
        (f"gamma==1 ; python_version > '3' --hash={HASH}", '"gamma==1 ; python_version'),
        ("gamma @ file:///gamma.whl", "'gamma @ file:///gamma.whl'"),
        ("gamma==1 --hash=md5:00", "'gamma==1 --hash=md5:00'"),
        ("gamma==1 \\", "'gamma==1'"),
    ],
)
def test_promise_08_any_other_line_of_a_lock_is_refused(tmp_path: Path, line: str, got: str) -> None:
    path = lock_file(tmp_path, TEXT + line + "\n")
    with pytest.raises(RecipeError) as caught:
        read_lock(path)
    assert str(caught.value).startswith(f"{path}:8: expected name==version --hash=sha256:..., got {got}"[: len(str(path)) + 90])


def test_a_package_that_is_locked_twice_is_refused(tmp_path: Path) -> None:
    path = lock_file(tmp_path, f"{TEXT}alpha.one==1.2.3 --hash={HASH}\n")
    with pytest.raises(RecipeError, match=r"toy\.txt:8: expected each package once, got alpha-one again"):
        read_lock(path)


def test_nothing_drifts_where_everything_is_as_locked() -> None:
    drift = compare(LOCK, installed={"alpha-one": "1.2.3", "beta": "2.0.post1", "torch": "2.13.0+cpu"}.get)
    assert not drift
    assert (drift.sentence(), drift.torch_build) == ("", "2.13.0+cpu")
    assert enforce(drift, "error") is None


def test_drift_names_what_is_missing_and_what_is_another_version() -> None:
    drift = compare(LOCK, installed={"alpha-one": "1.2.4", "torch": "2.12.1+cu130"}.get)
    assert drift.missing == ("beta",)
    assert drift.different == (
        OtherVersion(name="torch", locked="2.13.0", installed="2.12.1+cu130"),
        OtherVersion(name="alpha-one", locked="1.2.3", installed="1.2.4"),
    )
    sentence = "lockfiles/toy.txt: expected the locked versions, got torch 2.12.1+cu130 (locked 2.13.0), alpha-one 1.2.4 (locked 1.2.3), no beta"
    assert enforce(drift, "warn") == sentence
    with pytest.raises(LockError) as caught:
        enforce(drift, "error")
    assert str(caught.value) == sentence
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("pip install torch==2.13.0 && pip install --no-deps --require-hashes -r ")
    assert caught.value.hint.endswith("toy.txt")


def test_torch_that_is_not_installed_has_drifted() -> None:
    assert compare(LOCK, installed={"alpha-one": "1.2.3", "beta": "2.0.post1"}.get).missing == ("torch",)
    without = Lock(stack="toy", torch=None, pins=dict(LOCK.pins))
    assert not compare(without, installed={"alpha-one": "1.2.3", "beta": "2.0.post1"}.get)


def test_what_is_built_for_one_torch_is_read_compared_and_installed_with_it(tmp_path: Path) -> None:
    path = lock_file(tmp_path, "# torch==2.11.0\n# torchvision==0.26.0\n# torchaudio==2.11.0\n# triton==3.6.0\n" + f"beta==2.0 --hash={HASH}\n")
    lock = read_lock(path)
    assert (lock.torch, dict(lock.beside_torch), dict(lock.pins)) == ("2.11.0", {"torchvision": "0.26.0", "torchaudio": "2.11.0"}, {"beta": "2.0"})
    assert not compare(lock, installed={"torch": "2.11.0+cu130", "torchvision": "0.26.0+cu130", "torchaudio": "2.11.0", "beta": "2.0"}.get)
    drift = compare(lock, installed={"torch": "2.11.0", "torchvision": "0.25.0+cu130", "beta": "2.0"}.get)
    assert drift.missing == ("torchaudio",)
    assert drift.different == (OtherVersion(name="torchvision", locked="0.26.0", installed="0.25.0+cu130"),)
    command = lock_command("toy", drift.torch, drift.beside_torch)
    assert command.startswith("pip install torch==2.11.0 torchvision==0.26.0 torchaudio==2.11.0 && pip install --no-deps ")


def test_a_build_tag_counts_where_the_lock_pins_the_package() -> None:
    lock = Lock(stack="toy", torch=None, pins={"beta": "2.0"})
    assert compare(lock, installed={"beta": "2.0+cu130"}.get).different == (OtherVersion(name="beta", locked="2.0", installed="2.0+cu130"),)


@pytest.mark.parametrize(
    ("name", "belongs"),
    [
        ("torch", True),
        ("triton", True),
        ("nvidia-cudnn-cu13", True),
        ("cuda-bindings", True),
        ("torchdata", False),
        ("nvidia", False),
        ("cudapy", False),
    ],
)
def test_packages_of_torch_and_its_vendors_are_known_by_name(name: str, belongs: bool) -> None:
    assert of_torch(name) is belongs


def test_an_engine_without_its_packages_is_an_error_that_says_how_to_install_them() -> None:
    with pytest.raises(LockError) as caught:
        require_engine("local", installed={"transformers": "5.24.0"}.get)
    assert str(caught.value) == "engine local: expected torch, transformers, safetensors to be installed, got no torch, safetensors"
    assert caught.value.hint == "pip install 'agentgym-cli[local]'"
    require_engine("local", installed={"torch": "1", "transformers": "1", "safetensors": "1"}.get)
    assert missing_packages("verl", installed={"torch": "1"}.get) == ("verl",)


def test_versions_come_from_the_running_interpreter() -> None:
    assert installed_version("PyYAML") == installed_version("pyyaml")
    assert installed_version("no-such-distribution-here") is None


def test_an_unknown_stack_names_the_nearest() -> None:
    with pytest.raises(RecipeError) as caught:
        find_lock("cpuu")
    assert str(caught.value).startswith("engine.stack: expected one of the stacks cpu")
    assert caught.value.hint == "did you mean cpu?"


def test_stacks_are_the_shipped_locks() -> None:
    assert stacks() == ["cpu", "dev", "envs", "verl-cpu", "verl-cuda"]
    assert [find_lock(stack).name for stack in stacks()] == [f"{stack}.txt" for stack in stacks()]
