"""Whole runs of the online algorithms beside GRPO: taken back to earlier checkpoints, at the boundaries of a stage and of a pass, they end alike."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.drill.plans import SMALLER
from tests.e2e.commands import RECIPE, TINY, only_run, run

pytestmark = [pytest.mark.e2e, pytest.mark.torch]

ALGORITHMS = {
    "rloo": "{kind: rloo, group_size: 4, kl_coefficient: 0.05, kl_place: reward, kl_estimate: k1, entropy_coefficient: 0.1}",
    "reinforce_plus_plus": "{kind: reinforce_plus_plus, group_size: 4, discount: 0.99, entropy_coefficient: 0.1}",
    "ppo": "{kind: ppo, group_size: 4, critic_learning_rate: 1e-3, gae_lambda: 0.95, kl_coefficient: 0.05, entropy_coefficient: 0.1}",
}
_SET = ("train.algorithm", "evaluation.limit=4", "warm_start.demonstrations=16")
WORDS = [word for word in (*TINY, *SMALLER) if not word.startswith(_SET)]
FOUR = "tasks.train={name: train, ids: '0,2,3,4'}"
"""Two steps' tasks: step 3 begins the list anew, in another order."""


def results_digest(folder: Path) -> str:
    ended = run(folder, "store", "digest", only_run(folder).name, "--json")
    assert ended.code == 0, ended.err
    return str(ended.json["digest"])


def taken_back(folder: Path, step: int) -> None:
    """Forget every checkpoint behind ``step``, as if the process had been killed before it wrote the next one, and resume."""
    for checkpoint in (only_run(folder) / "checkpoints").iterdir():
        if int(checkpoint.name.removeprefix("step-")) > step:
            shutil.rmtree(checkpoint)
    ended = run(folder, "train", str(only_run(folder)), "--resume", "--json")
    assert ended.code == 0, ended.err


def drawn(folder: Path) -> list[set[str]]:
    """Tasks of each training step, from the journal of the first segment."""
    found: dict[int, set[str]] = {}
    for line in (only_run(folder) / "journal" / "0001.jsonl").read_text().splitlines():
        record = json.loads(line)
        if record["kind"] == "scheduled" and record["phase"] == "train":
            found.setdefault(record["step"], set()).add(record["task"])
    return [found[step] for step in sorted(found)]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ALGORITHMS)
def test_promise_10_a_run_resumed_at_the_end_of_a_stage_and_again_at_the_end_of_a_pass_ends_as_it_did(tmp_path: Path, kind: str) -> None:
    # horizon 2 for step 1, 3 from step 2 on
    ended = run(tmp_path, "train", RECIPE, *WORDS, FOUR, f"train.algorithm={ALGORITHMS[kind]}", "--json")
    assert ended.code == 0, ended.err
    first, second, third = drawn(tmp_path)
    assert len(first | second) == 4 and third < first | second
    whole = results_digest(tmp_path)
    for step in (1, 2):
        taken_back(tmp_path, step)
        assert results_digest(tmp_path) == whole
