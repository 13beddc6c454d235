"""Times of the worlds from a probe's file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentgym_cli.errors import RecipeError
from agentgym_cli.verbs.capacity import Question, estimate_capacity
from agentgym_cli.verbs.probed import read_probe


def written(folder: Path, rungs: object) -> Path:
    path = folder / "probe.json"
    path.write_text(json.dumps({"servers": [{"url": "http://toy", "checks": [{"name": "types"}, {"name": "capacity", "rungs": rungs}]}]}))
    return path


def rung(sessions: int, p50: object, failed: int = 0) -> dict[str, object]:
    return {"sessions": sessions, "calls": 10, "failed": failed, "p50_ms": p50, "p95_ms": 9.0, "p99_ms": 9.0}


def test_a_world_that_answers_one_call_at_a_time(tmp_path: Path) -> None:
    found = read_probe(written(tmp_path, [rung(1, 20.0), rung(4, 80.0), rung(16, 5.0, failed=3)]))
    assert (found.source, found.env_seconds, found.env_places) == ("probe probe.json", 0.02, 1.0)


def test_a_world_that_answers_several_at_once(tmp_path: Path) -> None:
    # 8 sessions at 40 ms make 200 calls a second, four times what one makes at 20 ms
    assert read_probe(written(tmp_path, [rung(8, 40.0), rung(1, 20.0)])).env_places == pytest.approx(4.0)


def test_an_answer_takes_the_probed_times(tmp_path: Path) -> None:
    asked = Question(recipe="recipes/textcraft_grpo.yaml", gpu="h100-80g", gpus=8, probe=written(tmp_path, [rung(1, 500.0)]))
    found = estimate_capacity(asked).main
    assert (found.services.env_step, found.services.sources) == (0.5, dict.fromkeys(("env step", "env reset"), "probe probe.json"))
    assert found.step.slowest == "env step"


@pytest.mark.parametrize("rungs", [[], None, [rung(0, 5.0)], [rung(1, -1.0)], [rung(1, None)], [rung(1, 5.0, failed=1)], ["x"], 7])
def test_a_probe_that_measured_nothing_is_refused(tmp_path: Path, rungs: object) -> None:
    with pytest.raises(RecipeError, match="expected a check named capacity with rungs"):
        read_probe(written(tmp_path, rungs))


def test_a_file_that_is_no_probe_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="expected a probe's result as JSON"):
        read_probe(tmp_path / "none.json")
    (tmp_path / "list.json").write_text("[1]")
    with pytest.raises(RecipeError, match="expected a check named capacity"):
        read_probe(tmp_path / "list.json")


def test_a_probe_and_a_run_are_one_too_many(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="--probe: expected no --from with it"):
        estimate_capacity(Question(recipe="recipes/textcraft_grpo.yaml", run="r1", probe=tmp_path / "x.json"))
