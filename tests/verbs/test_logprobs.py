"""The sampler against the trainer: equal where they are, and found where they are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym_cli.episode.policies.sampler import TorchDecoder
from agentgym_cli.episode.qualification.findings import NotMet
from agentgym_cli.recipe.resolve import resolve
from agentgym_cli.verbs.logprobs import weigh
from agentgym_cli.verbs.probe import ProbeRequest
from agentgym_cli.verbs.probe_policy import probe_policy
from agentgym_cli.verbs.turns import turns_of
from tests.verbs.chat_models import chat_recipe

pytestmark = pytest.mark.torch


def weighed(recipe: str) -> str:
    resolved = resolve(recipe, ())
    turns = turns_of(resolved.run, beside=resolved.folders)
    return weigh(resolved.run, turns, turns.folder, "")


@pytest.mark.parametrize("kind", ["qwen2", "llama"])
def test_all_five_checks_of_a_small_model_pass(tmp_path: Path, kind: str) -> None:
    found = probe_policy(ProbeRequest(recipe=chat_recipe(tmp_path, model_type=kind)))
    assert [check.result for check in found.checks] == ["pass"] * 5
    assert "nats over" in found.checks[4].detail


def test_log_probabilities_at_another_temperature_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = TorchDecoder._draw

    def warmer(self, active):  # type: ignore[no-untyped-def]
        return [(request, token, logprob * 1.01) for request, token, logprob in drawn(self, active)]

    monkeypatch.setattr(TorchDecoder, "_draw", warmer)
    with pytest.raises(NotMet, match=r"expected at most 0\.001 nats, got max"):
        weighed(chat_recipe(tmp_path))


def test_a_context_too_small_for_three_short_turns_is_found(tmp_path: Path) -> None:
    recipe = Path(chat_recipe(tmp_path))
    recipe.write_text(recipe.read_text().replace("context_tokens: 1024", "context_tokens: 96"))
    with pytest.raises(NotMet, match=r"three short turns, got budgets\.context_tokens of 96"):
        weighed(str(recipe))
