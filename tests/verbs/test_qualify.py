"""A recipe's policy qualified: each check by its name, what is refused before a run, and what a recipe may say with ``--policy``."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym_cli.episode.qualification.findings import CHEAP, CHECKS, NotMet
from agentgym_cli.errors import PolicyError, RecipeError
from agentgym_cli.recipe.resolve import resolve
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.verbs.probe import ProbeRequest
from agentgym_cli.verbs.probe_policy import probe_policy
from agentgym_cli.verbs.progress import Silent
from agentgym_cli.verbs.qualify import Qualification, qualify, require_cheap_checks
from agentgym_cli.verbs.turns import Turns, turn_tokens
from tests.episode.chats import BYTES, CHATML, ENDLESS, FORGETFUL
from tests.verbs.chat_models import chat_recipe
from tests.verbs.frozen_runs import prepared


def equal(run: Run, turns: Turns, folder: Path, prompt: str) -> str:
    return "equal"


def apart(run: Run, turns: Turns, folder: Path, prompt: str) -> str:
    raise NotMet("expected at most 0.001 nats, got 0.5")


def qualified(recipe: str, *overrides: str, weigh: object = equal) -> Qualification:
    resolved = resolve(recipe, overrides)
    return qualify(resolved.run, recipe=recipe, beside=resolved.folders, system_prompt="", weigh=weigh, names=tuple(CHECKS))  # type: ignore[arg-type]


def results(found: Qualification) -> dict[str, str]:
    return {check.name: check.result for check in found.checks}


@pytest.mark.slow
def test_a_model_that_is_right_passes_every_check(tmp_path: Path) -> None:
    assert results(qualified(chat_recipe(tmp_path))) == dict.fromkeys(CHECKS, "pass")


@pytest.mark.slow
def test_a_template_that_rewrites_history_fails_with_the_way_out_and_is_known_where_the_recipe_appends(tmp_path: Path) -> None:
    recipe = chat_recipe(tmp_path, FORGETFUL)
    found = qualified(recipe)
    assert results(found) == {"architecture": "pass", "template": "fail", "masks": "pass", "stop": "pass", "logprobs": "n/a"}
    assert "prompt.history=append keeps every turn as it was sampled" in found.checks[1].detail
    said = results(qualified(recipe, "prompt={system: none, turn_format: template, history: append, action_format: plain}"))
    assert said == {**dict.fromkeys(CHECKS, "pass"), "template": "known deviation"}


@pytest.mark.slow
def test_what_needs_a_failed_check_is_not_made(tmp_path: Path) -> None:
    found = qualified(chat_recipe(tmp_path, ENDLESS))
    assert results(found) == {"architecture": "pass", "template": "fail", "masks": "n/a", "stop": "n/a", "logprobs": "n/a"}
    assert found.checks[2].detail == "not run, since template failed"


@pytest.mark.slow
def test_another_network_another_end_and_other_log_probabilities_fail(tmp_path: Path) -> None:
    other = BYTES.token_to_id("<|endoftext|>")
    assert results(qualified(chat_recipe(tmp_path, model_type="gpt2")))["architecture"] == "fail"
    assert results(qualified(chat_recipe(tmp_path, eos_token_id=other)))["stop"] == "fail"
    found = qualified(chat_recipe(tmp_path), weigh=apart)
    assert results(found) == {**dict.fromkeys(CHECKS, "pass"), "logprobs": "fail"}
    assert found.failure().message == "policy model: logprobs: expected at most 0.001 nats, got 0.5"


def test_an_engine_that_fetches_its_model_has_nothing_to_check_here(tmp_path: Path) -> None:
    recipe = chat_recipe(tmp_path)
    text = (
        Path(recipe)
        .read_text()
        .replace("{path: model, weights: seed}", "{path: some/where}")
        .replace("kind: local, stack: cpu", "kind: verl, stack: verl-cpu")
    )
    Path(recipe).write_text(text + "cluster: {gpus_per_node: 0}\n")
    found = qualified(recipe)
    assert set(results(found).values()) == {"n/a"}
    assert not found.failed


@pytest.mark.slow
def test_promise_09_a_run_is_refused_by_the_checks_that_need_no_weights(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="policy model: template: expected a chat template that leaves earlier turns as they are") as refusal:
        require_cheap_checks(prepared(chat_recipe(tmp_path, FORGETFUL)), Silent())
    assert refusal.value.hint is not None and "--policy shows every check" in refusal.value.hint
    require_cheap_checks(prepared(chat_recipe(tmp_path, CHATML)), Silent())
    assert "logprobs" not in CHEAP


@pytest.mark.slow
def test_a_run_does_not_play_by_a_template_that_rewrites_history_unless_it_appends(tmp_path: Path) -> None:
    refused = resolve(chat_recipe(tmp_path, FORGETFUL), ())
    with pytest.raises(PolicyError, match=r"prompt\.history is exact"):
        turn_tokens(refused.run, beside=refused.folders)
    taken = resolve(chat_recipe(tmp_path, FORGETFUL, history="append"), ())
    assert turn_tokens(taken.run, beside=taken.folders).layout.end == "<|im_end|>"


@pytest.mark.parametrize(
    ("request_", "word"),
    [
        (ProbeRequest(), "expected a recipe, got none"),
        (ProbeRequest(recipe="x", urls=["http://127.0.0.1:1"]), "--url"),
        (ProbeRequest(recipe="x", dialect="textcraft"), "--dialect"),
        (ProbeRequest(recipe="x", level="full"), "--level"),
        (ProbeRequest(recipe="x", files=[None, Path("x.xml")]), "--junit"),
    ],
)
def test_words_for_servers_are_refused_with_policy(request_: ProbeRequest, word: str) -> None:
    with pytest.raises(RecipeError, match=word):
        probe_policy(request_)
