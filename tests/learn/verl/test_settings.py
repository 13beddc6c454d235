"""Every key of verl's that a run sets is one that verl has, is from the field that the table names, and reaches Hydra as it was meant."""

from __future__ import annotations

import re

import pytest

from agentgym_cli.errors import RecipeError
from agentgym_cli.learn.verl.asked import Launch, Value, Verbatim
from agentgym_cli.learn.verl.keys import OPEN, RESERVED, known_keys, unknown
from agentgym_cli.learn.verl.settings import Setting, arguments, own_settings, settings, table
from agentgym_cli.recipe.freeze import freeze
from agentgym_cli.recipe.resolve import resolve
from agentgym_cli.recipe.schema.computing import ClusterSpec

LAUNCH = Launch(
    name="a-run",
    model="/models/it's",
    train_rows="/r/train",
    evaluation_rows="/r/evaluation",
    loops="/r/loops",
    checkpoints="/r/checkpoints",
    resume_from=None,
    evaluate_first=True,
    evaluate_only=False,
    variables={"HF_HUB_OFFLINE": "1"},
)


def found(*overrides: str, profile: str = "gpu") -> dict[str, Value]:
    run = resolve("textcraft_grpo.yaml", [f"profile={profile}", *overrides], installed=lambda _: "1").run
    return {each.key: each.value for each in settings(run, LAUNCH)}


def test_every_key_is_one_that_verl_has_or_hands_on() -> None:
    keys = known_keys()
    assert [key for key, _ in table() if unknown(key, keys) is not None] == []
    assert len({key for key, _ in table()}) == len(list(table()))


def test_no_open_section_is_a_key_by_itself_with_a_value() -> None:
    # What is open and what is listed are two things, but for sections that the reference shows empty.
    empty = {"actor_rollout_ref.model.override_config", "actor_rollout_ref.rollout.engine_kwargs.vllm", "critic.model.override_config"}
    assert {key for key in OPEN if key in known_keys()} == empty


def test_the_released_settings_reach_verl() -> None:
    got = found()
    expected = {
        "trainer.total_training_steps": 330,
        "data.train_batch_size": 32,
        "actor_rollout_ref.actor.ppo_mini_batch_size": 8,
        "actor_rollout_ref.actor.optim.lr": 1e-6,
        "actor_rollout_ref.actor.use_kl_loss": True,
        "actor_rollout_ref.actor.kl_loss_coef": 0.001,
        "actor_rollout_ref.actor.kl_loss_type": "low_var_kl",
        "actor_rollout_ref.actor.entropy_coeff": 0.001,
        "actor_rollout_ref.actor.loss_agg_mode": "seq-mean-token-mean",
        "actor_rollout_ref.rollout.n": 8,
        "actor_rollout_ref.rollout.max_model_len": 10752,
        "actor_rollout_ref.rollout.temperature": 1.0,
        "algorithm.adv_estimator": "agentgym",
        "algorithm.use_kl_in_reward": False,
        "critic.enable": False,
        "trainer.n_gpus_per_node": 8,
        "trainer.device": "cuda",
    }
    assert {key: got[key] for key in expected} == expected


def test_no_key_of_a_rehearsal_reaches_a_gpu() -> None:
    rehearsed, real = found(profile="rehearsal"), found()
    assert {key for key in rehearsed if key not in real} >= {"ray_kwargs.ray_init.num_gpus", "actor_rollout_ref.rollout.enforce_eager"}
    assert rehearsed["trainer.device"] == "cpu"


def test_ppo_has_a_critic_and_others_have_none() -> None:
    algorithm = "train.algorithm={kind: ppo, critic_learning_rate: 1e-5, gae_lambda: 0.95, discount: 0.99, critic_warmup_steps: 3}"
    got = found(algorithm, "train.tasks_per_step=32", "train.updates_per_step=4")
    assert (got["algorithm.adv_estimator"], got["critic.enable"], got["critic.optim.lr"]) == ("gae", True, 1e-5)
    assert (got["algorithm.lam"], got["algorithm.gamma"]) == (0.95, 0.99)
    # Steps 1 to 3 update the critic alone.
    assert got["trainer.critic_warmup"] == 4
    assert not any(key.startswith("critic.optim") for key in found())


