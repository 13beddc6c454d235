"""A stored run in the place of assumptions: like for like as measured, scaled by a rule, or left out and said so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from agentgym_cli.capacity.measured import ALL, Turn, Use
from agentgym_cli.capacity.money import Prices
from agentgym_cli.errors import RecipeError, StoreError
from agentgym_cli.recipe.fingerprint import fingerprint
from agentgym_cli.recipe.parts import task_parts
from agentgym_cli.recipe.resolve import Resolved, resolve
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.recipe.tasks import select_tasks
from agentgym_cli.store.loader import load_into
from agentgym_cli.store.opening import open_for_writing
from agentgym_cli.store.records import Record
from agentgym_cli.verbs.capacity import CapacityAnswer, Question, estimate_capacity
from agentgym_cli.verbs.changes import Value, with_keys
from agentgym_cli.verbs.devices import devices_of, shape_of
from agentgym_cli.verbs.estimate import estimate
from agentgym_cli.verbs.likeness import Stored, said_of, use_of
from agentgym_cli.verbs.simulation import simulated
from agentgym_cli.verbs.workload import load_of, plan_of, services_of
from tests.capacity.test_measured import MEASURED
from tests.store.builders import make_metric, make_run, make_scheduled, make_segment, settled, write_journal
from tests.verbs.frozen_runs import prepared

TEXTCRAFT = "recipes/textcraft_grpo.yaml"


@cache
def resolved(*overrides: str) -> Resolved:
    return resolve(TEXTCRAFT, ["profile=laptop", *overrides], only_shown=True)


def stored(*overrides: str, policy: str = "local", trained: bool = True) -> Stored:
    found = resolved(*overrides)
    lists = select_tasks(found.run.tasks, env="textcraft", beside=found.folders)
    here = fingerprint(threads=1, variables={})
    return Stored(run=found.run, parts=task_parts(lists), folders=found.folders, fingerprint=here, policy=policy, trained=trained)


def used(measured: Stored, *overrides: str, same_devices: bool = True) -> Use:
    planned = resolved(*overrides)
    return use_of(measured, MEASURED, planned=planned.run, folders=planned.folders, same_devices=same_devices)


def test_the_same_recipe_is_like_for_like() -> None:
    found = used(stored())
    assert (found.worlds, found.play, said_of(found)) == (True, True, ())
    assert found.policy is not None and found.update is not None


@pytest.mark.parametrize(
    ("change", "worlds", "play", "key"),
    [
        ("env.dialect=babyai", False, False, "env.dialect"),
        ("env.world_args=[]", False, False, "env.world_args"),
        ("policy.model.weights=files", True, False, "policy.model.weights"),
        ("budgets.response_tokens=12", True, False, "budgets.response_tokens"),
        ("policy.sampling.temperature=0.5", True, False, "policy.sampling.temperature"),
        ("tasks.train.ids=0-9", True, False, "tasks"),
    ],
)
def test_other_worlds_tasks_and_policies_are_left_out_by_name(change: str, worlds: bool, play: bool, key: str) -> None:
    found = used(stored(change) if not change.startswith("env.dialect") else replace(stored(), run=_babyai()))
    assert (found.worlds, found.play) == (worlds, play)
    assert any(f"turns and tokens left out; {key}" in sentence or key in sentence for sentence in said_of(found))


def _babyai() -> Run:
    run = resolved().run
    return replace(run, env=replace(run.env, dialect="babyai"))


def test_an_oracle_says_nothing_of_a_policy() -> None:
    found = used(stored(policy="oracle"))
    assert (found.worlds, found.play, found.policy, found.update) == (True, False, None, None)
    assert said_of(found) == ("--from: turns and tokens, policy's times, update's time left out; policy differs",)


def test_another_machine_and_other_gpus_leave_times_out() -> None:
    elsewhere = used(replace(stored(), fingerprint='{"cpu": {"model": "another"}}'))
    asked = used(stored(), same_devices=False)
    assert (elsewhere.policy, elsewhere.update, asked.policy, asked.update) == (None, None, None, None)
    assert said_of(elsewhere) == ("--from: policy's times, update's time left out; CPU differs",)
    assert said_of(asked) == ("--from: policy's times, update's time left out; --gpu differs",)


def test_training_that_differs_is_named_although_turns_are_taken() -> None:
    assert said_of(used(stored("train.learning_rate=1e-3")))[0] == "--from: turns and tokens as measured; train.learning_rate differs"


def test_sections_that_only_one_has_and_other_kinds_are_named_once() -> None:
    assert said_of(used(stored("warm_start=null")))[0] == "--from: turns and tokens as measured; warm_start differs"
    ppo = "train.algorithm={kind: ppo, critic_learning_rate: 1e-3}"
    assert said_of(used(stored(ppo))) == (
        "--from: turns and tokens as measured; train.algorithm.kind differs",
        "--from: update's time scaled; train.algorithm.kind differs",
    )


def test_what_the_same_keys_keep_apart_stands_together() -> None:
    assert said_of(used(stored(), same_devices=False)) == ("--from: policy's times, update's time left out; --gpu differs",)


def _frozen(*overrides: str) -> str:
    return prepared(TEXTCRAFT, "profile=laptop", *overrides).frozen.to_json()


def kept(folder: Path, episodes: int, *overrides: str, horizon: int = 12, frozen: str | None = None, other: str = "success") -> Path:
    """A run of short training episodes, two turns of 0.1 and 0.01 s each in attempts of 0.1 s in worlds, and its step times."""
    text = _frozen(*overrides) if frozen is None else frozen
    records: list[Record] = [make_run(frozen=text, fingerprint=fingerprint(threads=1, variables={})), make_segment()]
    for number in range(episodes):
        records += settled(make_scheduled(number, phase="train", split="train", step=1, horizon=horizon), other if number % 2 else "failure")
    records += [make_metric("time/step_seconds", 5.0, 1), make_metric("time/play_seconds", 3.0, 1)]
    with open_for_writing(folder / "s.duckdb") as connection:
        load_into(connection, write_journal(folder / "r1", records))
    return folder / "s.duckdb"


def asked(database: Path, *overrides: str, recipe: str = TEXTCRAFT) -> CapacityAnswer:
    return estimate_capacity(Question(recipe=recipe, overrides=overrides, run="r1", database=database))


@pytest.mark.slow
def test_a_stored_run_takes_the_place_of_assumptions(tmp_path: Path) -> None:
    found = asked(kept(tmp_path, 40, horizon=6), "profile=laptop")
    assert found.measured is not None
    assert (found.measured.episodes, found.measured.success) == (40, 0.5)
    assert found.main.load.mean_turns == 2.0
    assert found.main.services.env_step == pytest.approx(0.01)
    # 40 attempts of 1 s in 3 s of play: 13.3 in flight, and one more turn's worth of 40 x 2 x 0.01 / 3 s at the worlds; of 0.1 s in worlds 0.02 in
    # turns, 0.08 of which half of the line of 13.3
    places = 1 + 80 * 0.01 / 3
    assert found.measured.env_places == pytest.approx(places)
    assert found.main.services.env_reset == pytest.approx(0.08 * places / ((40 / 3 + 1) / 2))
    assert "run r1" in found.main.services.sources.values()
    assert [horizon for horizon, _ in found.simulated] == [8, 10, 12]
    assert found.per_success[0].rate == 0.5
    assert found.notes == ("run r1 had horizons of at most 6 turns, this one has 12: its episodes may take more turns",)


@pytest.mark.slow
def test_a_run_without_a_success_prices_one_at_assumed_rates_and_says_so(tmp_path: Path) -> None:
    found = asked(kept(tmp_path, 40, other="failure"), "profile=laptop")
    assert [each.rate for each in found.per_success] == [0.1, 0.3, 0.5, 0.8]
    assert "no episode of run r1 succeeded: a success is priced at assumed rates" in found.notes


@pytest.mark.slow
def test_a_simulated_step_ends_with_the_update_of_its_own_horizon() -> None:
    run, folders = resolved().run, resolved().folders
    # Every episode goes on to its horizon, and every turn takes the same: no step differs from another
    same = replace(MEASURED, turns=(99,), sampled_turns=(Turn(policy_seconds=1.0, env_seconds=0.2),), failures=0.0, use=ALL)
    plan = plan_of(run, shape_of(run, folders)[0], *devices_of(run))
    found = simulated(run, estimate(run, plan, measured=same, evaluated={}, prices=Prices()), same)
    for horizon, steps in found:
        update = services_of(run, plan, load_of(run, plan, horizon, same), same).update
        assert steps.seconds_p50 - steps.play_mean == pytest.approx(update, rel=0.05)
    assert [horizon for horizon, _ in found] == [8, 10, 12]


@pytest.mark.slow
def test_an_update_is_scaled_by_what_is_assumed_of_both(tmp_path: Path) -> None:
    database = kept(tmp_path, 40)
    # 2 s of update: 5 s of a step, 3 of play
    assert asked(database, "profile=laptop").main.step.update == pytest.approx(2.0)
    # two threads are assumed to be twice as fast; checkpointing with frozen matrices takes 6 operations in place of 4; half of the episodes half
    assert asked(database, "profile=laptop", "engine.threads=2").main.step.update == pytest.approx(1.0)
    assert asked(database, "profile=laptop", "engine.activation_checkpointing=true").main.step.update == pytest.approx(3.0)
    halved = asked(database, "profile=laptop", "train.tasks_per_step=4")
    assert halved.main.step.update == pytest.approx(1.0)
    assert "--from: update's time scaled; train.tasks_per_step differs" in halved.notes


@pytest.mark.slow
def test_places_of_a_world_are_those_of_the_measured_replicas(tmp_path: Path) -> None:
    # 80 x 0.01 / 3 calls at work at once, spread over four servers
    found = asked(kept(tmp_path, 40, "env.replicas=4"), "profile=laptop", "env.replicas=2")
    assert found.main.resources.env_places == pytest.approx(1 + 80 * 0.01 / 3 / 4)
    assert found.main.resources.env_replicas == 2


@pytest.mark.slow
def test_a_recipe_that_only_evaluates_gets_no_update_from_a_run_that_trained(tmp_path: Path) -> None:
    found = asked(kept(tmp_path, 40), "profile=laptop", "train=null", "warm_start=null")
    assert (found.main.step.update, found.main.step.total) == (0.0, found.main.step.play)


@pytest.mark.slow
def test_another_model_takes_neither_turns_nor_times(tmp_path: Path) -> None:
    found = asked(kept(tmp_path, 40), "profile=gpu")
    assert found.main.load.mean_turns == 18.0
    assert (found.simulated, [row.rate for row in found.per_success]) == ((), [0.1, 0.3, 0.5, 0.8])
    assert set(found.main.services.sources) == set()
    assert any(note.startswith("--from: turns and tokens left out; env.world_args, ") for note in found.notes)


@pytest.mark.slow
def test_a_run_with_too_few_episodes_is_refused_with_their_number(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="--from run r1: expected at least 20 scored episodes, got 7"):
        asked(kept(tmp_path, 7), "profile=laptop")


@pytest.mark.slow
def test_a_run_whose_recipe_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="--from run r1: expected a run whose recipe can be compared with this one, got KeyError"):
        asked(kept(tmp_path, 40, frozen='{"run": {}}'), "profile=laptop")


@pytest.mark.slow
def test_a_run_or_a_store_that_there_is_not_is_said(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="expected a store, got no such file"):
        asked(tmp_path / "none.duckdb", "profile=laptop")
    database = kept(tmp_path, 40)
    with pytest.raises(StoreError, match="there is none in this store"):
        estimate_capacity(Question(recipe=TEXTCRAFT, overrides=["profile=laptop"], run="other", database=database))


ENDPOINT = "policy.endpoint={url: 'http://127.0.0.1:8000/v1', model: served}"


def _served() -> Resolved:
    return resolved("train=null", "warm_start=null", "policy.model=null", ENDPOINT, "evaluation.policy=endpoint")


def _asked(policy: str, changed: Mapping[str, Value]) -> Use:
    found, planned = _served(), _served()
    planned = replace(planned, run=with_keys(planned.run, changed))
    lists = select_tasks(found.run.tasks, env="textcraft", beside=found.folders)
    played = Stored(run=found.run, parts=task_parts(lists), folders=found.folders, fingerprint="{}", policy=policy, trained=False)
    return use_of(played, MEASURED, planned=planned.run, folders=planned.folders, same_devices=True)


def test_turns_of_an_endpoint_are_its_own_and_nothing_is_scaled() -> None:
    found = _asked("endpoint, chat: served", {})
    assert (found.worlds, found.play, found.policy, found.update, said_of(found)) == (True, True, 1.0, None, ())


@pytest.mark.parametrize(
    ("policy", "changed", "play", "key"),
    [
        ("oracle", {}, False, "policy"),
        ("endpoint, chat: served", {"policy.endpoint.model": "other"}, False, "policy.endpoint.model"),
        ("endpoint, chat: served", {"policy.endpoint.url": "http://127.0.0.1:9000/v1"}, True, "policy.endpoint.url"),
    ],
)
def test_another_server_or_none_has_other_times(policy: str, changed: Mapping[str, Value], play: bool, key: str) -> None:
    found = _asked(policy, changed)
    assert (found.play, found.policy) == (play, None)
    assert any(key in sentence for sentence in said_of(found))


@pytest.mark.parametrize(("policy", "acts", "play"), [("oracle", "oracle", True), ("random", "oracle", False)])
def test_turns_of_a_rule_are_those_of_the_same_rule(policy: str, acts: str, play: bool) -> None:
    found = _asked(policy, {"evaluation.policy": acts})
    assert (found.worlds, found.play, found.policy) == (True, play, None)
    assert said_of(found) == (() if play else ("--from: turns and tokens left out; policy differs",))


def _on_gpus(*names: str) -> Stored:
    run = resolve(TEXTCRAFT, ["profile=gpu"], only_shown=True)
    lists = select_tasks(run.run.tasks, env="textcraft", beside=run.folders)
    here = fingerprint(threads=1, variables={}, gpus=names)
    return Stored(run=run.run, parts=task_parts(lists), folders=run.folders, fingerprint=here, policy="local", trained=True)


@pytest.mark.parametrize(
    ("names", "gpu", "differs"),
    [
        (["NVIDIA H100 80GB HBM3"] * 8, "h100-80g", ()),
        (["NVIDIA H100 80GB HBM3"] * 8, None, ()),
        (["NVIDIA H100 80GB HBM3"] * 8, "a100-80g", ("--gpu, which was h100-80g",)),
        ([], "h100-80g", ("kind of GPU, which is not stored",)),
        (["NVIDIA H100 80GB HBM3", "NVIDIA L4"], "h100-80g", ("kind of GPU, which is not stored",)),
    ],
)
def test_times_of_gpus_are_taken_where_the_kind_is_the_same(names: list[str], gpu: str | None, differs: tuple[str, ...]) -> None:
    measured = _on_gpus(*names)
    found = use_of(measured, MEASURED, planned=measured.run, folders=measured.folders, same_devices=gpu is None, gpu=gpu)
    assert (found.policy is not None, found.update is not None) == (not differs, not differs)
    assert [line.differs for line in found.lines if line.what == "policy's times"] == [differs]


def test_times_are_compared_with_those_of_the_kind_that_ran() -> None:
    ratios = [
        use_of(each, MEASURED, planned=each.run, folders=each.folders, same_devices=True).update
        for each in (_on_gpus("NVIDIA H100 80GB HBM3"), _on_gpus("NVIDIA A100-SXM4-80GB"))
    ]
    assert ratios[0] is not None and ratios[1] is not None
    # the same seconds are more times those of 989 T operations a second than of 312
    assert ratios[0] / ratios[1] == pytest.approx(989 / 312)
