"""Checkpoints are whole or absent, belong to one run, and lose nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from agentgym_cli.errors import PolicyError, TrainerError
from agentgym_cli.learn import checkpoint
from agentgym_cli.learn.checkpoint import OPTIMIZER, STATE, load_checkpoint, save_checkpoint
from agentgym_cli.learn.model import WEIGHTS

pytestmark = pytest.mark.torch


def make_model(seed: int, *, hidden: int = 16) -> Qwen2ForCausalLM:
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=11,
        hidden_size=hidden,
        intermediate_size=24,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=32,
        tie_word_embeddings=True,
    )
    return Qwen2ForCausalLM(config).eval()


def make_optimizer(model: Qwen2ForCausalLM) -> torch.optim.AdamW:
    return torch.optim.AdamW(model.parameters(), lr=1e-2)


def learn(model: Qwen2ForCausalLM, optimizer: torch.optim.Optimizer, steps: int) -> None:
    for _ in range(steps):
        ids = torch.randint(0, 11, (2, 7))
        optimizer.zero_grad()
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()


def test_promise_10_training_resumed_from_a_checkpoint_equals_the_uninterrupted_one_bit_for_bit(tmp_path):
    model = make_model(1)
    optimizer = make_optimizer(model)
    torch.manual_seed(5)
    learn(model, optimizer, 2)
    save_checkpoint(tmp_path / "step-000002", model=model, optimizer=optimizer, step=2, digest="d")
    learn(model, optimizer, 3)

    resumed = make_model(9)
    other = make_optimizer(resumed)
    torch.manual_seed(77)
    assert load_checkpoint(tmp_path / "step-000002", model=resumed, optimizer=other, digest="d") == 2
    learn(resumed, other, 3)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, resumed.state_dict()[name]), name


def test_a_kill_before_the_rename_leaves_the_old_checkpoint_and_no_half_of_the_new(tmp_path, monkeypatch):
    folder = tmp_path / "step-000001"
    model = make_model(1)
    before = save_checkpoint(folder, model=model, optimizer=make_optimizer(model), step=1, digest="d")

    class Killed(BaseException):
        pass

    def killed(aside: Path, target: Path) -> None:
        raise Killed

    monkeypatch.setattr(checkpoint, "_put_in_place", killed)
    other = make_model(2)
    with pytest.raises(Killed):
        save_checkpoint(folder, model=other, optimizer=make_optimizer(other), step=1, digest="d")
    with pytest.raises(Killed):
        save_checkpoint(tmp_path / "step-000002", model=other, optimizer=make_optimizer(other), step=2, digest="d")
    assert [path.name for path in tmp_path.glob("step-*")] == ["step-000001"]
    monkeypatch.undo()
    assert save_checkpoint(tmp_path / "again", model=model, optimizer=make_optimizer(model), step=1, digest="d") == before
    assert load_checkpoint(folder, model=other, optimizer=make_optimizer(other), digest="d") == 1
    assert torch.equal(other.model.embed_tokens.weight, model.model.embed_tokens.weight)


def test_a_checkpoint_of_another_run_is_refused_with_both_digests(tmp_path):
    model = make_model(1)
    save_checkpoint(tmp_path / "c", model=model, optimizer=make_optimizer(model), step=1, digest="aaaa")
    with pytest.raises(TrainerError, match=r"digest bbbb, got one of aaaa"):
        load_checkpoint(tmp_path / "c", model=model, optimizer=make_optimizer(model), digest="bbbb")


def test_a_checkpoint_of_another_model_is_refused(tmp_path):
    model, larger = make_model(1), make_model(1, hidden=32)
    save_checkpoint(tmp_path / "c", model=model, optimizer=make_optimizer(model), step=1, digest="d")
    with pytest.raises((PolicyError, TrainerError)):
        load_checkpoint(tmp_path / "c", model=larger, optimizer=make_optimizer(larger), digest="d")


@pytest.mark.parametrize("name", [WEIGHTS, OPTIMIZER, STATE])
def test_a_broken_file_is_named(tmp_path, name):
    model = make_model(1)
    save_checkpoint(tmp_path / "c", model=model, optimizer=make_optimizer(model), step=1, digest="d")
    (tmp_path / "c" / name).write_bytes(b"\x00broken")
    with pytest.raises((PolicyError, TrainerError), match=name):
        load_checkpoint(tmp_path / "c", model=model, optimizer=make_optimizer(model), digest="d")


def test_an_unknown_format_is_refused(tmp_path):
    model = make_model(1)
    save_checkpoint(tmp_path / "c", model=model, optimizer=make_optimizer(model), step=1, digest="d")
    (tmp_path / "c" / STATE).write_text(json.dumps({"format": 99, "step": 1, "digest": "d"}))
    with pytest.raises(TrainerError, match="expected format 1"):
        load_checkpoint(tmp_path / "c", model=model, optimizer=make_optimizer(model), digest="d")


def test_a_full_disk_is_a_trainer_error_and_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "_write", full)
    model = make_model(1)
    with pytest.raises(TrainerError, match="No space left"):
        save_checkpoint(tmp_path / "c", model=model, optimizer=make_optimizer(model), step=1, digest="d")
    assert list(tmp_path.iterdir()) == []