def test_a_critics_passes_are_no_longer_than_the_actors() -> None:
    got = found("train.algorithm={kind: ppo, critic_learning_rate: 1e-5}")
    keys = ("actor_rollout_ref.actor.ppo_max_token_len_per_gpu", "critic.ppo_max_token_len_per_gpu", "critic.ppo_infer_max_token_len_per_gpu")
    assert [got[key] for key in keys] == [10752] * 3


def test_a_key_in_verls_own_words_wins_and_is_spelled_as_it_was() -> None:
    override = "cluster.verl=['actor_rollout_ref.rollout.gpu_memory_utilization=0.6', 'actor_rollout_ref.actor.optim.lr=3e-7']"
    got = found(override)
    assert got["actor_rollout_ref.actor.optim.lr"] == "3e-7"
    words = arguments([Setting(key="actor_rollout_ref.rollout.gpu_memory_utilization", value=Verbatim("0.6"), source="")])
    assert words == ["actor_rollout_ref.rollout.gpu_memory_utilization=0.6"]


@pytest.mark.parametrize(("staleness", "mode"), [(0, "agentgym"), (1, "agentgym_async"), (3, "agentgym_async")])
def test_what_is_played_ahead_decides_the_trainer(staleness: int, mode: str) -> None:
    assert found(f"cluster.max_staleness={staleness}")["trainer.v1.trainer_mode"] == mode


@pytest.mark.parametrize(
    ("offload", "weights", "moments", "streamed"),
    [("none", False, False, False), ("optimizer", False, True, False), ("all", True, True, False), ("streamed", False, False, True)],
)
def test_what_lies_in_the_machines_memory_is_said_of_policy_and_critic(offload: str, weights: bool, moments: bool, streamed: bool) -> None:
    got = found(f"cluster.offload={offload}", "train.algorithm={kind: ppo, critic_learning_rate: 1e-5}")
    for section in ("actor_rollout_ref.actor.fsdp_config", "critic.fsdp"):
        said = tuple(got[f"{section}.{name}"] for name in ("param_offload", "optimizer_offload", "offload_policy"))
        assert said == (weights, moments, streamed)


def test_adapters_are_what_vllm_gets_and_the_model_is_read_from_its_files() -> None:
    told = found("train.lora={rank: 16, alpha: 32, targets: [q_proj, o_proj]}")
    model, rollout = "actor_rollout_ref.model", "actor_rollout_ref.rollout"
    assert (told[f"{model}.lora_rank"], told[f"{model}.lora_alpha"], told[f"{model}.target_modules"]) == (16, 32, ("q_proj", "o_proj"))
    assert told[f"{rollout}.load_format"] == "safetensors"
    assert not {f"{model}.lora_rank", f"{rollout}.load_format"} & found().keys()


def test_a_correction_in_verls_own_words_reaches_verl_and_the_digest() -> None:
    section = "algorithm.rollout_correction"
    own = [f"verl.{section}.rollout_rs=seq_mean_k1", f"verl.{section}.rollout_rs_threshold=1.001", f"verl.{section}.rollout_is=sequence"]
    recipe = ["profile=rehearsal", "train.importance_cap=2"]
    corrected = resolve("textcraft_grpo.yaml", [*recipe, *own])
    words = [word for word in arguments(settings(corrected.run, LAUNCH)) if section in word]
    assert sorted(words) == [
        f"{section}.rollout_is=sequence",
        f"{section}.rollout_is_threshold=2.0",
        f"{section}.rollout_rs=seq_mean_k1",
        f"{section}.rollout_rs_threshold=1.001",
    ]
    digests = {freeze(resolve("textcraft_grpo.yaml", [*recipe, *own[:count]])).digest for count in range(4)}
    assert len(digests) == 4


