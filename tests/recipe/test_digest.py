"""Which keys of a run its digest covers: every one but those that are declared to change nothing, however the run was written."""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentgym_cli.recipe.canonical import canonical_json
from agentgym_cli.recipe.freeze import Frozen, config_of
from agentgym_cli.recipe.frozen_file import parse_frozen
from agentgym_cli.recipe.problems import validated
from agentgym_cli.recipe.yaml import parse_yaml
from tests.recipe.any_run import Key, any_run, changes, replaced, run_of

DECLARED = (
    "budgets.run_cost",
    "budgets.run_tokens",
    "cluster.ray_address",
    "description",
    "engine.memory_check",
    "env.token_variable",
    "env.urls",
    "policy.endpoint.key_variable",
    "policy.endpoint.max_in_flight",
    "policy.endpoint.requests_per_minute",
    "policy.endpoint.tokens_per_minute",
    "policy.endpoint.url",
    "train.keep_checkpoints",
    "profile_reason",
    "store.database",
    "store.keep_tokens",
    "store.runs_dir",
)
HORIZONS: dict[str, dict[str, Any]] = {
    "fixed": {"kind": "fixed", "turns": 5},
    "stages": {"kind": "stages", "turns": [2, 4], "steps": [10]},
    "increment": {"kind": "increment", "start": 2, "increment": 2, "every": 10, "cap": 8},
}
ALGORITHMS: dict[str, dict[str, Any]] = {
    "grpo": {"kind": "grpo", "group_size": 2},
    "rloo": {"kind": "rloo", "group_size": 2},
    "reinforce_plus_plus": {"kind": "reinforce_plus_plus"},
    "ppo": {"kind": "ppo", "critic_learning_rate": 1e-5},
}
KINDS = [("fixed", "grpo"), ("stages", "rloo"), ("increment", "reinforce_plus_plus"), ("stages", "ppo")]
"""Every kind once, each beside some other."""


def everything(horizon: str, algorithm: str) -> Any:
    """A run that has every section and something in every list, as plain values with all defaults."""
    return plain(
        {
            "name": "toy",
            "profile": "laptop",
            "profile_reason": "asked for",
            "seed": 1,
            "about": {
                "expected": [{"model": "m", "split": "test", "percent": 50.0, "tasks": 100, "source": "table 1"}],
                "discrepancies": ["one"],
                "reported_overlaps": [{"split": "test", "tasks": 3, "source": "a thread"}],
            },
            "env": {"dialect": "textcraft", "urls": ["http://127.0.0.1:1"], "world": "textcraft", "world_args": ["--book", "laptop"]},
            "tasks": {"manifest": "tasks.csv", "train": {"name": "train"}, "evaluation": [{"name": "test", "categories": ["depth"]}]},
            "prompt": {},
            "budgets": {},
            "retry": {},
            "policy": {"model": {"path": "model"}, "endpoint": {"url": "http://127.0.0.1:1/v1", "model": "m", "stop": ["end"]}},
            "horizon": HORIZONS[horizon],
            "warm_start": {"steps": 1, "demonstrations": 1, "demonstrations_per_step": 1, "learning_rate": 1e-3, "max_turns": 4},
            "train": {"steps": 20, "tasks_per_step": 2, "learning_rate": 1e-3, "algorithm": ALGORITHMS[algorithm]},
            "evaluation": {"horizon": 4, "only": {"ids": "1-2", "categories": ["depth"], "splits": ["test"]}},
            "engine": {"stack": "cpu"},
            "cluster": {"gpus_per_node": 0},
        }
    )


def plain(data: Any) -> Any:
    return json.loads(canonical_json(config_of(run_of(data))))


def frozen(data: Any) -> Frozen:
    parts = {"prompt": {"none": "says nothing"}, "rules": {"outcome table": "0" * 64}}
    return Frozen(run=run_of(data), parts=parts, recipe="toy.yaml", folders=(), warnings=())


