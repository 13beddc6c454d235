"""A run whose files change: refused, or let through and said so in every form of its report; and what ``freeze`` says of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.commands import RECIPE, Ended, only_run, run

pytestmark = pytest.mark.e2e

SHIPPED = Path(__file__).parents[2] / RECIPE


def recipe_with_prompt(folder: Path) -> None:
    """``mine.yaml``: the shipped recipe's laptop profile with a prompt of its own, and few tasks."""
    (folder / "textcraft_grpo.yaml").write_text(SHIPPED.read_text())
    told = "profiles: {laptop: {prompt: {system: told.txt}, budgets: {context_tokens: 512}, evaluation: {limit: 2}}}\n"
    (folder / "mine.yaml").write_text(f"extends: textcraft_grpo.yaml\n{told}")
    (folder / "told.txt").write_text("Craft what is asked for.")


@pytest.fixture(scope="module")
def drifted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Ended]]:
    """A folder with a run that was resumed after one letter of its prompt had changed, and how its commands ended."""
    folder = tmp_path_factory.mktemp("drift")
    recipe_with_prompt(folder)
    ended = {
        "eval": run(folder, "eval", "mine.yaml", "profile=laptop", "--policy", "oracle"),
        "same": run(folder, "freeze", "--check", str(only_run(folder))),
    }
    (folder / "told.txt").write_text("Craft what is Asked for.")
    name = str(only_run(folder))
    ended["check"] = run(folder, "freeze", "--check", name)
    ended["refused"] = run(folder, "eval", name, "--resume")
    ended["allowed"] = run(folder, "eval", name, "--resume", "--allow-drift")
    return folder, ended


def test_a_check_of_a_run_whose_files_are_as_they_were_exits_0(drifted):
    _, ended = drifted
    assert (ended["eval"].code, ended["same"].code) == (0, 0), ended["eval"].err
    assert "served by this program: textcraft --book laptop; HTTP 200: This is environment TextCraft." in ended["same"].out


def test_promise_07_a_check_after_one_changed_letter_names_the_prompt_and_exits_2(drifted):
    _, ended = drifted
    assert ended["check"].code == 2
    assert " prompt: told.txt " in ended["check"].out
    assert " model                          same" in ended["check"].out
    assert ended["check"].message[0].endswith("got drift in prompt")


def test_promise_07_a_resume_after_one_changed_letter_is_refused_and_names_the_prompt(drifted):
    _, ended = drifted
    assert (ended["refused"].code, len(ended["refused"].message)) == (2, 2)
    assert "changed since: prompt: told.txt" in ended["refused"].message[0]
    assert "--allow-drift" in ended["refused"].message[1]


def test_promise_07_drift_that_was_allowed_is_in_every_form_of_the_report(drifted):
    folder, ended = drifted
    assert ended["allowed"].code == 0, ended["allowed"].err
    said = "segment 2 ran with another prompt: told.txt (frozen "
    assert f"Drift allowed: {said}" in " ".join(ended["allowed"].out.split())
    assert "drift allowed: another prompt: told.txt" in ended["allowed"].err
    name = only_run(folder).name
    assert f"Drift allowed: {said}" in run(folder, "report", name, "--format", "md").out.replace("\\", "")
    header = run(folder, "report", name, "--json").json["header"]
    assert [line.startswith(said) for line in header["drift"]] == [True]


def test_drift_is_kept_when_the_store_is_made_again(drifted):
    folder, _ = drifted
    before = run(folder, "report", only_run(folder).name, "--json")
    assert run(folder, "store", "rebuild").code == 0
    assert run(folder, "report", only_run(folder).name, "--json").out == before.out


def test_a_frozen_run_is_evaluated_after_a_change_only_when_that_is_allowed(drifted, tmp_path):
    folder, _ = drifted
    frozen = str(only_run(folder) / "frozen.json")
    assert run(tmp_path, "eval", frozen, "--policy", "oracle").code == 2
    ended = run(tmp_path, "eval", frozen, "--policy", "oracle", "--allow-drift", "--json")
    assert ended.code == 0, ended.err
    assert any(line.startswith("segment 1 ran with another prompt: told.txt") for line in ended.json["header"]["drift"])


def test_a_difference_needs_two_runs_to_compare(drifted):
    folder, _ = drifted
    ended = run(folder, "freeze", "--diff", str(only_run(folder)))
    assert ended.code == 2
    assert "--diff" in ended.err