def test_a_key_is_said_once_since_hydra_adds_none_twice() -> None:
    attention = "actor_rollout_ref.model.override_config.attn_implementation"
    run = resolve("textcraft_grpo.yaml", ["profile=rehearsal", f"cluster.verl=['{attention}=flex', '{attention}=eager']"]).run
    words = [word for word in arguments(settings(run, LAUNCH)) if attention in word and "critic" not in word]
    assert words == [f"+{attention}=eager"]


def test_a_key_that_verl_does_not_know_is_refused_before_anything_starts() -> None:
    with pytest.raises(RecipeError, match=r"cluster\.verl\[0\]: expected a key of verl 0\.9\.1, got 'trainer\.save_frequency'") as refused:
        found("cluster.verl=[trainer.save_frequency=1]")
    assert "trainer.save_freq" in refused.value.message


@pytest.mark.parametrize("key", sorted(RESERVED))
def test_what_schedule_and_records_hang_on_is_no_key_to_choose(key: str) -> None:
    assert unknown(key, known_keys()) is None
    with pytest.raises(RecipeError, match=rf"cluster\.verl\[0\]: expected a key that schedule and records do not hang on, got '{re.escape(key)}'"):
        own_settings(ClusterSpec(gpus_per_node=8, verl=(f"{key}=1",)))


def test_a_section_that_holds_such_a_key_is_none_either() -> None:
    with pytest.raises(RecipeError, match=r"schedule and records do not hang on, got 'ray_kwargs\.ray_init'") as refused:
        own_settings(ClusterSpec(gpus_per_node=8, verl=("ray_kwargs.ray_init={address:auto}",)))
    assert refused.value.hint == "cluster.ray_address says it in the recipe"


def test_the_field_that_says_the_same_is_named_and_is_one() -> None:
    with pytest.raises(RecipeError) as refused:
        own_settings(ClusterSpec(gpus_per_node=8, verl=("trainer.default_local_dir=/big",)))
    assert refused.value.hint == "store.runs_dir says it in the recipe"
    sources = {source for _, source in table()} | {
        "tasks.train",
        "train.keep_checkpoints",
        "store.runs_dir",
        "evaluation.every",
        "cluster.ray_address",
    }
    assert {field for field in RESERVED.values() if field is not None} <= sources


@pytest.mark.parametrize(
    ("value", "spelled"),
    [
        (None, "null"),
        (True, "true"),
        (False, "false"),
        (5e-7, "5e-07"),
        (1_000_000_000.0, "1000000000.0"),
        ("a b", "'a b'"),
        ("it's ${x} \\", r"'it\'s ${x} \\'"),
        (("console", "file"), "['console','file']"),
        ((), "[]"),
    ],
)
def test_values_are_spelled_in_hydras_grammar(value: Value, spelled: str) -> None:
    assert arguments([Setting(key="trainer.logger", value=value, source="")]) == [f"trainer.logger={spelled}"]


def test_what_the_reference_does_not_list_is_added() -> None:
    words = arguments([Setting(key="ray_kwargs.ray_init.num_gpus", value=2, source="")])
    assert words == ["+ray_kwargs.ray_init.num_gpus=2"]


def test_a_pass_holds_the_row_that_verl_fills_a_batch_up_with() -> None:
    # 127 tokens of a prompt and one of a response (verl/trainer/ppo/padding_utils.py), however short our contexts are.
    short = found("budgets.context_tokens=100", "budgets.response_tokens=8", "horizon.turns=[4]", "evaluation.horizon=4", profile="rehearsal")
    assert short["actor_rollout_ref.actor.ppo_max_token_len_per_gpu"] == 128
    assert short["actor_rollout_ref.rollout.max_model_len"] == 100
    assert found()["actor_rollout_ref.actor.ppo_max_token_len_per_gpu"] == 10752


def test_a_ray_that_runs_already_is_not_told_what_it_has() -> None:
    own = {"ray_kwargs.ray_init.num_cpus", "ray_kwargs.ray_init.num_gpus", "ray_kwargs.ray_init.object_store_memory"}
    assert own <= set(found(profile="rehearsal"))
    there = found("cluster.ray_address=127.0.0.1:6379", profile="rehearsal")
    assert not own & set(there)
    assert there["ray_kwargs.ray_init.address"] == "127.0.0.1:6379"
