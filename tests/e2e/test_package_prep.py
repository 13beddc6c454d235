"""The newcomer's first command: it needs no torch and no model, takes seconds, and its outcomes come from the verifier."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.commands import run

pytestmark = pytest.mark.e2e

RECIPE = "recipes/package_prep.yaml"
ABSENT = "raise ModuleNotFoundError(f'No module named {__name__!r}', name=__name__)\n"


def without_torch(folder: Path) -> dict[str, str]:
    """Variables under which importing torch or transformers fails as where they are not installed."""
    for name in ("torch", "transformers", "safetensors"):
        (folder / f"{name}.py").write_text(ABSENT, encoding="utf-8")
    return {"PYTHONPATH": str(folder)}


@pytest.mark.parametrize(("policy", "successes"), [((), 24), (("--policy", "oracle"), 24), (("--policy", "random"), None)])
def test_the_first_recipe_runs_without_torch_and_its_outcomes_come_from_the_verifier(
    tmp_path: Path, policy: tuple[str, ...], successes: int | None
) -> None:
    (tmp_path / "absent").mkdir()
    ended = run(tmp_path, "eval", RECIPE, *policy, "--json", variables=without_torch(tmp_path / "absent"))
    assert ended.code == 0, ended.err
    accounting = ended.json["parts"][0]["accounting"]
    assert accounting["scheduled"] == 24
    if successes is None:
        assert accounting["success"] < 5
    else:
        assert (accounting["success"], ended.json["header"]["outcome_from"]) == (successes, "verifier")


def test_a_script_that_says_instead_of_doing_fails_every_task(tmp_path: Path) -> None:
    (tmp_path / "absent").mkdir()
    lines = [f'{{"task": "package_prep_{index}", "actions": ["I shipped the mug", "dispatch"]}}' for index in range(96, 120)]
    (tmp_path / "script.jsonl").write_text("\n".join(lines), encoding="utf-8")
    ended = run(tmp_path, "eval", RECIPE, "--script", "script.jsonl", "--json", variables=without_torch(tmp_path / "absent"))
    assert ended.code == 0, ended.err
    accounting = ended.json["parts"][0]["accounting"]
    assert (accounting["scheduled"], accounting["success"]) == (24, 0)
