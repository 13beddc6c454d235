"""Policies without a model: the oracle, the script, the floor, and the door that makes them."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym_cli.env.contract import EnvFailure, InfraCause, ListedActions, StepReply
from agentgym_cli.env.dialect import load_dialect
from agentgym_cli.episode.actions import ActionFormat
from agentgym_cli.episode.loop import run_episode
from agentgym_cli.episode.policies.build import build_baseline, service_key
from agentgym_cli.episode.policies.oracle import OraclePolicy
from agentgym_cli.episode.policies.protocol import Policy
from agentgym_cli.episode.policies.random import MAX_CANDIDATES, RandomPolicy
from agentgym_cli.episode.policies.scripted import ScriptedPolicy, read_script
from agentgym_cli.episode.types import AttemptResult, Outcome, StopReason
from agentgym_cli.errors import PolicyError, RecipeError
from tests.episode.fakes import BUDGETS, PLAIN, REACT, FakeEnv, make_episode, make_rules, solve_in
from tests.episode.virtual_time import run_virtual

LISTING = "Crafting commands:\ncraft 1 flax cord using 2 flax\ncraft 1 trap using 1 flax cord, 3 ash\n\nGoal: craft trap."


def play(policy: Policy, env: FakeEnv, *, action_format: ActionFormat = "plain", seed: int = 7, horizon: int = 5) -> AttemptResult:
    policy.waves([make_episode()])
    return run_virtual(
        run_episode(
            make_episode(horizon=horizon),
            attempt=1,
            seed=seed,
            policy=policy,
            env=env,
            rules=make_rules(),
            action_rule=REACT if action_format == "react" else PLAIN,
            budgets=BUDGETS,
        )
    )


def oracle(action_format: ActionFormat = "plain") -> OraclePolicy:
    return OraclePolicy(action_format=action_format, env_call_seconds=10.0)


@pytest.mark.parametrize("action_format", ["plain", "react"])
def test_the_oracle_plays_the_worlds_plan_in_the_recipes_action_format(action_format: ActionFormat) -> None:
    env = FakeEnv(answer=solve_in(3), plan=("get 2 flax", "craft 1 flax cord using 2 flax", "inventory"))
    result = play(oracle(action_format), env, action_format=action_format)
    assert [turn.action for turn in result.turns] == ["get 2 flax", "craft 1 flax cord using 2 flax", "inventory"]
    assert (result.outcome, result.trajectory, result.action_tokens) == (Outcome.SUCCESS, None, 0)


def test_an_oracle_whose_plan_does_not_solve_the_task_fails() -> None:
    result = play(oracle(), FakeEnv(answer=solve_in(9), plan=("a",)), horizon=3)
    assert [turn.action for turn in result.turns] == ["a", "", ""]
    assert (result.stop, result.outcome) == (StopReason.HORIZON, Outcome.FAILURE)


def test_a_world_without_an_oracle_route_is_an_infra_error() -> None:
    off = EnvFailure(InfraCause.SERVER_4XX, "GET /oracle: expected a plan, got 404")
    result = play(oracle(), FakeEnv(fault=lambda call, session: off if call == "oracle" else None))
    assert (result.stop, result.outcome, result.cause) == (StopReason.ENV_ERROR, Outcome.INFRA_ERROR, InfraCause.SERVER_4XX)


def test_an_oracle_route_that_hangs_spends_the_worlds_deadline() -> None:
    result = play(oracle(), FakeEnv(fault=lambda call, session: "hang" if call == "oracle" else None))
    assert (result.stop, result.outcome, result.cause) == (StopReason.ENV_DEADLINE, Outcome.INFRA_ERROR, InfraCause.TIMEOUT)
    assert result.seconds == pytest.approx(10.0)


def test_an_oracle_has_the_time_that_the_dialect_gives_it() -> None:
    policy = build_baseline("oracle", rules=replace(make_rules(), oracle_seconds=25.0), action_format="plain", budgets=BUDGETS)
    result = play(policy, FakeEnv(fault=lambda call, session: "hang" if call == "oracle" else None))
    assert (result.stop, result.cause) == (StopReason.ENV_DEADLINE, InfraCause.TIMEOUT)
    assert result.seconds == pytest.approx(25.0)


def test_a_script_is_played_in_order_and_then_says_nothing() -> None:
    policy = ScriptedPolicy({"fake_0": ("a", "b")}, action_format="plain")
    result = play(policy, FakeEnv(answer=solve_in(9)), horizon=3)
    assert [turn.action for turn in result.turns] == ["a", "b", ""]


def test_a_script_without_a_scheduled_task_is_refused_before_anything_runs() -> None:
    policy = ScriptedPolicy({"fake_0": ("a",)}, action_format="plain")
    with pytest.raises(PolicyError, match="fake_3"):
        policy.waves([make_episode(0), make_episode(3)])


def test_a_script_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "script.jsonl"
    path.write_text('{"task": "a_0", "actions": ["x", ""]}\n\n{"actions": [], "task": "a_1"}\n')
    assert read_script(path) == {"a_0": ("x", ""), "a_1": ()}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "JSON object"),
        ("[]", "keys actions and task, got list"),
        ('{"task": "a", "actions": [], "seed": 1}', "got actions, seed, task"),
        ('{"task": "a"}', "got task"),
        ('{"task": 1, "actions": []}', "task to be a string"),
        ('{"task": "a", "actions": "x"}', "list of strings"),
        ('{"task": "a", "actions": [1]}', "list of strings"),
        ('{"task": "ok", "actions": []}', "'ok' again"),
    ],
)
def test_promise_08_a_script_file_is_strict(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "script.jsonl"
    path.write_text(f'{{"task": "ok", "actions": []}}\n{line}\n')
    with pytest.raises(RecipeError, match=message) as caught:
        read_script(path)
    assert f"{path}:2" in str(caught.value)


def test_a_missing_script_file_is_a_recipe_error(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="readable script"):
        read_script(tmp_path / "none.jsonl")


def textcraft_floor() -> RandomPolicy:
    rules = load_dialect("textcraft").rules()
    return RandomPolicy(always=rules.random_always, listed=rules.random_listed, action_format="plain")


def test_the_floor_finds_what_textcraft_lists() -> None:
    assert set(textcraft_floor().listed_in(LISTING)) == {
        "craft 1 flax cord using 2 flax",
        "craft 1 trap using 1 flax cord, 3 ash",
        "get 2 flax",
        "get 1 flax cord",
        "get 3 ash",
    }


@pytest.mark.slow
def test_the_floor_draws_evenly_and_from_the_first_observation_when_the_present_one_lists_nothing() -> None:
    env = FakeEnv(first=lambda index: LISTING, answer=lambda task, action, turn: StepReply(observation="Got it", reward=0.0, done=False))
    result = play(textcraft_floor(), env, horizon=2_400)
    counts = Counter(turn.action for turn in result.turns)
    assert len(counts) == 6
    # 400 expected each, standard deviation 18.
    assert all(abs(count - 400) < 5 * 18 for count in counts.values())


def test_the_floor_draws_from_the_present_observation_where_that_lists_actions() -> None:
    policy = RandomPolicy(always=(), listed=(ListedActions(pattern=r"^see (\w+)$", say="take {}"),), action_format="plain")
    seen = {1: "see y", 2: "nothing", 3: "see z", 4: ""}
    env = FakeEnv(first=lambda index: "see x", answer=lambda task, action, turn: StepReply(observation=seen[turn], reward=0.0, done=turn == 4))
    assert [turn.action for turn in play(policy, env).turns] == ["take x", "take y", "take x", "take z"]


def test_the_floor_repeats_itself_under_the_same_seed_only() -> None:
    def actions(seed: int) -> list[str]:
        env = FakeEnv(first=lambda index: LISTING, answer=solve_in(99))
        return [turn.action for turn in play(textcraft_floor(), env, seed=seed, horizon=20).turns]

    assert actions(1) == actions(1)
    assert actions(1) != actions(2)


def test_the_floor_leaves_the_shared_generator_alone() -> None:
    random.seed(4)
    expected = random.random()
    random.seed(4)
    play(textcraft_floor(), FakeEnv(first=lambda index: LISTING))
    assert random.random() == expected


def test_promise_11_a_listing_without_end_is_cut_and_braces_are_only_text() -> None:
    policy = RandomPolicy(always=(), listed=(ListedActions(pattern=r"^(.+)$", say="do {}"),), action_format="plain")
    assert len(policy.listed_in("\n".join(map(str, range(50_000))))) == MAX_CANDIDATES
    assert policy.listed_in("{0.__class__} %s {}") == ("do {0.__class__} %s {}",)


def test_a_floor_with_nothing_to_draw_from_is_refused() -> None:
    with pytest.raises(RecipeError, match="got neither"):
        build_baseline("random", rules=make_rules(), action_format="plain", budgets=BUDGETS)


@pytest.mark.parametrize("name", ["oracle", "random"])
def test_the_door_makes_baselines_by_name(name: str) -> None:
    assert build_baseline(name, rules=load_dialect("textcraft").rules(), action_format="plain", budgets=BUDGETS).name == name


def test_the_door_reads_a_script(tmp_path: Path) -> None:
    path = tmp_path / "script.jsonl"
    path.write_text('{"task": "fake_0", "actions": ["go"]}\n')
    policy = build_baseline("scripted", rules=make_rules(), action_format="react", budgets=BUDGETS, script=path)
    assert play(policy, FakeEnv(), action_format="react").turns[0].text == "Action: go"


def test_the_door_wants_a_script_for_scripted() -> None:
    with pytest.raises(PolicyError, match="expected a script"):
        build_baseline("scripted", rules=make_rules(), action_format="plain", budgets=BUDGETS)


def test_the_door_knows_no_other_names() -> None:
    with pytest.raises(PolicyError, match="oracle, random, scripted, got 'orakle'"):
        build_baseline("orakle", rules=make_rules(), action_format="plain", budgets=BUDGETS)


def test_a_services_key_is_read_from_the_variable_that_the_recipe_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_TOKEN", "secret")
    assert service_key("WORLD_TOKEN", where="env.token_variable") == "secret"


@pytest.mark.parametrize("value", ["", None])
def test_a_services_key_that_is_not_set_is_a_policy_error_that_names_the_variable(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    monkeypatch.delenv("WORLD_TOKEN", raising=False)
    if value is not None:
        monkeypatch.setenv("WORLD_TOKEN", value)
    with pytest.raises(PolicyError, match="WORLD_TOKEN"):
        service_key("WORLD_TOKEN", where="env.token_variable")
