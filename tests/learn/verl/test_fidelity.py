"""A merged model against what was sampled: how far apart, over how many tokens, and when that is another model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentgym_cli.episode.layouts import LAYOUTS
from agentgym_cli.errors import TrainerError

torch: Any = pytest.importorskip("torch")
transformers: Any = pytest.importorskip("transformers")
fidelity: Any = pytest.importorskip("agentgym_cli.learn.verl.fidelity")
tiny: Any = pytest.importorskip("agentgym_cli.learn.verl.tiny")

pytestmark = [pytest.mark.torch, pytest.mark.slow]
IDS = tuple(range(20, 32))
MASK = (False,) * 4 + (True, True, False, True, True, False, False, True)
"""Five action tokens."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("model") / "m"
    tiny.make_tiny(place, kind="qwen2", tokenizer=None, layout=LAYOUTS["chatml"], context=64, seed=1)
    return place


def recorded(folder: Path, *, off: tuple[float, ...], temperature: float = 1.0, length: int = len(IDS)) -> Any:
    """What a sampler says that is ``off`` by so many nats at the action tokens, in order; by the whole network's own logits."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        table = torch.log_softmax(model(torch.tensor([IDS])).logits[0] / temperature, dim=-1)
    values, rest = [], list(off)
    for place, acted in enumerate(MASK):
        values.append(float(table[place - 1, IDS[place]]) + rest.pop(0) if acted else 0.0)
    return fidelity.Kept(token_ids=IDS, action_mask=MASK, logprobs=tuple(values), temperature=temperature)


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_how_far_apart_and_over_how_many_tokens_is_said(folder: Path, temperature: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fidelity, "_ROWS", 2)
    found = fidelity.compare(folder, [recorded(folder, off=(0.01, -0.03, 0.0, 0.0, 0.01), temperature=temperature)])
    assert (found.episodes, found.tokens) == (1, 5)
    assert (found.largest, found.mean) == pytest.approx((0.03, 0.01), abs=1e-5)
    assert found.sentence() == "at most 0.0300 nats from those sampled, 0.0100 on average, over 5 tokens of 1 episode"


def test_other_weights_are_refused(folder: Path) -> None:
    with pytest.raises(TrainerError, match=r"within 0\.1 nats on average, got at most 0\.3000 nats from those sampled, 0\.1200 on average"):
        fidelity.compare(folder, [recorded(folder, off=(0.3, 0.3, 0.0, 0.0, 0.0))])


def test_nothing_but_the_result_is_said(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    each = recorded(folder, off=(0.0,) * 5)
    capfd.readouterr()
    fidelity.compare(folder, [each])
    assert capfd.readouterr() == ("", "")


def test_nothing_that_was_kept_is_nothing_compared(folder: Path) -> None:
    assert fidelity.compare(folder, []) is None
    assert fidelity.compare(folder, [fidelity.Kept(token_ids=(1, 2), action_mask=(False, False), logprobs=(0.0, 0.0), temperature=1.0)]) is None


def test_no_more_is_scored_than_a_bounded_number_of_tokens(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fidelity, "MOST_TOKENS", 2 * len(IDS))
    each = recorded(folder, off=(0.0,) * 5)
    assert fidelity.compare(folder, [each] * 5).episodes == 2
    monkeypatch.setattr(fidelity, "MOST_TOKENS", 3)
    assert fidelity.compare(folder, [each] * 5).episodes == 1


def test_a_folder_that_does_not_load_says_why(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(TrainerError, match="expected a model that transformers loads, got"):
        fidelity.compare(tmp_path, [recorded(folder, off=(0.0,) * 5)])