def _keys() -> dict[str, tuple[tuple[str, str], Key]]:
    """Every key that a run can have, by name, with the kinds of a run that has it."""
    return {".".join(map(str, at)): (kinds, at) for kinds in reversed(KINDS) for at, _ in changes(everything(*kinds))}


KEYS = _keys()


@cache
def unchanged(kinds: tuple[str, str]) -> tuple[Any, dict[Key, st.SearchStrategy[Any]], str]:
    run = everything(*kinds)
    return run, dict(changes(run)), frozen(run).digest


@pytest.mark.slow
@pytest.mark.parametrize("key", KEYS)
@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_promise_07_another_value_of_a_key_is_another_digest_exactly_when_it_is_declared_to_be(key: str, data: st.DataObject) -> None:
    kinds, at = KEYS[key]
    run, others, digest = unchanged(kinds)
    other = data.draw(others[at])
    outside = key in DECLARED or key.startswith("about.")
    assert (frozen(replaced(run, at, other)).digest == digest) == outside


def test_the_keys_that_are_changed_are_all_that_a_run_has() -> None:
    leaves = {key for horizon, algorithm in KINDS for key in _leaves(everything(horizon, algorithm))}
    tried = {tuple(key.split(".")) for key in KEYS}
    # The kind of a section changes with the section; a list of plain values changes as a whole.
    left = {leaf for leaf in leaves - tried if leaf[-1] != "kind" and leaf[:-1] not in tried}
    assert left == set()
    assert {("engine", "kind"), ("train",), ("cluster",), ("horizon",), ("about", "expected", "0", "percent"), ("retry", "causes")} <= tried


def _leaves(data: Any, at: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if isinstance(data, dict) and data:
        return [leaf for key, inner in data.items() for leaf in _leaves(inner, (*at, key))]
    if isinstance(data, list) and data:
        return [leaf for number, inner in enumerate(data) for leaf in _leaves(inner, (*at, str(number)))]
    return [at]


@pytest.mark.parametrize(
    ("at", "item"),
    [
        (("budgets", "response_tokens"), "rules"),
        (("evaluation", "horizon"), "rules"),
        (("horizon", "turns"), "rules"),
        (("retry", "attempts"), "rules"),
        (("reward", "scale"), "rules"),
        (("seed",), "seeds"),
    ],
)
def test_rules_and_seeds_have_an_item_of_their_own(at: tuple[str, ...], item: str) -> None:
    run = everything("fixed", "grpo")
    before, after = frozen(run), frozen(replaced(run, at, 77))
    assert {name for name in before.items if before.items[name] != after.items[name]} == {"config", item}


@pytest.mark.slow
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=any_run())
def test_from_yaml_to_a_run_to_json_and_back_is_the_identity(data: Any) -> None:
    chosen = {key: data.pop(key) for key in ("profile", "profile_reason")}
    read = parse_yaml(json.dumps(data, ensure_ascii=False), Path("toy.yaml")).data
    run = validated(read, profile=chosen["profile"], reason=chosen["profile_reason"])
    written = frozen(data | chosen).to_json()
    again = parse_frozen(written, where="f.json")
    assert again.run == run
    assert again.to_json() == written


@pytest.mark.slow
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=any_run(), seed=st.integers(0, 2**32))
def test_the_order_of_keys_changes_nothing(data: Any, seed: int) -> None:
    assert frozen(_shuffled(data, random.Random(seed))).digest == frozen(data).digest


def _shuffled(value: Any, order: random.Random) -> Any:
    if isinstance(value, dict):
        keys = list(value)
        order.shuffle(keys)
        return {key: _shuffled(value[key], order) for key in keys}
    return [_shuffled(inner, order) for inner in value] if isinstance(value, list) else value


def test_floats_are_written_exactly() -> None:
    assert canonical_json({"b": [5e-7, 0.1, 1.0, None], "a": "ü"}) == '{"a":"ü","b":[5e-07,0.1,1.0,null]}'
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json(float("nan"))
