"""Combinations that no single field can state: batches and clusters, protocols, the engines' table, profiles that were not chosen."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split

from agentgym_cli.env.contract import InfraCause
from agentgym_cli.episode.layouts import LAYOUTS
from agentgym_cli.episode.tokens import TurnTokens
from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.features import ENGINES, FEATURES, table
from agentgym_cli.recipe.freeze import freeze
from agentgym_cli.recipe.resolve import Resolved, resolve
from agentgym_cli.recipe.rules import LEAST_TURN_TOKENS, longest
from agentgym_cli.recipe.schema.learning import FixedHorizon, HorizonSpec, IncrementHorizon, StagesHorizon
from agentgym_cli.recipe.schema.world import Cause
from tests.recipe.builders import RECIPE, has, write_recipe

VERL = RECIPE.replace("engine: {kind: local, stack: cpu}", "engine: {kind: verl, stack: cpu}\ncluster: {gpus_per_node: 8}").replace(
    "tasks_per_step: 2", "tasks_per_step: 32"
)


def made(path: str, *overrides: str) -> Resolved:
    return resolve(path, overrides, survey=has())


def complaint(path: str, *overrides: str) -> str:
    with pytest.raises(RecipeError) as caught:
        made(path, *overrides)
    return str(caught.value)


@pytest.mark.parametrize(
    ("override", "text"),
    [
        # 32 tasks in 3 updates leave two over
        ("train.updates_per_step=3", "train.updates_per_step: expected a divisor of the 32 tasks of a step, got 3"),
        # 32 / 16 = 2 tasks of 2 episodes are 4, which 8 GPUs cannot share
        (
            "train.updates_per_step=16",
            "train.tasks_per_step: expected episodes of an update that 8 GPUs can share, got 4 (32 tasks / 16 updates x 2)",
        ),
        # 32 tasks of 2 are 64, which 3 nodes of 8 cannot share
        ("cluster.nodes=3", "train.tasks_per_step: expected episodes of an update that 24 GPUs can share, got 64 (32 tasks / 1 updates x 2)"),
        ("cluster.tensor_parallel=3", "cluster.tensor_parallel: expected a divisor of the 8 GPUs of a node, got 3"),
        ("train.parameters=gains", "train.parameters: expected what engine verl can do, got gains; engine local can"),
        ("train.lora={rank: 4, alpha: 0.5}", "train.lora.alpha: expected a whole number with engine verl, got 0.5"),
        ("prompt.turn_format=words", "prompt.turn_format: expected what engine verl can do, got words; engine local can"),
        (
            "warm_start={steps: 1, demonstrations: 1, demonstrations_per_step: 1, learning_rate: 1e-3, max_turns: 4}",
            "warm_start: expected what engine verl can do, got warm start; engine local can; or train with algorithm sft, export the run, and start",
        ),
        ("evaluation.horizon=4000", "evaluation.horizon: expected at most 3276 turns"),
    ],
)
def test_a_batch_that_the_engine_cannot_divide_and_a_feature_that_it_lacks_are_refused(tmp_path: Path, override: str, text: str) -> None:
    assert text in complaint(write_recipe(tmp_path, VERL), override)


@pytest.mark.parametrize(
    "override", ["train.updates_per_step=4", "cluster.nodes=2", "cluster.gpus_per_node=0", "cluster.tensor_parallel=4", "cluster.max_staleness=2"]
)
def test_batches_that_divide_are_accepted(tmp_path: Path, override: str) -> None:
    assert made(write_recipe(tmp_path, VERL), override).run.engine.kind == "verl"


def test_a_combination_that_only_another_profile_makes_impossible_is_shown_with_its_name_and_line(tmp_path: Path) -> None:
    path = write_recipe(tmp_path, RECIPE + "profiles:\n  laptop: {}\n  wide:\n    policy: {sampling: {top_k: 2}}\n    evaluation: {horizon: 4000}\n")
    said = complaint(path, "budgets.context_tokens=30")
    assert f"{path}:26: with profile wide: policy.sampling.top_k: expected what engine local can do, got 2; engine verl can" in said
    assert f"{path}:27: with profile wide: evaluation.horizon: expected at most 3276 turns" in said
    # the override is meant for the chosen profile, where 4 turns of 10 tokens do not fit 30
    assert "evaluation.horizon: expected at most 3 turns, which is what fits 30 tokens of context at 10 a turn, got 4" in said


def test_a_limit_in_money_needs_the_prices_of_both_kinds_of_tokens(tmp_path: Path) -> None:
    path = write_recipe(tmp_path)
    priced = "policy.endpoint={url: 'http://127.0.0.1:1/v1', model: m, price_per_million_input: 2.0, price_per_million_output: 10.0}"
    wanted = "budgets.run_cost: expected policy.endpoint with price_per_million_input and price_per_million_output, got "
    assert f"{wanted}no endpoint" in complaint(path, "budgets.run_cost=5.0")
    assert f"{wanted}an endpoint without one of them" in complaint(
        path, "budgets.run_cost=5.0", priced.replace(", price_per_million_output: 10.0", "")
    )
    assert made(path, "budgets.run_cost=5.0", priced).run.budgets.run_cost == 5.0


def test_an_evaluation_cadence_needs_training_and_steps_to_fall_between(tmp_path: Path) -> None:
    path = write_recipe(tmp_path)
    assert "evaluation.every: expected null where nothing is trained, got 5" in complaint(path, "train=null", "evaluation.every=5")
    [warning] = made(path, "evaluation.every=20").warnings
    assert warning.endswith("evaluation.every: expected fewer than the 20 steps, got 20: no evaluation falls in between")


@pytest.mark.parametrize(
    ("schedule", "turns"),
    [
        (FixedHorizon(turns=7), 7),
        (StagesHorizon(turns=(3, 9, 5), steps=(1,)), 9),
        (IncrementHorizon(start=2, increment=3, every=1, cap=6), 6),
    ],
)
def test_the_longest_horizon_of_a_schedule(schedule: HorizonSpec, turns: int) -> None:
    assert longest(schedule) == turns


def test_the_least_tokens_of_a_turn_are_those_of_the_layout() -> None:
    # one token for each role and each line feed, as in the tokenizers of the Qwen family
    words = ["<|im_start|>", "<|im_end|>", "user", "assistant", "system", "\n", "<obs>", "<act>", "<end>", "<unk>"]
    tokenizer = Tokenizer(WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = Split("\n", "isolated")
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>", "<obs>", "<act>", "<end>"])
    assert LEAST_TURN_TOKENS.keys() == {*LAYOUTS, "template"}
    for turn_format in LAYOUTS:
        least = LEAST_TURN_TOKENS[turn_format]
        between = TurnTokens(tokenizer, turn_format).next("", stop_sampled=True)
        assert len(between) + 1 == least, turn_format


CLAIMS = "evaluation={protocol: agentgym-rl, horizon: 30}"


@pytest.mark.parametrize(
    ("overrides", "warnings"),
    [
        ((CLAIMS,), []),
        (("evaluation={protocol: agenteval, horizon: 20}",), []),
        (
            ("evaluation={protocol: agenteval, horizon: 30}",),
            ["evaluation.horizon: expected 20, what protocol agenteval says for textcraft, got 30"],
        ),
        (
            ("evaluation={protocol: agentgym-rl, horizon: 4, samples_per_task: 2, temperature: greedy, limit: 5}",),
            [
                "evaluation.horizon: expected 30, what protocol agentgym-rl says for textcraft, got 4",
                "evaluation.samples_per_task: expected 1, what protocol agentgym-rl says, got 2",
                "evaluation.temperature: expected 1.0, what protocol agentgym-rl says, got greedy",
                "evaluation.limit: expected null, since protocol agentgym-rl runs every task, got 5",
            ],
        ),
        (
            (CLAIMS, "policy.sampling.temperature=0.7"),
            ["evaluation.temperature: expected 1.0, what protocol agentgym-rl says, got 0.7"],
        ),
        (
            ("evaluation={protocol: agentgym2, horizon: 4}",),
            ["evaluation.protocol: expected a public procedure, got agentgym2: its tasks, metric and harness are not, so nothing compares"],
        ),
    ],
)
def test_departures_from_a_claimed_protocol_are_warnings(tmp_path: Path, overrides: tuple[str, ...], warnings: list[str]) -> None:
    found = made(write_recipe(tmp_path), "train.steps=11", *overrides).warnings
    assert [warning[warning.index(": evaluation.") + 2 :] for warning in found] == warnings


def test_every_feature_names_a_key_of_the_recipe_and_an_engine(tmp_path: Path) -> None:
    run = made(write_recipe(tmp_path, VERL)).run
    for feature in FEATURES:
        value: object = run
        for part in feature.key:
            value = getattr(value, str(part))
        assert feature.engines, feature.name
        assert set(feature.engines) <= set(ENGINES)
    assert len(table().splitlines()) == len(FEATURES) + 2


def test_every_profile_is_checked_whole_the_chosen_one_or_not(tmp_path: Path) -> None:
    text = RECIPE.replace("horizon: {kind: stages, turns: [2, 4], steps: [10]}\n", "")
    path = write_recipe(tmp_path, text + "profiles:\n  laptop: {horizon: {kind: fixed, turns: 2}}\n  other: {seed: 2}\n")
    said = complaint(path)
    assert said == (f"{path}:1: with profile other: horizon: expected a mapping whose kind is one of fixed, stages, increment, got nothing")


def test_an_unknown_key_hides_no_impossible_combination(tmp_path: Path) -> None:
    text = RECIPE.replace("steps: 20", "steps: 20\n  stepz: 20").replace("evaluation: {horizon: 4}", "evaluation: {horizon: 9999}")
    path = write_recipe(tmp_path, text)
    said = complaint(path)
    assert "train.stepz: expected one of steps" in said
    assert "evaluation.horizon: expected at most 3276 turns" in said


@pytest.mark.parametrize(
    ("override", "guess"),
    [
        ("learning_rate=1", "did you mean warm_start.learning_rate or train.learning_rate?"),
        ("group_size=4", "did you mean train.algorithm.group_size?"),
        ("slots=4", "did you mean engine.slots?"),
        ("trian={}", "did you mean train?"),
    ],
)
def test_promise_08_a_misplaced_key_is_told_its_place(tmp_path: Path, override: str, guess: str) -> None:
    assert guess in complaint(write_recipe(tmp_path), override)


def test_a_name_like_no_other_gets_no_guess(tmp_path: Path) -> None:
    assert "did you mean" not in complaint(write_recipe(tmp_path), "zzz=1")


@pytest.mark.slow
def test_thousands_of_mistakes_are_counted_and_the_first_are_named(tmp_path: Path) -> None:
    path = write_recipe(tmp_path, RECIPE + "".join(f"k{number}: 1\n" for number in range(2_000)))
    said = complaint(path).splitlines()
    assert len(said) == 52
    assert said[-1].startswith("  and ")


@pytest.mark.parametrize(
    ("url", "got"),
    [
        ("http://user:secret@host", "one with credentials (env.token_variable names the variable of a bearer token)"),
        ("http://h:99999", "'http://h:99999'"),
        ("http://h?x=1", "'http://h?x=1'"),
        ("http://[::1", "'http://[::1'"),
        ("h:80", "'h:80'"),
        ("http://", "'http://'"),
    ],
)
def test_promise_11_an_address_that_is_none_or_holds_a_password_is_refused_and_not_repeated(tmp_path: Path, url: str, got: str) -> None:
    path = write_recipe(tmp_path, RECIPE.replace("  world: textcraft", f"  urls: ['{url}']"))
    assert complaint(path) == f"{path}:5: env.urls[0]: expected http://HOST:PORT or https://HOST:PORT, got {got}"


@pytest.mark.parametrize("url", ["http://127.0.0.1:36005", "https://host/a/b", "http://[::1]:80", "http://host"])
def test_addresses_of_servers_are_accepted(tmp_path: Path, url: str) -> None:
    path = write_recipe(tmp_path, RECIPE.replace("  world: textcraft", f"  urls: ['{url}']"))
    assert made(path).run.env.urls == (url,)


def test_an_evaluation_split_may_not_be_called_as_the_training_split(tmp_path: Path) -> None:
    said = complaint(write_recipe(tmp_path), "tasks.evaluation=[{name: test}, {name: train}]")
    assert said.endswith("tasks.evaluation[1].name: expected another name than the training split's, got 'train'")


@pytest.mark.parametrize("key", ["tasks.manifest", "prompt.system", "policy.model.path", "extends"])
def test_a_name_too_long_for_any_file_is_an_ordinary_mistake(tmp_path: Path, key: str) -> None:
    long = "a" * 5000
    path = write_recipe(tmp_path, RECIPE if key != "extends" else f"{RECIPE}extends: {long}\n")
    with pytest.raises(RecipeError, match="expected a file or folder"):
        freeze(made(path, *([] if key == "extends" else [f"{key}={long}"])))


def test_profiles_have_names_that_a_run_can_have(tmp_path: Path) -> None:
    path = write_recipe(tmp_path, RECIPE + "profiles: {'g p u': {}}\n")
    assert complaint(path) == f"{path}:23: profiles: expected a name of letters, digits, _, . and -, got 'g p u'"


def test_the_causes_that_a_recipe_can_retry_are_those_that_an_environment_can_have() -> None:
    assert get_args(Cause) == tuple(cause.value for cause in InfraCause)


@pytest.mark.parametrize(
    ("override", "text"),
    [
        (
            "prompt={history: append, action_format: plain}",
            "prompt.history: expected exact with turn format chatml, which rewrites no turn, got append",
        ),
        (
            "policy.model.chat_template=recipe.yaml",
            "prompt.turn_format: expected template, since policy.model.chat_template names one, got chatml",
        ),
    ],
)
def test_the_local_engine_ignores_no_word_about_turns(tmp_path: Path, override: str, text: str) -> None:
    assert text in complaint(write_recipe(tmp_path), override)


def test_a_chat_template_is_for_the_turn_format_template(tmp_path: Path) -> None:
    words = ("prompt={turn_format: template, history: append, action_format: plain}", "policy.model.chat_template=chat.jinja")
    assert made(write_recipe(tmp_path), *words).run.prompt.history == "append"


SFT = "train.algorithm={kind: sft, demonstrations: [{kind: oracle, count: 4}]}"


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("evaluation.every=1", "evaluation.every: expected what engine verl can do, got 1; engine local can"),
        ("cluster.nodes=2", "cluster.nodes: expected 1 with algorithm sft, which verl trains on one machine, got 2"),
        ("cluster.ray_address=auto", "cluster.ray_address: expected null with algorithm sft, which needs no Ray, got auto"),
        ("train.tasks_per_step=12", "train.tasks_per_step: expected episodes of an update that 8 GPUs can share, got 12"),
    ],
)
def test_demonstrations_are_learned_on_one_machine_without_ray(tmp_path: Path, override: str, said: str) -> None:
    path = write_recipe(tmp_path, VERL)
    assert made(path, SFT).run.engine.kind == "verl"
    assert said in complaint(path, SFT, override)
