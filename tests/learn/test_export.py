"""An exported folder loads in transformers, says the same probabilities, and lays out turns as in training."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, PreTrainedTokenizerFast

from agentgym_cli.episode.layouts import LAYOUTS
from agentgym_cli.episode.tokens import TurnTokens
from agentgym_cli.errors import TrainerError
from agentgym_cli.learn.batch import Example, pad
from agentgym_cli.learn.export import Exporting, export_folder, template_of
from agentgym_cli.learn.update import action_scores
from tests.learn.models import tiny_llama, tiny_model, trajectory

pytestmark = pytest.mark.torch

WORDS = ("<pad>", "<unk>", "<obs>", "<act>", "<end>", "<|im_start|>", "<|im_end|>", "shelf", "lamp", "get", "light", "system", "user")
STOP = {"words": 4, "chatml": 6}


def write_sources(folder: Path, network: torch.nn.Module) -> Path:
    """A model folder of our own: config, tokenizer and a tokenizer's settings that know neither stop nor padding."""
    folder.mkdir()
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(list(WORDS[:7]))
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(json.dumps(network.config.to_dict(), default=str))
    return folder


def exporting(folder: Path, network: torch.nn.Module, layout: str = "words") -> Exporting:
    return Exporting(
        model=network,
        model_folder=folder,
        tokenizer_folder=folder,
        layout=LAYOUTS[layout],
        template=template_of(LAYOUTS[layout]),
        stop=STOP[layout],
        generation={"do_sample": True, "temperature": 0.7, "max_new_tokens": 24},
        card=lambda loader: f"# a model for {loader}\n",
    )


@pytest.mark.parametrize("make", [tiny_model, tiny_llama])
def test_transformers_gives_the_log_probabilities_of_the_trainer(tmp_path, make):
    network = make(seed=3)
    export_folder(tmp_path / "out", exporting(write_sources(tmp_path / "model", network), network))
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    batch = pad([Example(trajectory=trajectory("ooaaoaaa"), advantage=0.0)])
    ours = action_scores(network, batch, temperature=1.0).logp[0].detach()
    with torch.no_grad():
        theirs = torch.log_softmax(loaded(batch.token_ids).logits, dim=-1)[0]
    picked = [float(theirs[place - 1, batch.token_ids[0, place]]) for place in range(1, 8)]
    assert [float(ours[place]) for place in (2, 3, 5, 6, 7)] == pytest.approx([picked[place - 1] for place in (2, 3, 5, 6, 7)], abs=1e-6)


@pytest.mark.parametrize("layout", ["words", "chatml"])
@pytest.mark.parametrize("told", ["", "light lamp"])
def test_the_chat_template_lays_out_the_tokens_of_training(tmp_path, layout, told):
    network = tiny_llama()
    folder = write_sources(tmp_path / "model", network)
    export_folder(tmp_path / "out", exporting(folder, network, layout))
    said = [{"role": "system", "content": told}] if told else []
    said += [{"role": "user", "content": "shelf lamp"}, {"role": "assistant", "content": "get lamp"}, {"role": "user", "content": "lamp"}]
    ids = AutoTokenizer.from_pretrained(tmp_path / "out").apply_chat_template(said, add_generation_prompt=True, return_dict=False)
    tokens = TurnTokens.from_file(folder / "tokenizer.json", layout)
    assert tuple(ids) == (*tokens.initial(told, "shelf lamp"), *tokens.action("get lamp"), *tokens.next("lamp", stop_sampled=True))


def test_generation_stops_where_an_action_ends_and_samples_as_the_run_does(tmp_path):
    network = tiny_model()
    export_folder(tmp_path / "out", exporting(write_sources(tmp_path / "model", network), network))
    settings = GenerationConfig.from_pretrained(tmp_path / "out")
    assert (settings.eos_token_id, settings.pad_token_id, settings.temperature, settings.max_new_tokens) == (4, 4, 0.7, 24)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(tmp_path / "out")
    assert (tokenizer.eos_token, tokenizer.pad_token) == ("<end>", "<end>")


@pytest.mark.parametrize(("make", "loader"), [(tiny_llama, "AutoTokenizer"), (tiny_model, "PreTrainedTokenizerFast")])
def test_the_card_names_the_class_that_reads_the_tokenizer_as_it_is(tmp_path, make, loader):
    # AutoTokenizer makes a byte-level BPE of any tokenizer beside a Qwen2 model
    network = make()
    export_folder(tmp_path / "out", exporting(write_sources(tmp_path / "model", network), network))
    assert (tmp_path / "out" / "README.md").read_text() == f"# a model for {loader}\n"


def test_a_folder_that_is_there_is_not_touched(tmp_path):
    network = tiny_model()
    what = exporting(write_sources(tmp_path / "model", network), network)
    (tmp_path / "out").mkdir()
    with pytest.raises(TrainerError, match="expected a folder that is not there yet"):
        export_folder(tmp_path / "out", what)
    assert list((tmp_path / "out").iterdir()) == []


def test_an_export_that_fails_leaves_nothing(tmp_path, monkeypatch):
    network = tiny_model()
    what = exporting(write_sources(tmp_path / "model", network), network)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("agentgym_cli.learn.export.save_file", full)
    with pytest.raises(TrainerError, match="cannot write the model: No space left"):
        export_folder(tmp_path / "out", replace(what, stop=3))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]
