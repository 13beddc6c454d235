"""A policy qualified from end to end: SmolLM2 as it is published, and the tokenizer and template of Qwen3, which is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentgym_cli.verbs.probe import ProbeRequest
from agentgym_cli.verbs.probe_policy import probe_policy
from tests.episode.real_tokenizers import write_qwen
from tests.verbs.chat_models import CONFIG, chat_recipe
from tests.verbs.smollm2 import write_smollm2

pytestmark = [pytest.mark.tokens, pytest.mark.slow, pytest.mark.torch]


def policy(folder: Path) -> str:
    return f"policy.model={{path: {folder}, weights: {'files' if (folder / 'model.safetensors').exists() else 'seed'}}}"


@pytest.fixture(scope="module")
def qwen3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Qwen3's tokenizer and template, over a network made from a seed."""
    folder = write_qwen(tmp_path_factory.mktemp("qwen3"), "qwen3")
    (folder / "config.json").write_text(json.dumps(CONFIG | {"vocab_size": 151_936, "eos_token_id": 151_645}))
    return folder


@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore")
def test_smollm2_passes_all_five_checks(tmp_path: Path) -> None:
    folder = write_smollm2(tmp_path / "smollm2")
    found = probe_policy(ProbeRequest(recipe=chat_recipe(tmp_path), overrides=[policy(folder)]))
    assert [(check.name, check.result) for check in found.checks] == [
        (name, "pass") for name in ("architecture", "template", "masks", "stop", "logprobs")
    ]
    assert found.checks[0].detail.startswith("llama, 30 layers")
    # The template's instructions are SmolLM2's own where a recipe says none.
    assert "the template adds instructions of its own" in found.checks[1].detail


def test_qwen3_is_refused_as_it_is_and_taken_where_the_recipe_appends(tmp_path: Path, qwen3: Path) -> None:
    recipe = chat_recipe(tmp_path)
    refused = probe_policy(ProbeRequest(recipe=recipe, overrides=[policy(qwen3)]))
    assert [check.result for check in refused.checks] == ["pass", "fail", "pass", "pass", "n/a"]
    assert "a <think> block of an earlier action is left out or changed" in refused.checks[1].detail
    taken = probe_policy(ProbeRequest(recipe=chat_recipe(tmp_path, history="append"), overrides=[policy(qwen3)]))
    assert [check.result for check in taken.checks] == ["pass", "known deviation", "pass", "pass", "pass"]
