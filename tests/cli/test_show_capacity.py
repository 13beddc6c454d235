"""A capacity answer on one screen of 80 columns, and as JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from agentgym_cli.cli.commands import app
from agentgym_cli.cli.show_capacity import count, seconds, show_capacity, size_of
from agentgym_cli.verbs.capacity import CapacityAnswer, Question, estimate_capacity

TEXTCRAFT = "recipes/textcraft_grpo.yaml"


@pytest.fixture(scope="module")
def answer() -> CapacityAnswer:
    return estimate_capacity(Question(recipe=TEXTCRAFT, gpu="h100-80g", gpus=8, gpu_price=2.0))


def printed(answer: CapacityAnswer, capsys: pytest.CaptureFixture[str]) -> list[str]:
    show_capacity(answer, as_json=False)
    return capsys.readouterr().out.splitlines()


@pytest.mark.slow
def test_the_answer_is_one_screen_of_80_columns(answer: CapacityAnswer, capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(answer, capsys)
    assert max(map(len, lines[1:])) <= 80
    assert len(lines) <= 48
    starts = [line.split("  ")[0] for line in lines if line and not line.startswith(" ")]
    assert [start for start in starts if start in ("fits", "cache", "bottleneck", "time", "cost", "change")] == [
        "fits",
        "cache",
        "bottleneck",
        "time",
        "cost",
        "change",
    ]


def test_the_budgets_stand_apart_with_units(answer: CapacityAnswer, capsys: pytest.CaptureFixture[str]) -> None:
    text = "\n".join(printed(answer, capsys))
    for budget in ("training", "policy, sampling", "cache of episodes", "driver or process"):
        assert f"\n{budget}" in text
    assert "57,344 bytes a" in text and "GiB" in text
    assert "Error: memory within 20%" in text


def test_what_does_not_fit_has_no_times(capsys: pytest.CaptureFixture[str]) -> None:
    found = estimate_capacity(Question(recipe=TEXTCRAFT, gpu="rtx4090-24g", gpus=1))
    lines = printed(found, capsys)
    assert lines[2].startswith("fits        no: 164.0 GiB of 23.5 GiB while training")
    assert not any(line.startswith(("time", "bottleneck", "horizon")) for line in lines)
    show_capacity(found, as_json=True)
    values = json.loads(capsys.readouterr().out)
    assert (values["fits"], values["step_seconds"], values["total"]["seconds"], values["per_success"]) == (False, None, None, [])


def test_json_has_every_budget_and_every_stage(answer: CapacityAnswer, capsys: pytest.CaptureFixture[str]) -> None:
    show_capacity(answer, as_json=True)
    values = json.loads(capsys.readouterr().out)
    memory = values["memory_bytes"]
    assert memory["training"]["total"] == sum(value for name, value in memory["training"].items() if name not in ("total", "host"))
    assert memory["cache"]["per_token"] == 57_344
    assert values["step_seconds"]["bottleneck"] == "update"
    assert sum(stage["gpu_hours"] for stage in values["stages"]) == pytest.approx(values["total"]["gpu_hours"])
    assert [each["name"] for each in values["alternatives"]] == [each.name for each in answer.alternatives]


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
