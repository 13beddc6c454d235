"""A model's folder, its seed, its files, and what must fit each other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from agentgym_cli.errors import PolicyError
from agentgym_cli.learn.batch import Example, pad
from agentgym_cli.learn.model import WEIGHTS, build_model
from agentgym_cli.learn.update import action_scores
from tests.learn.models import VOCABULARY, logp_by_hand, tiny_model, trajectory, weights_of

pytestmark = pytest.mark.torch


def make_folder(path: Path, **changes: object) -> Path:
    config = {**tiny_model().config.to_dict(), **changes}
    (path / "config.json").write_text(json.dumps(config))
    return path


def build(folder: Path, *, seed: int | None = 1, vocabulary: int = VOCABULARY, context: int = 64) -> dict[str, torch.Tensor]:
    return weights_of(build_model(folder, seed=seed, vocabulary=vocabulary, context=context))


def test_a_seed_makes_the_same_weights_and_leaves_torchs_generator_alone(tmp_path):
    folder = make_folder(tmp_path)
    torch.manual_seed(5)
    first = build(folder)
    drawn = torch.rand(1)
    torch.manual_seed(5)
    assert torch.equal(torch.rand(1), drawn)
    torch.manual_seed(99)
    again, other = build(folder), build(folder, seed=2)
    assert all(torch.equal(value, again[name]) for name, value in first.items())
    assert any(not torch.equal(value, other[name]) for name, value in first.items())


def test_weights_are_float32_whatever_the_folder_says(tmp_path):
    assert {value.dtype for value in build(make_folder(tmp_path, dtype="bfloat16")).values()} == {torch.float32}


def test_files_are_read_without_a_tied_head(tmp_path):
    model = tiny_model(4)
    save_file({name: value.bfloat16() for name, value in weights_of(model).items()}, make_folder(tmp_path) / WEIGHTS)
    found = build(tmp_path, seed=None)
    assert all(torch.equal(found[name], value.bfloat16().float()) for name, value in weights_of(model).items())


@pytest.mark.parametrize(
    ("vocabulary", "context", "said"), [(VOCABULARY + 1, 64, "at least the tokenizer's 14, got 13"), (VOCABULARY, 65, "at least the 65 tokens")]
)
def test_a_model_that_is_too_small_is_refused(tmp_path, vocabulary, context, said):
    with pytest.raises(PolicyError, match=said):
        build(make_folder(tmp_path), vocabulary=vocabulary, context=context)


def test_another_architecture_is_refused(tmp_path):
    with pytest.raises(PolicyError, match="model_type: expected llama or qwen2, got 'gpt2'"):
        build(make_folder(tmp_path, model_type="gpt2"))


@pytest.mark.parametrize("text", [None, "{", "[]"])
def test_a_folder_without_a_configuration_is_refused(tmp_path, text):
    if text is not None:
        (tmp_path / "config.json").write_text(text)
    with pytest.raises(PolicyError, match=r"config\.json"):
        build(tmp_path)


def test_weights_that_lack_a_tensor_or_have_another_are_refused(tmp_path):
    whole = weights_of(tiny_model())
    folder = make_folder(tmp_path)
    save_file({name: value for name, value in whole.items() if "layers.1" not in name}, folder / WEIGHTS)
    with pytest.raises(PolicyError, match=r"missing \['model\.layers\.1\."):
        build(folder, seed=None)
    save_file({**whole, "extra": torch.zeros(1)}, folder / WEIGHTS)
    with pytest.raises(PolicyError, match=r"unknown \['extra'\]"):
        build(folder, seed=None)
    save_file({**whole, "model.norm.weight": torch.zeros(3)}, folder / WEIGHTS)
    with pytest.raises(PolicyError, match="expected tensors of the shapes"):
        build(folder, seed=None)


def test_weights_that_are_no_safetensors_are_refused_unread(tmp_path):
    folder = make_folder(tmp_path)
    torch.save(weights_of(tiny_model()), folder / WEIGHTS)
    with pytest.raises(PolicyError, match="expected weights as safetensors"):
        build(folder, seed=None)


def test_a_model_without_a_pad_token_is_scored_in_a_padded_batch_as_alone():
    model = tiny_model()
    assert model.config.pad_token_id is None
    short, long = trajectory("oaa"), trajectory("ooooaoaaa")
    batch = pad([Example(trajectory=item, advantage=0.0) for item in (short, long)])
    logp = action_scores(model, batch, temperature=1.0).logp[0]
    assert logp[batch.action_mask[0]].tolist() == pytest.approx(logp_by_hand(model, short), abs=2e-6)
