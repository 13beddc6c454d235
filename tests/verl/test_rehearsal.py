"""The launch on verl, Ray and vLLM, whole: two steps, killed behind a checkpoint, resumed, one more step, an evaluation, a report."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from agentgym_cli.learn.verl.keys import installed_keys, known_keys
from agentgym_cli.learn.verl.launch import MARK_FILE, processes_of
from agentgym_cli.store.journal import read_journal
from agentgym_cli.store.records import AttemptRecord, CheckpointRecord, MetricRecord, OutcomeRecord, ScheduledRecord, SegmentRecord
from tests.verl.launches import LONGEST, RECIPE, SMALL, command, environment, tail

pytestmark = [pytest.mark.verl, pytest.mark.timeout(2000), pytest.mark.skipif(SMALL, reason="a rehearsal needs 256 MiB of shared memory")]
STEPS, TASKS, GROUP = 3, 4, 4


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """A run that was killed once and came to its end."""

    folder: Path
    report: Any
    seconds: tuple[float, float]


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsed]:
    """Kill the launcher with SIGKILL once the checkpoint of step 2 is complete, leave half of the next one, and let a second launch finish."""
    place = tmp_path_factory.mktemp("rehearsal")
    began = time.monotonic()
    with (place / "first.txt").open("w") as said:
        first = subprocess.Popen(
            command("train", RECIPE, "profile=rehearsal", "store.keep_tokens=all"), cwd=place, env=environment(), stdout=said, stderr=said
        )
        try:
            wait_for(place, first)
        finally:
            first.send_signal(signal.SIGKILL)
            first.wait()
    killed = time.monotonic()
    (folder,) = (place / "runs").iterdir()
    half_written(folder / "verl/checkpoints/global_step_3/actor")
    second = subprocess.run(
        command("train", str(folder), "--resume", "--json"),
        cwd=place,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )
    assert second.returncode == 0, second.stderr + tail(folder)
    yield Rehearsed(folder, json.loads(second.stdout), (killed - began, time.monotonic() - killed))


def half_written(shards: Path) -> None:
    """What a kill in the middle of a checkpoint leaves: shards that end too early, and no digest."""
    shards.mkdir(parents=True, exist_ok=True)
    (shards / "model_world_size_1_rank_0.pt").write_bytes(b"PK\x03\x04 the first bytes")


def wait_for(place: Path, first: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + LONGEST
    while time.monotonic() < until:
        if list(place.glob("runs/*/verl/checkpoints/global_step_2/agentgym.json")):
            return
        assert first.poll() is None, (place / "first.txt").read_text()
        time.sleep(0.2)
    raise AssertionError(f"no checkpoint of step 2 within {LONGEST} s: {(place / 'first.txt').read_text()}")


def counted(folder: Path) -> tuple[list[Any], int]:
    """Records that count, those of the first segment behind the resumed step left out, and that step."""
    records = list(read_journal(folder))
    (resumed,) = {each.resumed_from_step for each in records if isinstance(each, SegmentRecord) and each.segment == 2}
    assert resumed is not None

    def counts(each: Any) -> bool:
        step = getattr(each, "step", None)
        if step is None and hasattr(each, "episode"):
            step = int(each.episode.split("/")[2])
        return each.segment == 2 or step is None or step <= resumed

    return [each for each in records if hasattr(each, "segment") and counts(each)], resumed


def test_the_keys_that_are_shipped_are_those_of_the_verl_that_is_installed() -> None:
    assert installed_keys() == known_keys()


def test_promise_10_a_kill_behind_a_checkpoint_loses_no_step(rehearsed: Rehearsed) -> None:
    records, resumed = counted(rehearsed.folder)
    assert resumed == 2
    assert {each.step for each in records if isinstance(each, CheckpointRecord)} == {1, 2, 3}
    assert rehearsed.report["header"]["status"] == "finished"


def test_promise_01_every_scheduled_episode_has_one_outcome(rehearsed: Rehearsed) -> None:
    records, _ = counted(rehearsed.folder)
    scheduled = [each.episode for each in records if isinstance(each, ScheduledRecord)]
    outcomes = Counter(each.episode for each in records if isinstance(each, OutcomeRecord))
    assert len(scheduled) == len(set(scheduled)) == STEPS * TASKS * GROUP + 2 * 2
    assert outcomes == Counter(scheduled)
    phases = {part["phase"]: part["accounting"]["scheduled"] for part in rehearsed.report["parts"]}
    assert phases == {"eval_before": 2, "train": STEPS * TASKS * GROUP, "eval_after": 2}


def test_promise_06_the_horizon_is_the_scheduled_steps(rehearsed: Rehearsed) -> None:
    records, _ = counted(rehearsed.folder)
    horizons = {(each.step, each.horizon) for each in records if isinstance(each, ScheduledRecord) and each.phase == "train"}
    assert horizons == {(1, 2), (2, 3), (3, 4)}
    turns = {
        int(each.episode.split("/")[2]): each.turns_count for each in records if isinstance(each, AttemptRecord) and each.episode[:6] == "train/"
    }
    assert turns == {1: 2, 2: 3, 3: 4}


def metrics(folder: Path, name: str) -> dict[int, float | None]:
    records, _ = counted(folder)
    return {each.step: each.value for each in records if isinstance(each, MetricRecord) and each.phase == "train" and each.name == name}


def test_promise_05_what_is_trained_is_what_was_sampled(rehearsed: Rehearsed) -> None:
    apart = metrics(rehearsed.folder, "logp_difference_max")
    assert set(apart) == {1, 2, 3}
    # The weights changed at every step, and vLLM samples from those of the step before.
    assert all(value is not None and value < 1e-3 for value in apart.values()), apart
    gradients = metrics(rehearsed.folder, "gradient_norm")
    assert all(value is not None and value > 1e-4 for value in gradients.values()), gradients


def test_verls_batches_are_the_stores_episodes(rehearsed: Rehearsed) -> None:
    records, _ = counted(rehearsed.folder)
    scored: Counter[int] = Counter()
    for each in records:
        if isinstance(each, OutcomeRecord) and each.episode.startswith("train/") and each.reward is not None:
            scored[int(each.episode.split("/")[2])] += 1
    assert metrics(rehearsed.folder, "trajectories") == dict(scored) == {1: 16, 2: 16, 3: 16}
    assert metrics(rehearsed.folder, "verl_step") == {1: 1, 2: 2, 3: 3}


def test_nothing_of_a_launch_is_left(rehearsed: Rehearsed) -> None:
    assert processes_of((rehearsed.folder / "verl" / MARK_FILE).read_text()) == []


def test_the_exported_model_has_the_log_probabilities_that_were_sampled(rehearsed: Rehearsed) -> None:
    place = rehearsed.folder.parent.parent
    done = subprocess.run(
        command("export", str(rehearsed.folder), "--json"), cwd=place, env=environment(), capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    folder = place / said["folder"]
    assert (said["step"], (folder / "README.md").is_file(), (folder / "tokenizer.json").is_file()) == (3, True, True)
    records, _ = counted(rehearsed.folder)
    judged = [each.tokens for each in records if isinstance(each, AttemptRecord) and each.episode.startswith("eval_after/")]
    assert len(judged) == 2
    # Beside the tokens of its evaluation, the weights of step 3 sampled none.
    assert said["apart"]["episodes"] == 2 and 0 < said["apart"]["mean"] <= said["apart"]["largest"] < 0.05
    assert said["apart"]["tokens"] == sum(sum(tokens.action_mask) for tokens in judged if tokens is not None)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    for tokens in judged:
        assert tokens is not None
        ids = torch.tensor([tokens.token_ids])
        with torch.no_grad():
            each = torch.log_softmax(model(ids).logits[0, :-1], dim=-1).gather(1, ids[0, 1:, None])[:, 0]
        mask = torch.tensor(tokens.action_mask[1:])
        # verl's merger rounds weights to bfloat16, of which a step is one part in 256.
        torch.testing.assert_close(each[mask], torch.tensor(tokens.logprobs[1:])[mask], atol=0.05, rtol=0.0)
