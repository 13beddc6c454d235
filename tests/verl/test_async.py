"""Steps played ahead, adapters and RLOO in one launch: who sampled which token, how old the weights were, and the model that comes out."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from agentgym_cli.learn.verl.launch import MARK_FILE, processes_of
from agentgym_cli.store.journal import read_journal
from agentgym_cli.store.records import AttemptRecord, CheckpointRecord, OutcomeRecord, ScheduledRecord, TokensRecord
from tests.verl.launches import LONGEST, RECIPE, SMALL, command, environment, metrics_of, tail

pytestmark = [pytest.mark.verl, pytest.mark.timeout(1200), pytest.mark.skipif(SMALL, reason="a rehearsal needs 256 MiB of shared memory")]
STEPS, UPDATES, EPISODES, STALENESS, RANK = 3, 2, 16, 1, 4
AHEAD = (
    f"train.steps={STEPS}",
    f"cluster.max_staleness={STALENESS}",
    "train.algorithm={kind: rloo, group_size: 4, kl_coefficient: 0.001}",
    f"train.lora={{rank: {RANK}, alpha: 8}}",
    "train.importance_cap=2",
    "train.learning_rate=0.01",
    "evaluation.limit=1",
    "store.keep_tokens=all",
)


@dataclass(frozen=True, slots=True)
class Trained:
    """A run that is over."""

    folder: Path
    records: Sequence[object]

    @property
    def attempts(self) -> dict[str, AttemptRecord]:
        """The only attempt of each episode."""
        return {each.episode: each for each in self.records if isinstance(each, AttemptRecord)}

    def of_step(self, step: int) -> list[AttemptRecord]:
        return [each for name, each in self.attempts.items() if name.startswith("train/") and name.split("/")[2] == str(step)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trained]:
    place = tmp_path_factory.mktemp("async")
    words = command("train", RECIPE, "profile=rehearsal", *AHEAD)
    done = subprocess.run(words, cwd=place, env=environment(), capture_output=True, text=True, timeout=LONGEST, check=False)
    (folder,) = (place / "runs").iterdir()
    assert done.returncode == 0, done.stderr + tail(folder)
    yield Trained(folder, list(read_journal(folder)))


def runs_of(attempt: AttemptRecord) -> list[tuple[int, int]]:
    """Version and number of tokens."""
    tokens = attempt.tokens
    assert tokens is not None and attempt.policy_version is not None
    if tokens.policy_versions is None or tokens.policy_version_tokens is None:
        return [(attempt.policy_version, attempt.action_tokens)]
    return list(zip(tokens.policy_versions, tokens.policy_version_tokens, strict=True))


def test_promise_01_what_is_played_ahead_has_one_outcome_and_the_updates_are_as_many_as_asked(trained: Trained) -> None:
    scheduled = [each for each in trained.records if isinstance(each, ScheduledRecord)]
    outcomes = Counter(each.episode for each in trained.records if isinstance(each, OutcomeRecord))
    assert outcomes == Counter(each.episode for each in scheduled) and len(scheduled) == STEPS * EPISODES + 2
    assert len(trained.attempts) == len(scheduled)
    assert {(each.step, each.horizon) for each in scheduled if each.phase == "train"} == {(1, 2), (2, 3), (3, 4)}
    measured = metrics_of(trained.records)
    assert measured["trajectories"] == dict.fromkeys(range(1, STEPS + 1), float(EPISODES))
    assert measured["verl_step"] == {step: float(step) for step in range(1, STEPS + 1)}
    assert measured["policy_version"] == {step: step - 1.0 for step in range(1, STEPS + 1)}
    assert [each.step for each in trained.records if isinstance(each, CheckpointRecord)] == [1, 2, 3]
    saved = trained.folder / f"verl/checkpoints/global_step_{STEPS}/actor/optim_world_size_1_rank_0.pt"
    moments = torch.load(saved, weights_only=False)["state"]
    # Two layers, two targets, two matrices each; the model itself has no moments.
    assert len(moments) == 2 * 2 * 2
    assert {int(each["step"]) for each in moments.values()} == {STEPS * UPDATES}


def test_weights_are_told_apart_by_token_and_never_older_than_allowed(trained: Trained) -> None:
    measured = metrics_of(trained.records)
    for step in range(1, STEPS + 1):
        attempts = trained.of_step(step)
        assert len(attempts) == EPISODES
        runs = [run for each in attempts for run in runs_of(each)]
        assert {version for version, _ in runs} <= set(range(max(0, step - 1 - STALENESS), step))
        for each in attempts:
            versions, counts = zip(*runs_of(each), strict=True)
            assert each.tokens is not None and sum(counts) == sum(each.tokens.action_mask) == each.action_tokens
            assert list(versions) == sorted(set(versions)) and each.policy_version == versions[0]
        ages = [step - 1 - version for version, count in runs for _ in range(count)]
        assert measured["policy_age_max"][step] == max(ages)
        assert measured["policy_age_mean"][step] == pytest.approx(sum(ages) / len(ages))
    assert measured["policy_age_max"][1] == 0 and max(measured["policy_age_max"].values()) == STALENESS


def test_the_sampler_has_the_trainers_adapters_after_two_of_their_syncs(trained: Trained) -> None:
    measured = metrics_of(trained.records)
    assert STEPS in measured["logp_difference_max"] and max(measured["logp_difference_max"].values()) < 1e-3
    # Adapters begin as nothing, and the reference is the model without them: the second update of the first step is the first that finds any.
    assert 0 < measured["reference_kl"][1] < measured["reference_kl"][STEPS]
    assert min(measured["gradient_norm"].values()) > 1e-5
    # The newest weights weigh their own tokens by 1, older ones are corrected for.
    assert measured["importance_weight"][1] == pytest.approx(1.0, abs=1e-4)
    assert all(0.5 < each <= 2 for each in measured["importance_weight"].values())


def off(folder: Path, judged: Sequence[TokensRecord]) -> float:
    """Largest difference of a model's log-probabilities from the stored ones, nats."""
    model, found = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32), []
    for tokens in judged:
        ids, mask = torch.tensor([tokens.token_ids]), torch.tensor(tokens.action_mask[1:])
        with torch.no_grad():
            said = torch.log_softmax(model(ids).logits[0, :-1], dim=-1).gather(1, ids[0, 1:, None])[:, 0]
        found.append(float((said - torch.tensor(tokens.logprobs[1:]))[mask].abs().max()))
    return max(found)


def test_the_exported_model_has_the_adapters_in_its_weights(trained: Trained, tmp_path: Path) -> None:
    words = command(
        "export", str(trained.folder), "--store", str(trained.folder.parents[1] / "results.duckdb"), "-o", str(tmp_path / "model"), "--json"
    )
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, timeout=LONGEST, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["step"] == STEPS and not (tmp_path / "model/lora_adapter").exists()
    judged = [each.tokens for name, each in trained.attempts.items() if name.startswith("eval_after/") and each.tokens is not None]
    assert len(judged) == 1
    # verl's merger rounds weights to bfloat16; what the adapters add is far more.
    assert off(tmp_path / "model", judged) < 0.02
    assert off(trained.folder / "verl/model", judged) > 0.05


def test_nothing_is_left_behind(trained: Trained) -> None:
    assert processes_of((trained.folder / "verl" / MARK_FILE).read_text()) == []
