"""The world dies while verl plays for PPO with a critic and a reference, and comes back: episodes wait or are tried again, nothing is lost,
no failure becomes a reward. Then vLLM's worker dies while it gets new weights, for which verl waits without end: the run ends, and goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from agentgym_cli.learn.verl.launch import BOUND, MARK_FILE, processes_of
from agentgym_cli.store.journal import read_journal
from agentgym_cli.store.records import AttemptRecord, OutcomeRecord, ScheduledRecord, ServerRecord
from tests.verl.launches import LONGEST, RECIPE, SMALL, command, environment, metrics_of, tail

pytestmark = [pytest.mark.verl, pytest.mark.timeout(2000), pytest.mark.skipif(SMALL, reason="a rehearsal needs 256 MiB of shared memory")]
STEPS, EPISODES = 2, 16
GONE_SECONDS = 6.0
STALLED_SECONDS = 20
PPO = "train.algorithm={kind: ppo, group_size: 4, critic_learning_rate: 1e-3, kl_coefficient: 0.01, kl_place: loss}"
PATIENT = ("retry.attempts=5", "retry.give_up_after=3", "retry.recovery_seconds=120", "retry.pause_seconds=0.5")


def world(port: int, place: Path) -> tuple[subprocess.Popen[str], str]:
    """TextCraft as somebody else serves it, at the address given."""
    serving = subprocess.Popen(command("serve", "textcraft", "--port", str(port)), cwd=place, env=environment(), stdout=subprocess.PIPE, text=True)
    assert serving.stdout is not None
    return serving, str(json.loads(serving.stdout.readline())["url"])


def end(serving: subprocess.Popen[str]) -> None:
    """Kill it, without a chance to answer what is under way."""
    serving.kill()
    serving.communicate()


def training(folder: Path) -> bool:
    """Whether a training step is written down, which is right before its first call of the world."""
    return any(isinstance(each, ScheduledRecord) and each.phase == "train" for each in read_journal(folder))


def played(folder: Path) -> bool:
    """Whether every episode of the last step has its outcome: nothing is asked of the sampler now but to take the next weights."""
    over = {each.episode for each in read_journal(folder) if isinstance(each, OutcomeRecord)}
    return sum(episode.startswith("train/") and episode.split("/")[2] == str(STEPS) for episode in over) == EPISODES


def checkpoint(folder: Path) -> bool:
    """Whether the last step has its checkpoint, behind which its weights go to the sampler."""
    return (folder / f"verl/checkpoints/global_step_{STEPS}/agentgym.json").is_file()


def wait_for(what: Callable[[Path], bool], place: Path, train: subprocess.Popen[bytes]) -> Path:
    """The run's folder, once ``what`` is true of it."""
    until = time.monotonic() + LONGEST
    while time.monotonic() < until and train.poll() is None:
        if found := [folder for folder in place.glob("runs/*") if what(folder)]:
            return found[0]
        time.sleep(0.05)
    raise AssertionError((place / "said.txt").read_text())


def sampling(folder: Path) -> int:
    """The process of this launch in which vLLM has its weights."""
    mark = (folder / "verl" / MARK_FILE).read_text()
    (worker,) = [process for process in processes_of(mark) if Path(f"/proc/{process}/cmdline").read_bytes().startswith(b"VLLM::Worker")]
    return worker


def test_promise_02_a_world_that_dies_and_comes_back_costs_no_episode_nor_does_a_sampler_that_dies(tmp_path: Path) -> None:
    serving, url = world(0, tmp_path)
    # A Ray that somebody else runs here is not asked, whatever the environment says.
    bounded = {**environment(), BOUND: f"weights to servers={STALLED_SECONDS}", "RAY_ADDRESS": "127.0.0.1:1"}
    more = (f"env.urls=[{url}]", "env.world=null", f"train.steps={STEPS}", "horizon.turns=[6]", "evaluation.limit=1", PPO, *PATIENT)
    try:
        with (tmp_path / "said.txt").open("w") as said:
            train = subprocess.Popen(command("train", RECIPE, "profile=rehearsal", *more), cwd=tmp_path, env=bounded, stdout=said, stderr=said)
        wait_for(training, tmp_path, train)
        # In the middle of the first step.
        end(serving)
        time.sleep(GONE_SECONDS)
        serving, _ = world(int(url.rpartition(":")[2]), tmp_path)
        worker = sampling(wait_for(played, tmp_path, train))
        # Stopped first, so that it is still there, and takes nothing, when the new weights are sent.
        os.kill(worker, signal.SIGSTOP)
        folder = wait_for(checkpoint, tmp_path, train)
        os.kill(worker, signal.SIGKILL)
        code = train.wait(timeout=LONGEST)
        text = (tmp_path / "said.txt").read_text()
        assert code == 6, text + tail(folder)
        assert f"phase 'weights to servers' of step {STEPS}" in " ".join(text.split())
        assert processes_of((folder / "verl" / MARK_FILE).read_text()) == []
        # The last step is learned and kept: what is left is the evaluation behind it.
        last = subprocess.run(
            command("train", str(folder.relative_to(tmp_path)), "--resume"),
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=LONGEST,
            check=False,
        )
    finally:
        end(serving)
    assert last.returncode in (0, 9), last.stderr + tail(folder)
    records = list(read_journal(folder))
    scheduled = [each.episode for each in records if isinstance(each, ScheduledRecord)]
    outcomes = {each.episode: each for each in records if isinstance(each, OutcomeRecord)}
    assert sorted(outcomes) == sorted(scheduled) and len(scheduled) == STEPS * EPISODES + 2
    failed = Counter(each.cause for each in records if isinstance(each, AttemptRecord) and each.outcome == "infra_error")
    assert failed, "the world died in the middle of a step"
    assert set(failed) <= {"connect", "reset", "timeout"}
    assert any(isinstance(each, ServerRecord) and each.event == "opened" for each in records) or failed["reset"]
    assert all(each.reward is None for each in outcomes.values() if each.outcome == "infra_error")
    scored = Counter(int(each.episode.split("/")[2]) for each in outcomes.values() if each.episode.startswith("train/") and each.reward is not None)
    measured = metrics_of(records)
    assert measured["trajectories"] == dict(scored)
    assert measured["critic_loss"].keys() == measured["reference_kl"].keys() == {1, 2}
    assert min(measured["critic_loss"].values()) > 0 and min(measured["critic_gradient_norm"].values()) > 0
    # Estimate k3 is never negative; behind a step the policy is not its reference any more.
    assert measured["reference_kl"][1] >= 0 and measured["reference_kl"][2] > 0
    assert max(measured["logp_difference_max"].values()) < 1e-3
