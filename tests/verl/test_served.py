"""A model folder evaluated through the real vLLM, started once: its counts, and its log-probabilities beside transformers' on the same tokens."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from agentgym_cli.episode.clock import EpisodeClock
from agentgym_cli.episode.layouts import LAYOUTS
from agentgym_cli.episode.policies.sampled import Sampled
from agentgym_cli.episode.policies.served import Drawing, ServedPolicy, ServedSampler
from agentgym_cli.learn.verl.launch import MARK_FILE, processes_of
from agentgym_cli.learn.verl.tiny import make_tiny
from agentgym_cli.recipe.schema.policy import SamplingSpec
from agentgym_cli.store.journal import read_journal
from agentgym_cli.store.records import AttemptRecord, OutcomeRecord, ProbeRecord, ScheduledRecord
from agentgym_cli.verbs.evaluate import evaluate_policy
from agentgym_cli.verbs.play import Stage
from agentgym_cli.verbs.progress import Silent
from agentgym_cli.verbs.request import PolicyChoice, Request

pytestmark = [pytest.mark.verl, pytest.mark.timeout(1200), pytest.mark.filterwarnings("ignore")]
RECIPE = "textcraft_grpo.yaml"
TEMPERATURE = 0.7
CONTEXT = (*range(40, 90), 10, 11, 12)


@dataclass
class Beside:
    """Further samples of the same server."""

    greedy: list[Sampled] = field(default_factory=list)
    few: list[Sampled] = field(default_factory=list)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("served") / "m"
    make_tiny(place, kind="qwen2", tokenizer=None, layout=LAYOUTS["chatml"], context=4096, seed=1)
    return place


def request_of(model: Path, place: Path) -> Request:
    words = ["profile=rehearsal", f"policy.model.path={model}", f"policy.sampling.temperature={TEMPERATURE}", "store.keep_tokens=all"]
    return Request(
        target=RECIPE,
        overrides=[*words, "evaluation.samples_per_task=2"],
        runs_dir=place / "runs",
        database=place / "x.duckdb",
        policy=PolicyChoice(),
    )


async def drawn(policy: ServedPolicy, drawing: Drawing, seed: int) -> Sampled:
    other = ServedPolicy(policy.server, drawing, policy._turns, step=0, budgets=policy._budgets, give_up_after=5)
    clock = EpisodeClock()
    return await ServedSampler(other, seed=seed, clock=clock, end=clock.time() + 60).sample(CONTEXT, most=12, stop_ids=frozenset())


def logits(network: Any, ids: Sequence[int]) -> torch.Tensor:
    """Of the token behind each one, (T, V)."""
    with torch.no_grad():
        found: torch.Tensor = network(torch.tensor([list(ids)])).logits[0].float()
    return found


def apart(network: Any, ids: Sequence[int], places: Sequence[int], said: Sequence[float], *, temperature: float) -> float:
    """Largest difference, in nats, between what was said of the tokens at ``places`` and log-softmax(logits / temperature)."""
    table = torch.log_softmax(logits(network, ids) / temperature, dim=-1)
    return max(abs(float(table[place - 1, ids[place]]) - value) for place, value in zip(places, said, strict=True))


def test_vllm_plays_draws_and_scores_as_it_says(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beside, play = Beside(), Stage.play

    async def played(self: Stage, episodes: Any, policy: Any, *, announce: str | None) -> Any:
        over = await play(self, episodes, policy, announce=announce)
        greedy = replace(policy.drawing, temperature=0.0)
        few = replace(policy.drawing, temperature=1.0, sampling=SamplingSpec(top_k=2))
        beside.greedy = [await drawn(policy, greedy, seed) for seed in (1, 2)]
        beside.few = [await drawn(policy, few, seed) for seed in (1, 1, 2)]
        return over

    monkeypatch.setattr(Stage, "play", played)
    finished = evaluate_policy(request_of(model, tmp_path), Silent())
    assert finished.degraded is None and finished.store_trouble is None
    (run,) = (tmp_path / "runs").iterdir()
    assert processes_of((run / "vllm" / MARK_FILE).read_text()) == []
    records = list(read_journal(run))
    scheduled = [each.episode for each in records if isinstance(each, ScheduledRecord)]
    assert len(scheduled) == 4
    assert Counter(each.episode for each in records if isinstance(each, OutcomeRecord)) == Counter(scheduled)
    (probe,) = [each for each in records if isinstance(each, ProbeRecord) and each.name == "vllm: server"]
    assert json.loads((run / "frozen.json").read_text())["observed"]["vllm (policy)"] == probe.detail
    network = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    attempts = [each for each in records if isinstance(each, AttemptRecord)]
    for each in attempts:
        kept = each.tokens
        assert kept is not None and each.turns_count == 4
        places = [place for place, acted in enumerate(kept.action_mask) if acted]
        assert len(places) == each.action_tokens > 0
        assert apart(network, kept.token_ids, places, [kept.logprobs[place] for place in places], temperature=TEMPERATURE) < 1e-3
    assert len({each.tokens.token_ids for each in attempts if each.tokens}) == 4
    check_beside(network, beside)


def check_beside(network: Any, beside: Beside) -> None:
    """Greedy is the likeliest token, scored at temperature 1; of two tokens one's share of both; a seed draws the same tokens again."""
    first, second = beside.greedy
    assert first.token_ids == second.token_ids and len(first.token_ids) == 12
    ids = [*CONTEXT, *first.token_ids]
    places = range(len(CONTEXT), len(ids))
    table = logits(network, ids)
    assert [int(table[place - 1].argmax()) for place in places] == list(first.token_ids)
    assert apart(network, ids, places, first.logprobs, temperature=1.0) < 1e-3
    one, again, other = beside.few
    assert one == again and one.token_ids != other.token_ids
    ids = [*CONTEXT, *one.token_ids]
    for place, value in zip(range(len(CONTEXT), len(ids)), one.logprobs, strict=True):
        kept = logits(network, ids)[place - 1].topk(2)
        shares = dict(zip(kept.indices.tolist(), torch.log_softmax(kept.values, dim=-1).tolist(), strict=True))
        assert abs(shares[ids[place]] - value) < 1e-3


def test_a_folder_that_vllm_cannot_load_gives_its_words_and_exit_code_5(model: Path, tmp_path: Path) -> None:
    (model / "model.safetensors").write_bytes(b"no weights at all")
    words = [sys.executable, "-m", "agentgym_cli", "eval", RECIPE, "profile=rehearsal", f"policy.model.path={model}"]
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "80"}
    ended = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert ended.returncode == 5, ended.stderr
    assert "error: vLLM: expected a server until the end, got exit status 1: SafetensorError: " in ended.stderr
    (run,) = (tmp_path / "runs").iterdir()
    assert processes_of((run / "vllm" / MARK_FILE).read_text()) == []
    assert sum(isinstance(each, ScheduledRecord) for each in read_journal(run)) == 0
