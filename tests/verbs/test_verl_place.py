"""``train --show-verl``: every key that verl would be told, from which field, without verl, a server or a GPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentgym_cli.cli.show_verl import show_settings
from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.layers import override_layer
from agentgym_cli.recipe.resolve import resolve
from agentgym_cli.verbs.verl_place import launch_of, rehearses, resolved_settings, settings_of, sft_launch_of

RECIPE = "textcraft_grpo.yaml"


def test_a_line_is_a_word_of_verls_command_line_with_its_source(capsys: pytest.CaptureFixture[str]) -> None:
    show_settings(*resolved_settings(RECIPE, ["profile=gpu", "verl.trainer.log_val_generations=2"]), as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert "trainer.total_training_steps=330    # train.steps" in lines
    assert "+ray_kwargs.ray_init.address='local'    # cluster.ray_address, else a Ray of the run's own" in lines
    # In verl's own words, and last, so that it wins.
    assert lines[-1] == "trainer.log_val_generations=2    # cluster.verl[0]"


def test_the_same_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    show_settings(*resolved_settings(RECIPE, ["profile=rehearsal"]), as_json=True)
    found = {each["key"]: each["value"] for each in json.loads(capsys.readouterr().out)}
    assert found["actor_rollout_ref.rollout.n"] == 4
    assert found["trainer.logger"] == ["console"]
    assert found["actor_rollout_ref.model.path"] == "runs/NAME/verl/model"


def test_a_profile_of_another_engine_is_told_so() -> None:
    with pytest.raises(RecipeError, match="profile laptop: expected engine verl and something to train, got engine local"):
        resolved_settings(RECIPE, ["profile=laptop"])


def test_a_recipe_that_trains_nothing_is_told_so() -> None:
    with pytest.raises(RecipeError, match="profile gpu: expected engine verl and something to train, got nothing") as refused:
        resolved_settings("agentgym_rl/babyai_eval.yaml", ["profile=gpu"])
    assert refused.value.hint == "agentgym eval RECIPE"


def test_keys_of_verls_on_the_command_line_are_one_list() -> None:
    _, layer = override_layer(["verl.a.b=1", "train.steps=3", "verl.c='x y'"])
    assert layer.data == {"train": {"steps": 3}, "cluster": {"verl": ["a.b=1", "c='x y'"]}}


def test_the_list_and_single_keys_do_not_go_together() -> None:
    with pytest.raises(RecipeError, match="expected each key once"):
        override_layer(["cluster.verl=[a=1]", "verl.b=2"])


def test_what_verl_is_told_is_in_the_digest() -> None:
    one, other = (resolve(RECIPE, ["profile=rehearsal", *more]).run for more in ([], ["verl.trainer.balance_batch=false"]))
    assert rehearses(one) and one.cluster != other.cluster
    assert settings_of(other)[-1].key == "trainer.balance_batch"


@pytest.mark.parametrize("wrong", ["no equals", "=1", "a..b=1", "a b=1"])
def test_what_is_no_key_and_value_is_refused(wrong: str) -> None:
    with pytest.raises(RecipeError, match=r"cluster\.verl"):
        resolve(RECIPE, ["profile=gpu", f"cluster.verl={json.dumps([wrong])}"], installed=lambda _: "1")


def test_a_run_that_is_named_from_here_goes_on_from_a_checkpoint_that_is_found_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # verl's processes work in another folder, on a cluster in any.
    monkeypatch.chdir(tmp_path)
    run = resolve(RECIPE, ["profile=rehearsal"]).run
    found = Path("runs/a/verl/checkpoints/global_step_2")
    launch = launch_of(run, name="a", model="m", folder=Path("/f"), resume_from=found, evaluate_first=False, evaluate_only=False)
    lesson = sft_launch_of(name="a", model="m", folder=Path("/f"), resume_from=found)
    assert launch.resume_from == lesson.resume_from == f"{tmp_path}/runs/a/verl/checkpoints/global_step_2"
