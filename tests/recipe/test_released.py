"""The released experiments: every number of a recipe is the one that the script or the paper has, typed in here a second time."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from agentgym_cli.env.dialect import load_dialect
from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.data import shipped_root
from agentgym_cli.recipe.freeze import freeze
from agentgym_cli.recipe.resolve import Resolved, resolve
from agentgym_cli.recipe.schema.learning import FixedHorizon, StagesHorizon
from agentgym_cli.recipe.tasks import TaskLists, select_tasks
from tests.recipe.builders import has

pytestmark = pytest.mark.slow

FOLDER = shipped_root() / "recipes" / "agentgym_rl"
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml") if path.stem != "base")
TRAIN_TASKS = {"textcraft": 374, "babyai": 810, "sciworld": 2120, "searchqa": 169_615, "webarena": 372}
TEST_TASKS = {"textcraft": 100, "babyai": 90, "sciworld": 200, "searchqa": 400, "webarena": 50}

# script: rounds, steps a stage (None: fixed), n, train batch, ppo mini batch, epochs, prompt and response tokens, tokens a turn, total steps
SCRIPTS = {
    "textcraft_fixed": ([30], None, 8, 32, 8, 30, 512, 10240, 512, 330),
    "babyai_fixed": ([20], None, 8, 16, 8, 10, 1024, 4096, 200, 500),
    "sciworld_fixed": ([20], None, 8, 16, 8, 10, 1024, 4096, 200, 1320),
    "searchqa_fixed": ([5], None, 4, 32, 8, 20, 1024, 8192, 512, 106_000),
    "webarena_fixed": ([15], None, 4, 32, 4, 25, 750, 14098, 512, 275),
    "textcraft_scaling": ([10, 20, 30], 100, 8, 32, 8, 30, 512, 10240, 512, 330),
    "babyai_scaling": ([6, 13, 20], 100, 4, 32, 8, 20, 512, 8192, 512, 500),
    "sciworld_scaling": ([10, 20, 30], 100, 8, 16, 8, 10, 1024, 8192, 200, 1320),
    "searchqa_scaling": ([5, 8, 10], 100, 4, 32, 8, 20, 1024, 8192, 512, 106_000),
    "webarena_scaling": ([8, 12, 15], 80, 4, 32, 4, 25, 750, 14098, 512, 275),
}
# script: turns, prompt and response tokens, tokens a turn
EVALUATIONS = {
    "textcraft_eval": (30, 750, 14098, 512),
    "babyai_eval": (20, 512, 8192, 512),
    "sciworld_eval": (30, 1024, 8192, 200),
    "searchqa_eval": (30, 750, 14098, 512),
    "webarena_eval": (15, 750, 14098, 512),
}
# what the paper has in place of the script's: turns in training, in evaluation, episodes a task, learning rate
PAPER = {
    "textcraft_fixed_paper": ([20], 20, 8, 1e-6),
    "textcraft_scaling_paper": ([10, 20], 20, 8, 1e-6),
    "babyai_scaling_paper": ([6, 13, 20], 20, 8, 1e-6),
    "sciworld_fixed_paper": ([20], 20, 8, 1e-6),
    "sciworld_scaling_paper": ([10, 20], 20, 8, 1e-6),
    "searchqa_fixed_paper": ([4], 4, 8, 1e-6),
    "searchqa_scaling_paper": ([5, 8, 10], 4, 8, 1e-6),
    "webarena_fixed_paper": ([15], 15, 4, 5e-7),
    "webarena_scaling_paper": ([8, 12, 15], 15, 4, 5e-7),
}
# percent and how many tasks were solved, of how many: before training, AgentGym-RL-7B, ScalingInter-7B
RESULTS = {
    "textcraft": ((42, 42, 100), (89, 89, 100), (91, 91, 100)),
    "babyai": ((66.67, 60, 90), (92.22, 83, 90), (96.67, 87, 90)),
    "sciworld": ((1.5, 3, 200), (50.5, 101, 200), (57.0, 114, 200)),
    "searchqa": ((18.8, 75, 400), (34.0, 136, 400), (38.3, 153, 400)),
    "webarena": ((9.76, 4, 41), (22.0, 11, 50), (26.0, 13, 50)),
}
MODELS = ("Qwen2.5-7B", "AgentGym-RL-7B", "ScalingInter-7B")
FORMATS = {"textcraft": "react", "babyai": "react", "sciworld": "react", "searchqa": "plain", "webarena": "code_block"}


@cache
def released(name: str, profile: str = "gpu") -> Resolved:
    return resolve(f"recipes/agentgym_rl/{name}.yaml", [f"profile={profile}"], survey=has())


def env_of(name: str) -> str:
    return name.partition("_")[0]


def turns_of(horizon: object) -> list[int]:
    assert isinstance(horizon, FixedHorizon | StagesHorizon)
    return list(horizon.turns) if isinstance(horizon, StagesHorizon) else [horizon.turns]


def lists_of(name: str, *beside: Path) -> TaskLists:
    return select_tasks(released(name).run.tasks, env=env_of(name), beside=beside)


def publish(folder: Path, file: str, numbers: range) -> None:
    """Write a list of ids as the data set has them."""
    (folder / file).write_text(json.dumps([{"item_id": f"{env_of(file)}_{number}"} for number in numbers]))


def test_every_script_and_every_disagreement_of_the_paper_has_a_recipe() -> None:
    assert sorted([*SCRIPTS, *EVALUATIONS, *PAPER]) == NAMES


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_training_recipe_has_the_numbers_of_its_script(name: str) -> None:
    rounds, every, n, batch, mini, epochs, prompt, response, turn, total = SCRIPTS[name]
    run = released(name).run
    assert run.train is not None
    assert turns_of(run.horizon) == rounds
    assert (run.horizon.steps if isinstance(run.horizon, StagesHorizon) else None) == (None if every is None else (every,))
    assert (run.train.algorithm.kind, run.train.algorithm.group_size, run.train.tasks_per_step) == ("grpo", n, batch)
    assert run.train.tasks_per_step // run.train.updates_per_step == mini
    assert run.train.passes_per_step == 1
    assert (run.budgets.context_tokens, run.budgets.response_tokens) == (prompt + response, turn)
    assert run.train.steps == total == TRAIN_TASKS[env_of(name)] // batch * epochs
    assert run.evaluation.horizon == EVALUATIONS[f"{env_of(name)}_eval"][0]


@pytest.mark.parametrize("name", [*SCRIPTS, *PAPER])
def test_all_training_recipes_share_what_all_scripts_share(name: str) -> None:
    run = released(name).run
    assert run.train is not None
    algorithm = run.train.algorithm
    assert algorithm.kind == "grpo"
    assert (algorithm.clip, algorithm.kl_coefficient, algorithm.entropy_coefficient) == (0.2, 0.001, 0.001)
    assert (algorithm.normalize_std, algorithm.average) == (True, "episode")
    assert run.train.learning_rate == (PAPER[name][3] if name in PAPER else 1e-6)
    assert (run.train.max_gradient_norm, run.train.checkpoint_every, run.train.warmup_steps, run.train.weight_decay) == (1.0, 25, 0, 0.01)
    assert run.policy.model.path == "Qwen/Qwen2.5-7B-Instruct"
    assert run.policy.model.revision == "a09a35458c702b33eeacc393d103063234e8bc28"
    assert (run.policy.sampling.temperature, run.policy.sampling.top_p, run.policy.sampling.top_k) == (1.0, 1.0, 0)
    assert run.env.urls == ("http://127.0.0.1:36005",)
    assert run.warm_start is None


@pytest.mark.parametrize("name", EVALUATIONS)
def test_an_evaluation_recipe_has_the_numbers_of_its_script(name: str) -> None:
    turns, prompt, response, turn = EVALUATIONS[name]
    run = released(name).run
    assert run.train is None
    assert run.tasks.train is None
    assert (run.evaluation.horizon, turns_of(run.horizon)) == (turns, [turns])
    assert (run.budgets.context_tokens, run.budgets.response_tokens) == (prompt + response, turn)
    assert (run.evaluation.samples_per_task, run.evaluation.temperature, run.evaluation.protocol) == (1, 1.0, "agentgym-rl")
    assert (run.evaluation.limit, run.evaluation.every) == (None, None)


@pytest.mark.parametrize("name", PAPER)
def test_a_recipe_of_the_paper_differs_from_the_script_in_what_the_paper_says_alone(name: str) -> None:
    turns, evaluated, samples, learning_rate = PAPER[name]
    run, script = released(name).run, released(name.removesuffix("_paper")).run
    assert run.train is not None
    assert script.train is not None
    assert (turns_of(run.horizon), run.evaluation.horizon, run.train.algorithm.group_size) == (turns, evaluated, samples)
    assert run.train.learning_rate == learning_rate
    assert (run.train.steps, run.train.tasks_per_step, run.train.updates_per_step, run.budgets, run.tasks, run.env, run.policy) == (
        (script.train.steps, script.train.tasks_per_step, script.train.updates_per_step, script.budgets, script.tasks, script.env, script.policy)
    )
    assert (run.horizon, run.evaluation, run.train) != (script.horizon, script.evaluation, script.train)


@pytest.mark.parametrize("name", NAMES)
def test_a_released_recipe_reads_actions_in_a_format_of_its_dialect(name: str) -> None:
    run = released(name).run
    assert (run.env.dialect, run.prompt.action_format) == (env_of(name), FORMATS[env_of(name)])
    assert run.prompt.action_format in load_dialect(run.env.dialect).rules().actions
    assert run.prompt.system is None


@pytest.mark.parametrize("name", NAMES)
def test_a_released_recipe_asks_for_eight_gpus_and_leaves_nothing_to_doubt(name: str) -> None:
    resolved = released(name)
    run = resolved.run
    assert run.cluster is not None
    assert (run.engine.kind, run.engine.stack, run.engine.drift) == ("verl", "verl-cuda", "error")
    assert (run.cluster.nodes, run.cluster.gpus_per_node, run.cluster.gpu_memory_gib) == (1, 8, 80)
    assert resolved.warnings == ()


@pytest.mark.parametrize("name", ["textcraft_fixed", "searchqa_eval", "webarena_scaling_paper"])
def test_a_released_recipe_has_a_rehearsal_without_gpus(name: str) -> None:
    run, real = released(name, "rehearsal").run, released(name).run
    assert run.cluster is not None
    assert (run.engine.kind, run.engine.stack, run.cluster.gpus_per_node) == ("verl", "verl-cpu", 0)
    assert (run.train, run.horizon, run.tasks, run.budgets) == (real.train, real.horizon, real.tasks, real.budgets)


@pytest.mark.parametrize("name", NAMES)
def test_a_released_recipe_says_where_it_is_from_and_what_was_reported(name: str) -> None:
    about = released(name).run.about
    assert about.source is not None
    assert about.hardware is not None
    assert "82402a99c62a293735a3f412fb8ac9a600673bc0" in about.source
    assert "2509.08755" in about.source
    assert "8 GPUs" in about.hardware
    assert len(about.discrepancies) >= 5
    assert len(set(about.discrepancies)) == len(about.discrepancies)
    assert (FOLDER / f"{name}.yaml").read_text().startswith("# ")


@pytest.mark.parametrize("name", NAMES)
def test_expected_results_are_those_of_the_tables(name: str) -> None:
    rows = RESULTS[env_of(name)]
    wanted = {"fixed": (0, 1), "scaling": (0, 2), "eval": (0, 1, 2)}[name.split("_")[1]]
    expected = released(name).run.about.expected
    assert [(each.model, each.percent, each.tasks, each.split) for each in expected] == [
        (MODELS[place], rows[place][0], rows[place][2], "test") for place in wanted
    ]


@pytest.mark.parametrize(("percent", "solved", "tasks"), [row for rows in RESULTS.values() for row in rows])
def test_a_reported_percentage_is_a_whole_number_of_tasks(percent: float, solved: int, tasks: int) -> None:
    assert abs(100 * solved / tasks - percent) <= 0.051


def test_every_scaling_recipe_differs_from_its_fixed_one_in_the_turns_and_where_the_scripts_do() -> None:
    keys = ("train", "budgets", "tasks", "env", "policy", "reward", "evaluation", "prompt", "retry")
    runs = {name: released(name).run for name in SCRIPTS}
    differing = {env: [key for key in keys if getattr(runs[f"{env}_fixed"], key) != getattr(runs[f"{env}_scaling"], key)] for env in TRAIN_TASKS}
    assert differing == {"textcraft": [], "babyai": ["train", "budgets"], "sciworld": ["budgets"], "searchqa": [], "webarena": []}


def test_the_published_test_split_of_textcraft_is_exact() -> None:
    rows = lists_of("textcraft_eval").evaluation["test"]
    depths = [sum(first <= row.index <= last for row in rows) for first, last in ((0, 139), (140, 419), (420, 532), (533, 543))]
    assert (len(rows), depths) == (100, [31, 41, 25, 3])


def test_textcraft_draws_from_the_documented_ranges_and_says_so_where_the_published_list_is_not_there(tmp_path: Path) -> None:
    lists = lists_of("textcraft_fixed", tmp_path)
    assert len(lists.train) == 437 == (139 - 31 + 1) + (419 - 181 + 1) + (532 - 445 + 1) + 1
    assert [warning for warning in lists.warnings if "textcraft_train.json" in warning and "437 tasks" in warning]


def test_textcraft_takes_the_published_list_where_it_is_there(tmp_path: Path) -> None:
    publish(tmp_path, "textcraft_train.json", range(31, 140))
    lists = lists_of("textcraft_fixed", tmp_path)
    assert [row.index for row in lists.train] == list(range(31, 140))
    assert not [warning for warning in lists.warnings if "textcraft_train.json" in warning]


def test_the_documented_range_of_searchqa_holds_as_many_tasks_as_the_training_list(tmp_path: Path) -> None:
    publish(tmp_path, "searchqa_test.json", range(400))
    lists = lists_of("searchqa_fixed", tmp_path)
    assert (len(lists.train), len(lists.evaluation["test"])) == (169_615, 400)


@pytest.mark.parametrize("env", ["babyai", "sciworld", "searchqa", "webarena"])
def test_promise_09_a_list_that_a_person_must_supply_is_asked_for_by_name(env: str, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=f"{env}_test.json"):
        lists_of(f"{env}_eval", tmp_path)


@pytest.mark.parametrize("env", ["babyai", "sciworld", "webarena"])
def test_promise_09_no_range_of_tasks_stands_in_for_a_training_list_that_is_not_documented(env: str, tmp_path: Path) -> None:
    publish(tmp_path, f"{env}_test.json", range(50))
    with pytest.raises(RecipeError, match=f"{env}_train.json"):
        lists_of(f"{env}_fixed", tmp_path)


@pytest.mark.parametrize("env", ["babyai", "sciworld", "searchqa", "webarena"])
def test_promise_07_a_recipe_freezes_with_the_lists_that_a_person_supplies(env: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    publish(tmp_path, f"{env}_train.json", range(100, 140))
    publish(tmp_path, f"{env}_test.json", range(30))
    frozen = freeze(released(f"{env}_scaling"))
    assert (frozen.parts["tasks.train"]["count"], frozen.parts["tasks.evaluation.test"]["count"]) == ("40", "30")
    publish(tmp_path, f"{env}_test.json", range(31))
    assert freeze(released(f"{env}_scaling")).digest != frozen.digest


def test_a_published_list_of_another_environment_is_refused(tmp_path: Path) -> None:
    publish(tmp_path, "sciworld_train.json", range(10))
    (tmp_path / "sciworld_train.json").rename(tmp_path / "babyai_train.json")
    publish(tmp_path, "babyai_test.json", range(20, 30))
    with pytest.raises(RecipeError, match="expected babyai_NUMBER"):
        lists_of("babyai_fixed", tmp_path)


def test_the_reported_overlap_of_scienceworld_is_said_with_its_source() -> None:
    overlaps = {name: released(name).run.about.reported_overlaps for name in NAMES}
    assert {env_of(name) for name, notes in overlaps.items() if notes} == {"sciworld"}
    (note,) = overlaps["sciworld_scaling"]
    assert (note.split, note.tasks) == ("test", 61)
    assert "AgentGym issue 49" in note.source


def row_of(name: str) -> str:
    """A recipe's row in the table of docs/released.md."""
    run = released(name).run
    turns = " > ".join(map(str, turns_of(run.horizon)))
    train = ("", "", "") if run.train is None else (run.train.algorithm.group_size, run.train.tasks_per_step, f"{run.train.steps:,}")
    reported = run.about.expected[-1]
    budgets = f"{run.budgets.context_tokens:,} / {run.budgets.response_tokens}"
    cells = (name, turns, run.evaluation.horizon, *train, budgets, f"{reported.percent:g}% of {reported.tasks}")
    return f"| {' | '.join(str(cell) or '-' for cell in cells)} |"


@pytest.mark.parametrize("name", NAMES)
def test_the_page_about_released_recipes_has_a_true_row_for_each(name: str) -> None:
    page = Path(__file__).parents[2] / "docs" / "released.md"
    assert row_of(name) in page.read_text(encoding="utf-8").splitlines()
