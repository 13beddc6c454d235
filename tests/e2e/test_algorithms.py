"""Whole runs of the online algorithms beside GRPO: taken back to earlier checkpoints, twice in a row and over a stage boundary, they end alike."""

from __future__ import annotations

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


@pytest.mark.parametrize("kind", ALGORITHMS)
def test_promise_10_a_run_resumed_at_a_stage_boundary_and_again_ends_as_it_did(tmp_path: Path, kind: str) -> None:
    # horizon 2 for step 1, 3 from step 2 on
    ended = run(tmp_path, "train", RECIPE, *WORDS, f"train.algorithm={ALGORITHMS[kind]}", "--json")
    assert ended.code == 0, ended.err
    whole = results_digest(tmp_path)
    for step in (1, 2):
        taken_back(tmp_path, step)
        assert results_digest(tmp_path) == whole
