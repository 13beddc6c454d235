"""What recipes mean before anything starts: the list, the stages against budgets, and what resumes go on with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_cli.cli.show_recipe import show_recipes, show_resolved, show_schema
from agentgym_cli.errors import RecipeError
from agentgym_cli.learn.schedules import horizon_at, spans, steps_after
from agentgym_cli.recipe.canonical import canonical_json
from agentgym_cli.recipe.freeze import config_of
from agentgym_cli.recipe.resolve import resolve
from agentgym_cli.recipe.schema.learning import FixedHorizon, HorizonSpec, IncrementHorizon, StagesHorizon
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.recipe.yaml import dump_yaml, parse_yaml
from agentgym_cli.verbs.recipes import ListedRecipe, list_recipes, short_horizon, show_target
from agentgym_cli.verbs.stages import MOST_ROWS, StageRow, plan_of
from tests.recipe.builders import RECIPE, has, write_recipe

pytestmark = pytest.mark.slow

HORIZONS = st.one_of(
    st.builds(FixedHorizon, turns=st.integers(1, 40)),
    st.lists(st.integers(1, 40), min_size=1, max_size=5)
    .map(sorted)
    .flatmap(
        lambda turns: st.builds(
            StagesHorizon,
            turns=st.just(tuple(turns)),
            steps=st.one_of(
                st.tuples(st.integers(1, 30)),
                st.lists(st.integers(1, 30), min_size=len(turns), max_size=len(turns)).map(tuple),
            ),
        )
    ),
    st.builds(IncrementHorizon, start=st.integers(1, 10), increment=st.integers(1, 5), every=st.integers(1, 9), cap=st.integers(10, 40)),
)


def run_of(path: str, *overrides: str) -> Run:
    return resolve(path, overrides, survey=has()).run


@pytest.mark.parametrize(
    ("horizon", "short"),
    [
        (FixedHorizon(turns=30), "30"),
        (StagesHorizon(turns=(10, 20, 30), steps=(100,)), "10>20>30"),
        (IncrementHorizon(start=5, increment=2, every=80, cap=15), "5+2..15"),
    ],
)
def test_a_horizon_in_short(horizon: HorizonSpec, short: str) -> None:
    assert short_horizon(horizon) == short


def test_stages_are_set_against_planned_steps_and_context(tmp_path: Path) -> None:
    run = run_of(write_recipe(tmp_path), "horizon.turns=[10, 20, 30]", "horizon.steps=[8]", "budgets={response_tokens: 512, context_tokens: 10752}")
    # 20 steps are planned; 10,752 tokens hold 21 responses of 512
    assert plan_of(run).stages == (
        StageRow(first=1, last=8, turns=10, tokens_per_turn=1075, full_turns=10),
        StageRow(first=9, last=16, turns=20, tokens_per_turn=537, full_turns=20),
        StageRow(first=17, last=20, turns=30, tokens_per_turn=358, full_turns=21),
    )


def test_an_interruption_at_a_stage_boundary_skips_nothing(tmp_path: Path) -> None:
    run = run_of(write_recipe(tmp_path), "horizon.turns=[10, 20, 30]", "horizon.steps=[8]", "train.checkpoint_every=5")
    rows = plan_of(run).resumes
    assert [row.after for row in rows] == [5, 7, 8, 9, 15, 16, 17, 19]
    assert all(row.same for row in rows)
    assert rows[2].spans == ((9, 16, 20), (17, 20, 30))
    assert rows[-1].spans == ((20, 20, 30),)


@given(HORIZONS, st.integers(1, 120), st.data())
def test_promise_06_any_interruption_gives_the_sequence_of_an_uninterrupted_run(schedule: HorizonSpec, steps: int, data: st.DataObject) -> None:
    planned = list(steps_after(schedule, after=0, steps=steps))
    after = data.draw(st.integers(0, steps - 1))
    assert planned[:after] + list(steps_after(schedule, after=after, steps=steps)) == planned
    assert planned == [(step, horizon_at(schedule, step)) for step in range(1, steps + 1)]


@given(HORIZONS)
def test_promise_06_no_horizon_ever_falls(schedule: HorizonSpec) -> None:
    turns = [turns for _, _, turns in spans(schedule, after=0, steps=400)]
    assert turns == sorted(turns)


@given(st.integers(1, 10), st.integers(1, 5), st.integers(1, 9), st.integers(10, 40))
def test_a_growing_horizon_begins_at_its_start_and_stays_at_its_cap(start: int, increment: int, every: int, cap: int) -> None:
    schedule = IncrementHorizon(start=start, increment=increment, every=every, cap=cap)
    turns = [turns for _, _, turns in spans(schedule, after=0, steps=400)]
    assert (turns[0], turns[-1]) == (start, cap)


@pytest.fixture(scope="module")
def shipped() -> list[ListedRecipe]:
    return list_recipes()


def test_the_list_has_every_shipped_recipe_once(shipped: list[ListedRecipe]) -> None:
    listed = {each.recipe: each for each in shipped}
    assert len(listed) == len(shipped)
    assert {"recipes/textcraft_grpo.yaml", "recipes/textcraft_big.yaml"} <= set(listed)
    grpo = listed["recipes/textcraft_grpo.yaml"]
    assert (grpo.run.profile, grpo.turns, grpo.profiles) == ("gpu", "10>20>30", ("laptop", "gpu", "gpu4", "gpu2", "gpu1", "rehearsal", "endpoint"))
    assert listed["recipes/textcraft_big.yaml"].turns == "60"


def test_a_recipe_is_shown_without_the_lists_that_a_digest_needs(tmp_path: Path) -> None:
    text = RECIPE.replace("  train: {name: train}", "  train: {name: train, file: theirs.json}")
    shown = show_target(write_recipe(tmp_path, text), [])
    assert shown.digest is None
    assert "theirs.json" in (shown.why_no_digest or "")
    assert len(shown.plan.stages) == 2


def test_a_recipe_that_this_machine_cannot_run_is_shown_all_the_same(tmp_path: Path) -> None:
    gpu = "profiles:\n  gpu: {train: {tasks_per_step: 4}, engine: {kind: verl}, cluster: {gpus_per_node: 8, gpu_memory_gib: 8000}}\n  other: {}\n"
    path = write_recipe(tmp_path, RECIPE + gpu)
    assert show_target(path, []).run.profile == "gpu"
    assert show_target(path, ["profile=other"]).run.profile == "other"
    with pytest.raises(RecipeError, match="expected a choice among gpu, other"):
        resolve(path, survey=has())


def test_a_frozen_run_is_shown_as_it_was_frozen(tmp_path: Path) -> None:
    shown = show_target(write_recipe(tmp_path), ["train.steps=3"])
    assert shown.run.train is not None
    assert (shown.run.train.steps, len(shown.digest or "")) == (3, 64)
    with pytest.raises(RecipeError, match="expected a file or folder"):
        show_target("nothing.json", [])


def test_pages_are_readable_at_80_columns(tmp_path: Path, shipped: list[ListedRecipe], capsys: pytest.CaptureFixture[str]) -> None:
    show_recipes(shipped, as_json=False)
    show_schema(as_json=False)
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80
    show_resolved(show_target(write_recipe(tmp_path), ["description='[red]not red[/red]'"]), as_json=False)
    said = capsys.readouterr().out
    assert "[red]not red[/red]" in said
    assert "steps" in said
    assert "as uninterrupted" in said


def test_a_plan_of_endless_steps_is_shown_at_once_and_what_is_cut_is_counted(tmp_path: Path) -> None:
    endless = run_of(write_recipe(tmp_path), "train.steps=9000000000000000000")
    assert plan_of(endless).stages[-1].last == 9_000_000_000_000_000_000
    growing = run_of(write_recipe(tmp_path), "train.steps=330", "horizon={kind: increment, start: 1, increment: 1, every: 1, cap: 300}")
    plan = plan_of(growing)
    assert (len(plan.stages), plan.more_stages) == (MOST_ROWS, 300 - MOST_ROWS)
    assert [row.after for row in plan.resumes][-1] == 329
    assert all(row.same for row in plan.resumes)


def test_what_is_shown_is_yaml_that_reads_back(tmp_path: Path) -> None:
    run = run_of(write_recipe(tmp_path), "train.learning_rate=5e-7", "description='yes: 1e3 [x] \u00e9'", "env.urls=[http://a, http://b]")
    text = dump_yaml(config_of(run))
    assert parse_yaml(text, tmp_path).data == json.loads(canonical_json(config_of(run)))
    assert max(map(len, text.splitlines())) <= 80
