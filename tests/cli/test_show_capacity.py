"""A capacity answer on one screen of 80 columns, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentgym_cli.capacity.simulate import SimulatedSteps
from agentgym_cli.cli.capacity_values import UNITS, answer_values
from agentgym_cli.cli.capacity_words import count, seconds, size_of
from agentgym_cli.cli.commands import app
from agentgym_cli.cli.show_capacity import show_capacity
from agentgym_cli.verbs.advice import Way
from agentgym_cli.verbs.capacity import CapacityAnswer, Question, estimate_capacity

TEXTCRAFT = "recipes/textcraft_grpo.yaml"


@pytest.fixture(scope="module")
def answer() -> CapacityAnswer:
    return estimate_capacity(Question(recipe=TEXTCRAFT, gpu="h100-80g", gpus=8, gpu_price=2.0))


def printed(answer: CapacityAnswer, capsys: pytest.CaptureFixture[str]) -> list[str]:
    show_capacity(answer, as_json=False)
    return capsys.readouterr().out.splitlines()


def test_the_answer_is_one_screen_of_80_columns(answer: CapacityAnswer, capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(answer, capsys)
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 40
    starts = [line.split("  ")[0] for line in lines if line and not line.startswith(" ")]
    assert [start for start in starts if start in ("fits", "cache", "bottleneck", "time", "cost", "change")] == [
        "fits",
        "cache",
        "bottleneck",
        "time",
        "cost",
        "change",
    ]


HUGE = ("train.steps=9000000000000000000", "train.tasks_per_step=1000000000000", "train.updates_per_step=1")


@pytest.mark.parametrize(
    "words",
    [
        {"overrides": HUGE, "gpu": "h100-80g", "gpu_price": 1e8},
        {"overrides": ("policy.model.path=Llama-3.1-405B",), "gpu": "h100-80g"},
        {"overrides": ("profile=laptop", "engine.slots=100000000000")},
        {"overrides": ("profile=laptop",), "width": 0.001, "gap": 0.001},
        {"gpu": "b200-180g", "gpus": 100_000 // 8 * 8, "overrides": ("train.tasks_per_step=100000", "train.updates_per_step=1")},
    ],
    ids=["huge", "405B", "slots", "evaluation", "gpus"],
)
def test_whatever_is_asked_fits_the_screen(words: dict[str, object], capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(estimate_capacity(Question(recipe=TEXTCRAFT, **words)), capsys)  # type: ignore[arg-type]
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 42


def test_long_names_are_folded_and_cut(answer: CapacityAnswer, capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(replace(answer, model="models/" + "deep/" * 100, notes=("n" * 500,)), capsys)
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 48


def test_what_would_be_enough_is_told_in_whole_words(answer: CapacityAnswer, capsys: pytest.CaptureFixture[str]) -> None:
    text = " ".join(" ".join(printed(answer, capsys)).split())
    assert "a policy that never waits: 1 env server (has 1), 329 episodes at work at once (a step has 256)" in text
    assert "worlds that never wait: no number of copies is enough, since they answer faster than all episodes can ask" in text
    assert "4 train, 4 sample: not a setting of engine verl" in text
    assert "change twice the GPUs (cluster.nodes): 27.5 s less a step a policy" in text
    slow = estimate_capacity(Question(recipe=TEXTCRAFT, overrides=("profile=laptop", "env.dialect=sciworld", "engine.slots=32")))
    text = " ".join(" ".join(printed(slow, capsys)).split())
    assert "(engine.slots lets 32 play)" in text and "worlds that never wait: 1 copy of the policy (has 1)" in text


RECIPES = sorted(str(path) for path in Path("recipes").rglob("*.yaml") if path.name not in ("base.yaml", "textcraft_big.yaml"))


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES)
def test_every_shipped_recipe_is_answered_on_one_screen(recipe: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(estimate_capacity(Question(recipe=recipe)), capsys)
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 42
    assert not any("\u2026" in line for line in lines)


def test_alternatives_that_fit_are_shown_before_others(answer: CapacityAnswer, capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(answer, capsys)
    table = lines[next(place for place, line in enumerate(lines) if line.startswith("alternative")) + 1 :]
    assert [line.split("  ")[0] for line in table[:4]] == ["4 x h100-80g", "16 x h100-80g", "4 train, 4 sample", "8 x a100-80g"]


def test_the_budgets_stand_apart_with_units(answer: CapacityAnswer, capsys: pytest.CaptureFixture[str]) -> None:
    text = "\n".join(printed(answer, capsys))
    for budget in ("training", "policy, sampling", "cache of episodes", "driver or process"):
        assert f"\n{budget}" in text
    assert "57,344 bytes a" in text and "GiB" in text
    assert "Error: memory within 20%" in text


def test_what_does_not_fit_has_no_times(capsys: pytest.CaptureFixture[str]) -> None:
    found = estimate_capacity(Question(recipe=TEXTCRAFT, gpu="rtx4090-24g", gpus=1))
    lines = printed(found, capsys)
    assert lines[2].startswith("fits        no: 149.8 GiB of 23.5 GiB while training")
    assert len(lines) <= 40 and max(map(len, lines)) <= 80
    assert not any(line.startswith(("time", "bottleneck", "horizon")) for line in lines)
    show_capacity(found, as_json=True)
    values = json.loads(capsys.readouterr().out)
    assert (values["fits"], values["step_seconds"], values["total"]["seconds"], values["per_success"]) == (False, None, None, [])


def test_ways_to_fit_are_told_apart_with_what_a_machine_has_to_hold(capsys: pytest.CaptureFixture[str]) -> None:
    # Of 7,615,616,512 numbers: weights, gradients, moments and a reference, 4 + 4 + 8 + 4 bytes each, are 141.9 GiB.
    text = " ".join(" ".join(printed(estimate_capacity(Question(recipe=TEXTCRAFT, gpu="rtx4090-24g", gpus=1)), capsys)).split())
    assert "cluster.offload=streamed (141.9 GiB of a machine's own memory) or 1 x b200-180g (--gpu b200-180g) on one" in text


def test_a_difference_says_that_its_episodes_are_of_each_policy(capsys: pytest.CaptureFixture[str]) -> None:
    # z = 1.96 and 0.8416: (1.96 + 0.8416)^2 x 2 x 0.25 / 0.1^2 = 392.4 episodes of each of two policies
    found = estimate_capacity(Question(recipe=TEXTCRAFT, overrides=("profile=laptop",), gap=0.1))
    rows = [line.split("  ") for line in printed(found, capsys) if line.startswith("difference")]
    assert rows[0][0] == "difference 0.1, each policy" and "393" in [cell.strip() for cell in rows[0]]


def test_json_has_every_budget_and_every_stage(answer: CapacityAnswer, capsys: pytest.CaptureFixture[str]) -> None:
    show_capacity(answer, as_json=True)
    values = json.loads(capsys.readouterr().out)
    memory = values["memory_bytes"]
    assert memory["training"]["total"] == sum(value for name, value in memory["training"].items() if name not in ("total", "resting", "host"))
    assert memory["cache"]["per_token"] == 57_344
    assert values["step_seconds"]["bottleneck"] == "update"
    assert sum(stage["gpu_hours"] for stage in values["stages"]) == pytest.approx(values["total"]["gpu_hours"])
    assert [each["name"] for each in values["alternatives"]] == [each.name for each in answer.alternatives]


def numbers(value: object, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The keys that lead to each number."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from numbers(inner, (*above, str(key)))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from numbers(inner, above)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield above


def test_every_number_of_the_json_has_a_unit(answer: CapacityAnswer) -> None:
    planned = estimate_capacity(Question(recipe=TEXTCRAFT, gpu="h100-80g", gpus=8, width=0.1, gap=0.1, gpu_price=1.0))
    simulated = SimulatedSteps(**{field.name: 1.0 for field in fields(SimulatedSteps)})  # type: ignore[arg-type]
    way = Way(says="a=1", overrides=("a=1",), gpu=None, host_bytes=1)
    values = answer_values(replace(planned, simulated=((10, simulated),), changes=(way,)))
    found = set(numbers(values))
    assert len(found) > 100
    assert [path for path in found if not any(key in UNITS for key in path)] == []
    assert values["units"] == UNITS
    assert {key for key in UNITS if not any(key in path for path in found)} <= {"cost"}


def test_what_has_no_cost_and_no_number_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    values = answer_values(estimate_capacity(Question(recipe=TEXTCRAFT, overrides=("profile=laptop",), gpu_price=2.0)))
    assert values["no_cost"] == "no GPU is used, and --gpu-price is of a GPU-hour"
    assert values["total"]["cost"] is None  # type: ignore[index]
    text = "\n".join(printed(estimate_capacity(Question(recipe=TEXTCRAFT, overrides=("profile=laptop",), gpu_price=2.0)), capsys))
    assert "cost        n/a, no GPU is used, and --gpu-price is of a GPU-hour; " in text
    assert "0.00" not in text
    sizing = answer_values(estimate_capacity(Question(recipe=TEXTCRAFT, gpu="h100-80g", gpus=8)))["sizing"]
    assert sizing["policy_replicas"] is None and sizing["why_no_policy_replicas"]  # type: ignore[index]


def test_what_does_not_fit_is_answered_and_ends_with_exit_code_2() -> None:
    found = CliRunner().invoke(app, ["capacity", TEXTCRAFT, "--gpu", "rtx4090-24g", "--gpus", "1", "--json"])
    assert json.loads(found.stdout)["fits"] is False
    assert getattr(found.exception, "exit_code", None) == 2
    assert "memory: expected at most 24,064 MiB on rtx4090-24g, got a peak of 153,3" in str(found.exception)
    tried = CliRunner().invoke(app, ["capacity", TEXTCRAFT, "--gpu", "rtx4090-24g", "--gpus", "1", "engine.memory_check=warn"])
    assert tried.exit_code == 0 and "fits        no: " in tried.stdout


def test_bad_words_end_with_exit_code_2_through_the_door() -> None:
    found = CliRunner().invoke(app, ["capacity", TEXTCRAFT, "--gpu", "h100"])
    assert found.exit_code != 0 and "--gpu: expected one of" in str(found.exception)
    assert getattr(found.exception, "exit_code", None) == 2


def test_foreign_names_are_no_markup(answer: CapacityAnswer, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(replace(answer, model="[red]\x1b[2Jx"), capsys)[0].startswith("[red]x: ")


def test_sizes_and_times_have_units() -> None:
    assert [size_of(size) for size in (5, 2048, 3 * 1024**2, 5 * 1024**3)] == ["5 B", "2.0 KiB", "3.0 MiB", "5.0 GiB"]
    assert [count(number) for number in (461.0, 23_040.0, 164.4e6, 1.2e9)] == ["461", "23.0k", "164.4M", "1.2G"]
    assert [seconds(value) for value in (0.014, 2.34, 123.4)] == ["0.01 s", "2.3 s", "123 s"]
