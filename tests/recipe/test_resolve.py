"""Recipes become runs: layers, profiles, overrides, and every mistake at its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.resolve import Resolved, resolve
from agentgym_cli.recipe.schema.learning import FixedHorizon, StagesHorizon
from tests.recipe.builders import RECIPE, has, write_recipe

TEXTCRAFT = "recipes/textcraft_grpo.yaml"


def made(recipe: str, *overrides: str) -> Resolved:
    return resolve(recipe, overrides, survey=has())


def complaint(recipe: str, *overrides: str) -> str:
    with pytest.raises(RecipeError) as caught:
        made(recipe, *overrides)
    return str(caught.value)


def test_the_textcraft_recipe_resolves_in_profile_laptop_where_there_is_no_gpu() -> None:
    resolved = made(TEXTCRAFT)
    run = resolved.run
    assert (run.profile, run.profile_reason) == ("laptop", "no usable GPU: nvidia-smi not found")
    assert isinstance(run.horizon, StagesHorizon)
    assert run.engine.kind == "local"
    assert run.train is not None and run.warm_start is not None
    assert run.train.algorithm.clip == 0.2
    assert run.env.dialect == "textcraft"
    assert resolved.warnings == ()


@pytest.mark.parametrize(("profile", "turns", "steps"), [("gpu", (10, 20, 30), 100), ("rehearsal", (2, 3, 4), 1)])
def test_the_textcraft_recipe_resolves_in_its_cluster_profiles(profile: str, turns: tuple[int, ...], steps: int) -> None:
    run = made(TEXTCRAFT, f"profile={profile}").run
    assert run.profile == profile
    assert run.profile_reason == f"profile={profile} was asked for"
    assert run.engine.kind == "verl"
    assert run.horizon == StagesHorizon(turns=turns, steps=(steps,))


def test_overrides_win_over_the_profile_and_the_profile_over_the_recipe(tmp_path: Path) -> None:
    text = RECIPE + "profiles:\n  laptop:\n    train: {steps: 30, tasks_per_step: 3}\n"
    run = made(write_recipe(tmp_path, text), "train.steps=40").run
    assert run.train is not None
    assert (run.train.steps, run.train.tasks_per_step, run.train.learning_rate) == (40, 3, 1e-3)


def test_a_section_of_another_kind_is_replaced_as_a_whole(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, RECIPE + "profiles:\n  laptop:\n    horizon: {kind: fixed, turns: 7}\n")
    assert made(recipe).run.horizon == FixedHorizon(turns=7)
    plain = write_recipe(tmp_path, name="plain.yaml")
    assert made(plain, "horizon.kind=fixed", "horizon.turns=9").run.horizon == FixedHorizon(turns=9)


def test_a_section_of_the_same_kind_is_merged(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, RECIPE + "profiles:\n  laptop:\n    horizon: {turns: [3, 5]}\n")
    assert made(recipe).run.horizon == StagesHorizon(turns=(3, 5), steps=(10,))
    assert made(recipe, "horizon.kind=stages", "horizon.steps=[12]").run.horizon == StagesHorizon(turns=(3, 5), steps=(12,))


def test_lists_and_nulls_replace(tmp_path: Path) -> None:
    run = made(write_recipe(tmp_path), "tasks.evaluation=[{name: a}, {name: b, ids: '3'}]", "train=null", "env.world_args=[--book, laptop]").run
    assert [(split.name, split.ids) for split in run.tasks.evaluation] == [("a", None), ("b", "3")]
    assert run.train is None
    assert run.env.world_args == ("--book", "laptop")


@pytest.mark.parametrize(("text", "value"), [("5e-7", 5e-7), ("1e-3", 1e-3), ("1", 1.0), (".5", 0.5)])
def test_an_override_is_typed_as_yaml_types_it(tmp_path: Path, text: str, value: float) -> None:
    run = made(write_recipe(tmp_path), f"train.learning_rate={text}").run
    assert run.train is not None
    assert run.train.learning_rate == value


def test_a_recipe_extends_another_and_finds_the_files_of_both(tmp_path: Path) -> None:
    write_recipe(tmp_path / "base", RECIPE + "profiles:\n  laptop: {train: {steps: 30}}\n", name="base.yaml")
    child = tmp_path / "child.yaml"
    child.write_text("extends: base/base.yaml\nseed: 9\nprofiles:\n  laptop: {train: {tasks_per_step: 5}}\n  other: {}\n")
    resolved = made(str(child))
    assert resolved.run.train is not None
    assert (resolved.run.seed, resolved.run.name, resolved.run.train.steps, resolved.run.train.tasks_per_step) == (9, "toy", 30, 5)
    assert resolved.folders == (tmp_path.resolve(), (tmp_path / "base").resolve())
    assert made(str(child), "profile=other").run.profile == "other"


def test_recipes_that_extend_each_other_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("seed: 1\nextends: b.yaml\n")
    (tmp_path / "b.yaml").write_text("extends: a.yaml\n")
    a, b = tmp_path / "a.yaml", tmp_path / "b.yaml"
    assert complaint(str(a)) == f"{b}:1: extends: expected no circle, got {a} -> {b} -> {a}"


def test_a_long_chain_of_recipes_is_refused(tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / f"{number}.yaml").write_text(f"extends: {number + 1}.yaml\n")
    assert "expected at most 8 recipes that extend each other" in complaint(str(tmp_path / "0.yaml"))


def test_promise_08_every_mistake_of_a_recipe_is_shown_at_once_with_its_line(tmp_path: Path) -> None:
    text = RECIPE.replace("seed: 1", "seed: one").replace("  steps: 20", "  stepz: 20").replace("kind: stages", "kind: stage")
    path = write_recipe(tmp_path, text.replace("evaluation: {horizon: 4}", "evaluation: {horizon: 0, temperature: greedi}"))
    assert complaint(path).splitlines() == [
        "6 things in the recipe cannot be meant",
        f"  {path}:2: seed: expected an integer >= 0, got 'one'",
        f"  {path}:15: horizon.kind: expected one of fixed, stages, increment, got 'stage'; did you mean stages?",
        f"  {path}:16: train.steps: expected an integer >= 1, got nothing",
        f"  {path}:17: train.stepz: expected one of steps, tasks_per_step, learning_rate, warmup_steps, parameters, lora, algorithm, "
        "updates_per_step, passes_per_step, importance_cap, max_gradient_norm, weight_decay, checkpoint_every, keep_checkpoints, "
        "max_action_induced_share, got the unknown key 'stepz'; did you mean steps?",
        f"  {path}:21: evaluation.horizon: expected an integer >= 1, got 0",
        f"  {path}:21: evaluation.temperature: expected null or a number > 0 or greedy, got 'greedi'; did you mean greedy?",
    ]


@pytest.mark.parametrize(
    ("old", "new", "line", "text"),
    [
        ("seed: 1", "seed: -1", 2, "seed: expected an integer >= 0, got -1"),
        ("seed: 1", "seed: 1.0", 2, "seed: expected an integer >= 0, got 1.0"),
        ("seed: 1", "seed: true", 2, "seed: expected an integer >= 0, got true"),
        ("seed: 1", "seed: null", 2, "seed: expected an integer >= 0, got null"),
        ("seed: 1", "seed: 1\nsed: 1", 3, "got the unknown key 'sed'; did you mean seed?"),
        ("seed: 1\n", "", 1, "seed: expected an integer >= 0, got nothing"),
        ("name: toy", "name: a/b", 1, "name: expected text that matches ^[A-Za-z0-9][A-Za-z0-9_.-]*$ and of at most 80 characters, got 'a/b'"),
        ("  world: textcraft", "  world: textcraft\n  urls: http://a", 6, "env.urls: expected null or a list, each text, got 'http://a'"),
        (
            "  train: {name: train}",
            "  train: [train]",
            8,
            "tasks.train: expected null or a mapping of name, file, ids, exclude, categories, got ['train']",
        ),
        (
            "[{name: test}]",
            "[{name: test, id: 3}]",
            9,
            "tasks.evaluation[0].id: expected one of name, file, ids, exclude, categories, got the unknown key 'id'; did you mean ids?",
        ),
        ("[{name: test}]", "[{name: test},\n   {ids: '3'}]", 10, "tasks.evaluation[1].name: expected text"),
        (
            "[{name: test}]",
            "[]",
            9,
            "tasks.evaluation: expected a list of at least 1, each a mapping of name, file, ids, exclude, categories, got []",
        ),
        ("[{name: test}]", "[{name: test, ids: 3}]", 9, "tasks.evaluation[0].ids: expected null or text that matches"),
        ("turns: [2, 4]", "turns: [2, x]", 15, "horizon.turns[1]: expected an integer >= 1, got 'x'"),
        (
            "{kind: stages, turns: [2, 4], steps: [10]}",
            "{turns: 3}",
            15,
            "horizon: expected a mapping whose kind is one of fixed, stages, increment, got no kind",
        ),
        ("{kind: stages, turns: [2, 4], steps: [10]}", "3", 15, "horizon: expected a mapping whose kind is one of fixed, stages, increment, got 3"),
        ("learning_rate: 1e-3", "learning_rate: 0", 19, "train.learning_rate: expected a number > 0, got 0"),
        ("group_size: 2", "group_size: 1", 20, "train.algorithm.group_size: expected an integer >= 2, got 1"),
        ("group_size: 2", "group_size: 2, clip: 1.0", 20, "train.algorithm.clip: expected a number > 0 and < 1, got 1.0"),
        ("group_size: 2", "group_size: 2, normalize_std: yes", 20, "train.algorithm.normalize_std: expected true or false, got 'yes'"),
        ("stack: cpu", "stack: cpu, drift: warm", 22, "engine.drift: expected one of error, warn, got 'warm'; did you mean warn?"),
        (
            "stack: cpu",
            "stack: '${env:STACK}'",
            22,
            "engine.stack: expected a value, got '${env:STACK}'; only ${oc.env:AGENTGYM_NAME} is interpolated in a recipe",
        ),
        ("stack: cpu", "stack: '???'", 22, "engine.stack: expected a value, got '???'"),
        ("seed: 1", "seed: 1\nprofile: gpu", 3, "profile: expected no such key, got one; a profile is chosen with profile=NAME on the command line"),
        ("seed: 1", "seed: 1\nprofile_reason: why not", 3, "profile_reason: expected no such key"),
    ],
)
def test_promise_08_nothing_unknown_in_a_recipe_is_ignored(tmp_path: Path, old: str, new: str, line: int, text: str) -> None:
    assert old in RECIPE
    path = write_recipe(tmp_path, RECIPE.replace(old, new, 1))
    said = complaint(path)
    assert said.startswith(f"{path}:{line}: ")
    assert text in said


@pytest.mark.parametrize(
    ("override", "text"),
    [
        ("train.stepz=3", "override 'train.stepz=3': train.stepz: expected one of steps, "),
        ("trian.steps=3", "did you mean train?"),
        ("train.steps=many", "override 'train.steps=many': train.steps: expected an integer >= 1, got 'many'"),
        ("train.steps=", "train.steps: expected an integer >= 1, got null"),
        ("train.steps=.nan", "override 'train.steps=.nan': expected a finite number, got .nan"),
        ("train=3", "train: expected null or a mapping of steps, tasks_per_step"),
        ("seed.x=3", "override 'seed.x=3': seed: expected an integer >= 0, got a mapping of x"),
        ("+train.steps=3", "expected key=value with a key of the recipe"),
        ("train.steps", "expected key=value with a key of the recipe"),
        ("=3", "expected key=value with a key of the recipe"),
        ("train..steps=3", "expected key=value with a key of the recipe"),
        ("tasks.evaluation.0.name=x", "override 'tasks.evaluation.0.name=x': expected a key, got an element of a list"),
        ("tasks.evaluation[0].name=x", "override 'tasks.evaluation[0].name=x': expected a key, got an element of a list"),
        ("profiles.laptop.seed=3", "expected a key of the run, got profiles, which only a file can say"),
        ("extends=a.yaml", "expected a key of the run, got extends, which only a file can say"),
        ("profile_reason=x", "profile_reason: expected no such key"),
        ("profile=3", "expected profile=NAME once, got 3"),
        ("name=${oc.env:HOME}", "name: expected a variable AGENTGYM_... that names no key, token, secret or password, got 'HOME'"),
        ("name=*x", "expected plain values, got the alias *x"),
        ("name=!!str x", "expected plain values, got the tag"),
        ("description=run #3", "expected one value, got '#3' after it"),
        (
            "tasks.evaluation=[{name: a, id: 3}]",
            "override 'tasks.evaluation=[{name: a, id: 3}]': tasks.evaluation[0].id: expected one of name, file, ids",
        ),
        ("horizon.kind=fixed", "override 'horizon.kind=fixed': horizon.turns: expected an integer >= 1, got nothing"),
    ],
)
def test_promise_08_nothing_unknown_in_an_override_is_ignored(tmp_path: Path, override: str, text: str) -> None:
    assert text in complaint(write_recipe(tmp_path), override)


def test_an_override_said_twice_or_in_parts_is_refused(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    assert "override 'seed=2': expected each key once, got it beside override 'seed=1'" in complaint(recipe, "seed=1", "seed=2")
    assert "override 'train.steps=2': expected each key once, got it beside override 'train=null'" in complaint(recipe, "train=null", "train.steps=2")
    assert "expected profile=NAME once" in complaint(recipe, "profile=default", "profile=default")


def test_a_mistake_in_a_profile_that_was_not_chosen_is_shown(tmp_path: Path) -> None:
    path = write_recipe(tmp_path, RECIPE + "profiles:\n  laptop: {}\n  gpu:\n    train:\n      stepz: 3\n    cluster: {gpus_per_node: -1}\n")
    said = complaint(path)
    assert f"{path}:27: profiles.gpu.train.stepz: expected one of steps" in said
    assert f"{path}:28: profiles.gpu.cluster.gpus_per_node: expected an integer >= 0, got -1" in said


def test_a_mistake_that_a_profile_or_another_recipe_covers_is_shown(tmp_path: Path) -> None:
    path = write_recipe(tmp_path, RECIPE.replace("seed: 1", "seed: x") + "profiles:\n  laptop: {seed: 3}\n")
    assert complaint(path) == f"{path}:2: seed: expected an integer >= 0, got 'x'"
    child = tmp_path / "child.yaml"
    child.write_text("extends: toy.yaml\nseed: 4\n")
    assert complaint(str(child)) == f"{path}:2: seed: expected an integer >= 0, got 'x'"


@pytest.mark.parametrize(
    ("profiles", "text"),
    [
        ("profiles: [gpu]", "profiles: expected a mapping of profiles, got ['gpu']"),
        ("profiles: {laptop: null}", "profiles.laptop: expected a mapping (empty: {}), got null"),
        ("profiles: {laptop: {extends: b.yaml}}", "profiles.laptop.extends: expected one of name, "),
        ("profiles: {laptop: {profile: gpu}}", "profiles.laptop.profile: expected no such key"),
        ("extends: 3", "extends: expected the path of one recipe, got 3"),
        ("extends: nowhere.yaml", "extends: expected a file or folder beside the recipe, in the current folder or shipped, got 'nowhere.yaml'"),
    ],
)
def test_broken_profiles_and_extends_are_refused(tmp_path: Path, profiles: str, text: str) -> None:
    path = write_recipe(tmp_path, f"{RECIPE}{profiles}\n")
    assert complaint(path).startswith(f"{path}:23: {text}")


@pytest.mark.parametrize(
    ("override", "text"),
    [
        ("env.world=null", "env: expected urls of running servers or the name of a world to serve, got neither"),
        ("env.urls=[]", "env.urls: expected at least one address or null, got an empty list"),
        ("env.urls=[http://a, ftp://b]", "env.urls[1]: expected http://HOST:PORT or https://HOST:PORT, got 'ftp://b'"),
        ("horizon.turns=[4, 2]", "horizon.turns[1]: expected a horizon that never falls, got 2 after 4"),
        ("horizon.steps=[1, 2, 3]", "horizon.steps: expected 1, 1 or 2 lengths for 2 stages, got 3"),
        ("horizon={kind: increment, start: 5, increment: 1, every: 1, cap: 4}", "horizon.cap: expected at least start (5), got 4"),
        ("budgets.response_tokens=32768", "budgets.response_tokens: expected less than context_tokens (32768), got 32768"),
        ("train.updates_per_step=5", "train.updates_per_step: expected at most the 4 episodes of a step, got 5"),
        ("tasks.evaluation=[{name: a}, {name: a}]", "tasks.evaluation[1].name: expected each split once, got 'a' again"),
        ("tasks.train=null", "tasks.train: expected a split to train on, got null"),
        (
            "horizon={kind: fixed, turns: 3277}",
            "horizon: expected at most 3276 turns, which is what fits 32768 tokens of context at 10 a turn, got 3277",
        ),
        (
            "evaluation.horizon=3277",
            "evaluation.horizon: expected at most 3276 turns, which is what fits 32768 tokens of context at 10 a turn, got 3277",
        ),
        ("cluster.gpus_per_node=8", "cluster: expected what engine local can do, got cluster; engine verl can"),
        ("policy.sampling.top_p=0.9", "policy.sampling.top_p: expected what engine local can do, got 0.9; engine verl can"),
        ("policy.sampling.top_k=2", "policy.sampling.top_k: expected what engine local can do, got 2; engine verl can"),
        ("policy.sampling.top_p=0.5", "policy.sampling.top_p: expected what engine local can do, got 0.5; engine verl can"),
        ("engine.kind=verl", "engine.kind: expected local, or verl beside a section cluster that says how many GPUs it has, got verl without one"),
    ],
)
def test_values_that_do_not_fit_each_other_are_refused(tmp_path: Path, override: str, text: str) -> None:
    assert complaint(write_recipe(tmp_path), override) == f"override '{override}': {text}"


@pytest.mark.parametrize("steps", ["[10]", "[10, 10]"])
def test_both_ways_to_write_stage_lengths_are_accepted(tmp_path: Path, steps: str) -> None:
    assert made(write_recipe(tmp_path), f"horizon.steps={steps}").warnings == ()


@pytest.mark.parametrize(
    ("overrides", "last"),
    [
        (["train.steps=10"], 10),
        (["horizon={kind: stages, turns: [2, 4, 6], steps: [5, 15]}"], 20),
        (["horizon={kind: stages, turns: [2, 4, 6], steps: [10]}"], 20),
    ],
)
def test_a_stage_that_no_step_reaches_is_a_warning(tmp_path: Path, overrides: list[str], last: int) -> None:
    recipe = write_recipe(tmp_path)
    (warning,) = made(recipe, *overrides).warnings
    assert f"horizon: expected every stage to be reached, got {last} steps where the last stage starts after step {last}" in warning
    more = [override for override in overrides if not override.startswith("train.steps")]
    assert made(recipe, *more, f"train.steps={last + 1}").warnings == ()


def test_an_increment_that_never_reaches_its_cap_is_a_warning(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    horizon = "horizon={kind: increment, start: 2, increment: 3, every: 5, cap: 10}"
    (warning,) = made(recipe, horizon, "train.steps=15").warnings
    assert "horizon: expected the cap to be reached, got 15 steps where it is reached after step 15" in warning
    assert made(recipe, horizon, "train.steps=16").warnings == ()


def test_a_missing_recipe_names_the_nearest_shipped_one() -> None:
    with pytest.raises(RecipeError) as caught:
        resolve("recipes/textcraft_gpro.yaml", survey=has())
    assert "recipe: expected a file or folder" in str(caught.value)
    assert caught.value.hint == "did you mean recipes/textcraft_grpo.yaml?"


def test_environment_variables_reach_no_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = write_recipe(tmp_path)
    before = made(recipe).run
    monkeypatch.setenv("AGENTGYM_SEED", "5")
    monkeypatch.setenv("SEED", "5")
    assert made(recipe).run == before


@pytest.mark.parametrize("name", ["textcraft_grpo", "textcraft_ppo", "textcraft_rloo", "textcraft_reinforce_pp"])
@pytest.mark.parametrize("profile", ["laptop", "gpu4", "gpu2", "gpu1", "rehearsal"])
def test_every_profile_is_of_its_recipes_algorithm(name: str, profile: str) -> None:
    real, other = (resolve(f"{name}.yaml", [f"profile={each}"]).run.train for each in ("gpu", profile))
    assert real is not None and other is not None
    assert other.algorithm.kind == real.algorithm.kind
