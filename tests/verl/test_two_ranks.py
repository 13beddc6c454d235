"""REINFORCE++ on two ranks, each with a sampler of its own: the same counts, the same weights everywhere, shards that belong together."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from agentgym_cli.learn.verl.launch import MARK_FILE, processes_of
from agentgym_cli.store.journal import read_journal
from agentgym_cli.store.records import CheckpointRecord, OutcomeRecord, ScheduledRecord
from tests.verl.launches import LONGEST, RECIPE, SMALL, command, environment, metrics_of, tail

pytestmark = [pytest.mark.verl, pytest.mark.timeout(1000), pytest.mark.skipif(SMALL, reason="a rehearsal needs 256 MiB of shared memory")]
STEPS, EPISODES = 2, 16
TWO = (
    "cluster.nodes=2",
    f"train.steps={STEPS}",
    "horizon.turns=[2]",
    "evaluation.limit=1",
    "train.algorithm={kind: reinforce_plus_plus, group_size: 4}",
)


def test_two_ranks_learn_one_policy(tmp_path: Path) -> None:
    done = subprocess.run(
        command("train", RECIPE, "profile=rehearsal", *TWO),
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )
    (folder,) = (tmp_path / "runs").iterdir()
    assert done.returncode == 0, done.stderr + tail(folder)
    records = list(read_journal(folder))
    scheduled = [each.episode for each in records if isinstance(each, ScheduledRecord)]
    outcomes = Counter(each.episode for each in records if isinstance(each, OutcomeRecord))
    assert outcomes == Counter(scheduled) and len(scheduled) == STEPS * EPISODES + 2
    measured = metrics_of(records)
    assert measured["trajectories"] == {1: 16.0, 2: 16.0}
    # Both samplers sampled with the weights that both ranks have: a rank left behind would be far off in step 2.
    assert measured["logp_difference_max"].keys() == {1, 2} and max(measured["logp_difference_max"].values()) < 1e-3
    assert min(measured["gradient_norm"].values()) > 1e-4
    assert [each.step for each in records if isinstance(each, CheckpointRecord)] == [1, 2]
    shards = {path.name for path in (folder / "verl/checkpoints/global_step_2/actor").glob("model_*")}
    assert shards == {"model_world_size_2_rank_0.pt", "model_world_size_2_rank_1.pt"}
    assert processes_of((folder / "verl" / MARK_FILE).read_text()) == []
