"""Low-rank adapters: what is trained, what is sampled, what is kept, by hand."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import get_args

import pytest
import torch

from agentgym_cli.episode.policies.protocol import SlotRequest
from agentgym_cli.episode.policies.sampler import TorchDecoder
from agentgym_cli.errors import PolicyError
from agentgym_cli.learn.batch import Example, pad
from agentgym_cli.learn.checkpoint import load_checkpoint, save_checkpoint
from agentgym_cli.learn.lora import Adapted
from agentgym_cli.learn.model import adapter_names, load_weights
from agentgym_cli.learn.supervised import SupervisedTrainer
from agentgym_cli.learn.update import action_scores
from agentgym_cli.recipe.schema.learning import LinearLayer, LoraSpec
from tests.learn.models import tiny_llama, tiny_model, trajectory, weights_of

pytestmark = pytest.mark.torch

SPEC = LoraSpec(rank=2, alpha=6.0, targets=("q_proj", "v_proj", "down_proj"))
SHOWN = [trajectory("ooaaoa"), trajectory("oaa", offset=2), trajectory("ooooaoaaa", offset=4)]


def taught(model, steps: int = 3) -> SupervisedTrainer:
    trainer = SupervisedTrainer(model, learning_rate=1e-2)
    for step in range(1, steps + 1):
        trainer.supervised_step(SHOWN, step=step)
    return trainer


@pytest.mark.parametrize("make", [tiny_model, tiny_llama])
def test_an_adapted_model_begins_as_the_model_bit_for_bit(make):
    model = make()
    batch = pad([Example(trajectory=SHOWN[0], advantage=0.0)])
    before = action_scores(model, batch, temperature=1.0).logp.detach()
    adapted = Adapted(model, SPEC, seed=1)
    assert torch.equal(action_scores(model, batch, temperature=1.0).logp.detach(), before)
    assert torch.equal(action_scores(adapted.merge(), batch, temperature=1.0).logp.detach(), before)


def test_adapters_alone_are_trained_and_the_model_stays():
    model = tiny_model()
    before = weights_of(model)
    Adapted(model, SPEC, seed=1)
    taught(model)
    after = {name.replace(".base_layer", ""): value for name, value in model.named_parameters() if "lora_" not in name}
    assert after.keys() == before.keys() and all(torch.equal(after[name], before[name]) for name in before)
    # two blocks of three targets with two matrices each
    assert len(adapter_names(model)) == 12
    assert all(parameter.abs().sum() > 0 for name, parameter in model.named_parameters() if name in adapter_names(model))


def test_merged_weights_are_the_product_by_hand_and_share_all_others():
    model = tiny_model()
    adapted = Adapted(model, SPEC, seed=1)
    taught(model)
    merged = adapted.merge()
    layer = model.model.layers[1].mlp.down_proj
    a, b = layer.lora_A["default"].weight, layer.lora_B["default"].weight
    assert torch.allclose(merged.model.layers[1].mlp.down_proj.weight, layer.base_layer.weight + 3.0 * b @ a, atol=1e-7)
    assert merged.model.embed_tokens.weight is model.model.embed_tokens.weight
    assert merged.model.layers[0].mlp.up_proj.weight is model.model.layers[0].mlp.up_proj.weight


def test_the_sampler_and_the_trainer_agree_on_sampled_tokens():
    model = tiny_model()
    adapted = Adapted(model, SPEC, seed=1)
    decoder = TorchDecoder(adapted.merge(), slots=1, context=32, stop_ids=frozenset({0}))
    taught(model)
    adapted.merge()
    decoder.load(1)
    (reply,) = decoder.decode([SlotRequest(slot=0, new_tokens=(3, 5, 7), fresh=True, seed=4, max_new=6, temperature=1.0)])
    ids, count = (3, 5, 7, *reply.token_ids), len(reply.token_ids)
    with torch.no_grad():
        each = torch.log_softmax(model(torch.tensor([ids])).logits[0], dim=-1)
    assert list(reply.logprobs) == pytest.approx([float(each[2 + place, ids[3 + place]]) for place in range(count)], abs=1e-5)


def test_a_checkpoint_keeps_the_adapters_alone_and_goes_on_to_equal_bits(tmp_path: Path):
    def run(folder: Path, model) -> str:
        trainer = taught(model, steps=2)
        save_checkpoint(folder / "a", model=model, optimizer=trainer.optimizer, step=2, digest="d")
        trainer.supervised_step(SHOWN, step=3)
        return save_checkpoint(folder / "b", model=model, optimizer=trainer.optimizer, step=3, digest="d")

    first = tiny_model()
    Adapted(first, SPEC, seed=1)
    whole = run(tmp_path, first)
    second = tiny_model()
    Adapted(second, SPEC, seed=1)
    trainer = SupervisedTrainer(second, learning_rate=1e-2)
    assert load_checkpoint(tmp_path / "a", model=second, optimizer=trainer.optimizer, digest="d") == 2
    trainer.supervised_step(SHOWN, step=3)
    assert save_checkpoint(tmp_path / "c", model=second, optimizer=trainer.optimizer, step=3, digest="d") == whole
    assert hashlib.sha256((tmp_path / "b" / "model.safetensors").read_bytes()).hexdigest() == whole
    assert (tmp_path / "a" / "model.safetensors").stat().st_size < 6_000


def test_adapters_are_the_same_for_a_seed_and_others_for_another():
    def drawn(seed: int) -> torch.Tensor:
        model = tiny_model()
        Adapted(model, SPEC, seed=seed)
        return model.model.layers[0].self_attn.q_proj.lora_A["default"].weight

    assert torch.equal(drawn(1), drawn(1)) and not torch.equal(drawn(1), drawn(2))


@pytest.mark.parametrize("make", [tiny_model, tiny_llama])
def test_every_layer_that_a_recipe_may_name_is_there(make):
    model = make()
    Adapted(model, LoraSpec(rank=1, alpha=1.0, targets=get_args(LinearLayer)), seed=1)
    # two blocks of seven layers with two matrices each
    assert len(adapter_names(model)) == 28


def test_weights_of_a_model_without_adapters_are_no_adapters(tmp_path: Path):
    plain, adapted = tiny_model(), tiny_model()
    save_checkpoint(tmp_path / "plain", model=plain, optimizer=taught(plain).optimizer, step=1, digest="d")
    Adapted(adapted, SPEC, seed=1)
    with pytest.raises(PolicyError, match=r"expected the adapters of train.lora, got missing"):
        load_weights(adapted, tmp_path / "plain" / "model.safetensors")
    save_checkpoint(tmp_path / "lora", model=adapted, optimizer=taught(adapted).optimizer, step=1, digest="d")
    with pytest.raises(PolicyError, match=r"expected the tensors of config.json"):
        load_weights(plain, tmp_path / "lora" / "model.safetensors")
