"""Rules of learning from stored data and of adapters."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.resolve import resolve
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.recipe.stored_rules import asks_oracle, plays_training_tasks
from tests.recipe.builders import RECIPE, has, write_recipe

FILE = "{kind: agenttraj, path: t.json}"
ORACLE = "{kind: oracle, count: 4}"
EXPLORE = "{kind: explore, tasks: 4, samples_per_task: 2}"
PAIRS = "{kind: file, path: p.jsonl}"
EVOL = "{kind: agentevol, iteration_steps: 2, explored_tasks: 4, demonstrations: [%s]}"


def run_of(folder: Path, algorithm: str, *overrides: str, text: str = RECIPE) -> Run:
    return resolve(write_recipe(folder, text), [f"train.algorithm={algorithm}", *overrides], survey=has()).run


@pytest.mark.parametrize(
    ("algorithm", "plays", "asks"),
    [
        (f"{{kind: sft, demonstrations: [{FILE}]}}", False, False),
        (f"{{kind: sft, demonstrations: [{FILE}, {ORACLE}]}}", True, True),
        (f"{{kind: dpo, pairs: [{PAIRS}]}}", False, False),
        (f"{{kind: dpo, pairs: [{PAIRS}, {EXPLORE}]}}", True, False),
        (EVOL % FILE, True, False),
        (EVOL % ORACLE, True, True),
        ("{kind: grpo, group_size: 2}", True, False),
    ],
)
def test_what_a_run_plays_and_whom_it_asks_follows_from_its_sources(tmp_path: Path, algorithm: str, plays: bool, asks: bool) -> None:
    run = run_of(tmp_path, algorithm)
    assert (plays_training_tasks(run), asks_oracle(run)) == (plays, asks)


def test_stored_data_alone_need_no_training_split(tmp_path: Path) -> None:
    without = RECIPE.replace("  train: {name: train}\n", "")
    assert run_of(tmp_path, f"{{kind: sft, demonstrations: [{FILE}]}}", text=without).tasks.train is None
    with pytest.raises(RecipeError, match=r"tasks.train: expected a split to train on, got null"):
        run_of(tmp_path, f"{{kind: sft, demonstrations: [{ORACLE}]}}", text=without)


@pytest.mark.parametrize(
    ("algorithm", "override", "said"),
    [
        (f"{{kind: sft, demonstrations: [{FILE}]}}", "train.updates_per_step=2", "updates_per_step: expected 1 with algorithm sft"),
        (f"{{kind: dpo, pairs: [{PAIRS}]}}", "train.passes_per_step=2", "passes_per_step: expected 1 with algorithm dpo"),
        (f"{{kind: sft, demonstrations: [{ORACLE}, {ORACLE}]}}", "seed=1", "demonstrations[1]: expected one source of kind oracle, got another"),
        (f"{{kind: dpo, pairs: [{EXPLORE}, {EXPLORE}]}}", "seed=1", "pairs[1]: expected one source of kind explore, got another"),
        ("{kind: sft, demonstrations: []}", "seed=1", "train.algorithm.demonstrations: expected"),
        ("{kind: grpo, group_size: 2}", "train.lora={rank: 0, alpha: 1}", "train.lora.rank: expected an integer >= 1"),
        (
            "{kind: grpo, group_size: 2}",
            "train.lora={rank: 1, alpha: 1, targets: [q_proj, k_porj]}",
            "train.lora.targets[1]: expected one of q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj, got 'k_porj'; did you mean k_proj",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_by_its_key(tmp_path: Path, algorithm: str, override: str, said: str) -> None:
    with pytest.raises(RecipeError) as caught:
        run_of(tmp_path, algorithm, override)
    assert said in caught.value.message


def test_adapters_are_trained_alone(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"train.parameters: expected all beside train.lora, which trains its adapters alone, got gains"):
        run_of(tmp_path, "{kind: grpo, group_size: 2}", "train.parameters=gains", "train.lora={rank: 1, alpha: 1}")
