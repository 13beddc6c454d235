"""Demonstrations on their way to verl: the same tokens, masks and order as on the local engine, and every key one that its trainer has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

from agentgym_cli.episode.layouts import LAYOUTS
from agentgym_cli.episode.tokens import TurnTokens
from agentgym_cli.episode.types import Trajectory
from agentgym_cli.errors import RecipeError, TrainerError
from agentgym_cli.learn.batch import Example, pad
from agentgym_cli.learn.demonstrations import laid_out
from agentgym_cli.learn.schedules import tasks_at
from agentgym_cli.learn.verl.keys import unknown
from agentgym_cli.learn.verl.settings import own_settings
from agentgym_cli.learn.verl.sft.dataset import DemonstratedRows
from agentgym_cli.learn.verl.sft.keys import IMITATING
from agentgym_cli.learn.verl.sft.rows import Lesson, lesson_of, write_lesson
from agentgym_cli.learn.verl.sft.settings import SftLaunch, sft_settings, sft_table
from agentgym_cli.learn.verl.sft.setup import SETUP_FILE, SftSetup, launcher_words, read_sft_setup
from agentgym_cli.recipe.resolve import resolve
from agentgym_cli.recipe.schema.computing import ClusterSpec
from agentgym_cli.store.desk import Address
from agentgym_cli.store.importing.conversations import Conversation, Spoken
from agentgym_cli.verbs.verl_place import resolved_settings

pytestmark = pytest.mark.torch

SFT = "train.algorithm={kind: sft, demonstrations: [{kind: oracle, count: 12}]}"
LAUNCH = SftLaunch(name="a-run", model="/m", demonstrations="/r/d", updates="/r/u", checkpoints="/r/checkpoints", resume_from=None)


def trajectory(*learned: bool) -> Trajectory:
    """One token for each flag, all with a number of their own."""
    first = 10 * len(learned)
    return Trajectory(token_ids=tuple(range(first, first + len(learned))), action_mask=learned, logprobs=(0.0,) * len(learned), policy_version=0)


def read_back(lesson: Lesson, folder: Path) -> DemonstratedRows:
    demonstrations, updates = folder / "d.jsonl", folder / "u.jsonl"
    write_lesson(lesson, demonstrations=demonstrations, updates=updates)
    return DemonstratedRows([str(demonstrations), str(updates)], tokenizer=None, config=None, processor=None, max_samples=-1)


def spoken(layout: str) -> list[Trajectory]:
    """Three conversations, one with a reply that is not learned, in a layout of ours."""
    words = ["shelf", "lamp", "get", "light", "<unk>"]
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in sorted(LAYOUTS[layout].control)])  # type: ignore[index]
    tokens = TurnTokens(tokenizer, layout)  # type: ignore[arg-type]
    said = [
        (Spoken("shelf", "get lamp", True), Spoken("lamp", "light lamp", True)),
        (Spoken("shelf shelf", "get shelf", False), Spoken("lamp", "light", True)),
        (Spoken("lamp", "light lamp", True),),
    ]
    found = [laid_out(Conversation(where="x", number=number, turns=turns), tokens, system_prompt="get light") for number, turns in enumerate(said)]
    return [each for each in found if each is not None]


@pytest.mark.parametrize("layout", list(LAYOUTS))
def test_promise_05_verl_learns_the_tokens_that_the_local_engine_learns(layout: str, tmp_path: Path) -> None:
    shown = spoken(layout)
    assert len(shown) == 3
    lesson = lesson_of(shown, steps=4, count=2, seed=3)
    rows = read_back(lesson, tmp_path)
    assert len(rows) == 8
    for step in range(1, 5):
        local = pad([Example(trajectory=each, advantage=0.0) for each in tasks_at(shown, 3, step, 2)])
        for row, place in enumerate(range(2 * (step - 1), 2 * step)):
            item = rows[place]
            size = len(item["input_ids"])
            assert item["input_ids"].tolist() == local.token_ids[row, :size].tolist()
            assert item["loss_mask"].bool().tolist() == local.action_mask[row, :size].tolist()
            assert not local.action_mask[row, size:].any()
            assert item["position_ids"].tolist() == list(range(size))
        assert lesson.action_tokens(step) == local.action_tokens > 0


def test_every_demonstration_is_learned_once_in_a_pass_and_no_remainder_is_left_out(tmp_path: Path) -> None:
    shown = [trajectory(False, True), trajectory(False, True, True), trajectory(False, False, True, True, True)]
    # Five updates of two are three passes of three demonstrations, and one more.
    lesson = lesson_of(shown, steps=5, count=2, seed=1)
    places = [place for update in lesson.updates for place in update]
    assert [len(update) for update in lesson.updates] == [2] * 5
    assert [sorted(places[start : start + 3]) for start in (0, 3, 6)] == [[0, 1, 2]] * 3
    rows = read_back(lesson, tmp_path)
    assert [len(rows[place]["input_ids"]) for place in range(10)] == [(2, 3, 5)[place] for place in places]
    assert sum(lesson.action_tokens(step) for step in range(1, 6)) == 3 * (1 + 2 + 3) + (1, 2, 3)[places[9]]


def test_a_first_token_is_never_learned_since_nothing_predicts_it(tmp_path: Path) -> None:
    # verl's loss would take its place in the mask for the last token of the demonstration before.
    item = read_back(lesson_of([trajectory(True, True, False)], steps=1, count=1, seed=1), tmp_path)[0]
    assert item["loss_mask"].tolist() == [0, 1, 0]
    assert (item["input_ids"].dtype, item["loss_mask"].dtype, item["position_ids"].dtype) == (torch.int64,) * 3


def test_an_update_with_nothing_to_learn_is_refused() -> None:
    with pytest.raises(TrainerError, match="train step 1: expected demonstrations with action tokens, got none in 2"):
        lesson_of([trajectory(True, False)], steps=3, count=2, seed=1)


def test_demonstrations_without_action_tokens_are_counted() -> None:
    lesson = lesson_of([trajectory(True, False), trajectory(False, True)], steps=2, count=2, seed=1)
    assert [(lesson.without_action_tokens(step), lesson.action_tokens(step)) for step in (1, 2)] == [(1, 1), (1, 1)]


def found(*overrides: str, profile: str = "gpu") -> dict[str, Any]:
    run = resolve("textcraft_grpo.yaml", [f"profile={profile}", SFT, "train.updates_per_step=1", "reward.token_cost=0", *overrides]).run
    return {each.key: each.value for each in sft_settings(run, LAUNCH)}


def test_every_key_is_one_that_the_trainer_has_or_hands_on() -> None:
    keys = IMITATING.listed()
    assert [key for key, _ in sft_table() if unknown(key, keys, sections=IMITATING.open) is not None] == []
    assert len({key for key, _ in sft_table()}) == len(list(sft_table()))


def test_what_lies_in_the_machines_memory_is_said_to_the_trainer() -> None:
    kinds = ("none", "optimizer", "all", "streamed")
    names = ("param_offload", "optimizer_offload", "offload_policy")
    got = [found(f"cluster.offload={kind}") for kind in kinds]
    said = [tuple(each[f"engine.{name}"] for name in names) for each in got]
    assert said == [(False, False, False), (False, True, False), (True, True, False), (False, False, True)]


def test_the_recipes_numbers_reach_the_trainer() -> None:
    got = found("train.warmup_steps=3", "train.weight_decay=0.1", "train.checkpoint_every=7", "train.max_gradient_norm=0.5", "seed=9")
    expected = {
        "trainer.total_training_steps": 330,
        "trainer.total_epochs": 1,
        "trainer.save_freq": 7,
        "trainer.n_gpus_per_node": 8,
        "trainer.device": "cuda",
        "data.train_batch_size": 32,
        "data.train_files": ("/r/d", "/r/u"),
        "data.max_token_len_per_gpu": 10752,
        "data.pad_mode": "no_padding",
        "optim.lr": 1e-6,
        "optim.lr_warmup_steps": 4,
        "optim.weight_decay": 0.1,
        "optim.clip_grad": 0.5,
        "optim.betas": (0.9, 0.99),
        "engine.seed": 9,
        "model.use_remove_padding": True,
    }
    assert {key: got[key] for key in expected} == expected
    assert not any(key.startswith(("engine.mixed_precision", "model.override_config")) for key in got)
    assert found(profile="rehearsal")["trainer.device"] == "cpu"


def test_what_is_shown_is_what_the_trainers_command_line_takes() -> None:
    overrides = ["profile=rehearsal", SFT, "train.updates_per_step=1", "reward.token_cost=0", "verl.engine.param_offload=true"]
    shown, words = resolved_settings("textcraft_grpo.yaml", overrides)
    assert len(shown) == len(words)
    assert "optim.betas=[0.9,0.99]" in words
    assert "data.train_files=['runs/NAME/verl/demonstrations.jsonl','runs/NAME/verl/updates.jsonl']" in words
    assert "+engine.mixed_precision.param_dtype='fp32'" in words
    assert words[-1] == "engine.param_offload=true"


def test_a_key_of_the_other_trainer_is_refused_with_the_nearest_of_this_one() -> None:
    with pytest.raises(RecipeError, match=r"cluster\.verl\[0\]: expected a key of verl 0\.9\.1, got 'optim\.learning_rate'"):
        own_settings(ClusterSpec(gpus_per_node=8, verl=("optim.learning_rate=1",)), IMITATING)
    with pytest.raises(RecipeError, match="expected a key of verl"):
        own_settings(ClusterSpec(gpus_per_node=8, verl=("actor_rollout_ref.rollout.n=1",)), IMITATING)


@pytest.mark.parametrize("key", sorted(IMITATING.reserved))
def test_what_order_and_records_hang_on_is_no_key_to_choose(key: str) -> None:
    assert key in IMITATING.listed()
    with pytest.raises(RecipeError, match=rf"expected a key that schedule and records do not hang on, got '{re.escape(key)}'"):
        own_settings(ClusterSpec(gpus_per_node=8, verl=(f"{key}=1",)), IMITATING)


def test_the_setup_is_read_back_and_for_its_owner_alone(tmp_path: Path) -> None:
    setup = SftSetup(digest="d", desk=Address(host="127.0.0.1", port=5, secret="s"))
    setup.write(tmp_path / SETUP_FILE)
    assert read_sft_setup(tmp_path / SETUP_FILE) == setup
    assert (tmp_path / SETUP_FILE).stat().st_mode & 0o077 == 0


def test_a_process_for_each_gpu_is_started_on_this_machine_alone() -> None:
    words = launcher_words(8)
    assert words[:2] == ("-m", "agentgym_cli.learn.verl.sft.start") and words[-2:] == ("-m", "agentgym_cli.learn.verl.sft.trainer")
    assert {"--standalone", "--local-addr=127.0.0.1", "--nnodes=1", "--nproc-per-node=8"} <= set(words)


@pytest.mark.parametrize("key", IMITATING.unread)
def test_promise_08_a_key_that_would_do_nothing_is_refused(key: str) -> None:
    assert key in IMITATING.listed() and key not in IMITATING.reserved
    with pytest.raises(RecipeError, match=rf"cluster\.verl\[0\]: expected a key that changes something, got '{re.escape(key)}'"):
        own_settings(ClusterSpec(gpus_per_node=8, verl=(f"{key}=1",)), IMITATING)
