"""Recipes in which a server of OpenAI's protocol acts: what they need, and what they may not say."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.freeze import freeze
from agentgym_cli.recipe.resolve import Resolved, resolve
from agentgym_cli.recipe.rules import doubts
from tests.recipe.builders import RECIPE, has, write_recipe

ENDPOINT = "endpoint: {url: 'http://127.0.0.1:8000/v1', model: qwen}"
TRAIN = RECIPE[RECIPE.index("train:\n") : RECIPE.index("evaluation: {horizon")]
ONLY = (
    RECIPE.replace(TRAIN, "")
    .replace("policy:\n  model: {path: model}\n", f"policy:\n  {ENDPOINT}\n")
    .replace("evaluation: {horizon: 4}", "evaluation: {policy: endpoint, horizon: 4}")
)
"""An endpoint acts and nothing is trained."""


def made(path: str, *overrides: str) -> Resolved:
    return resolve(path, overrides, survey=has())


def complaint(path: str, *overrides: str) -> str:
    with pytest.raises(RecipeError) as caught:
        made(path, *overrides)
    return str(caught.value)


def test_where_only_an_endpoint_acts_no_model_is_needed(tmp_path: Path) -> None:
    resolved = made(write_recipe(tmp_path, ONLY))
    assert (resolved.run.policy.model, resolved.run.train) == (None, None)
    frozen = freeze(resolved)
    assert (frozen.parts["model"], frozen.parts["tokenizer"]) == ({}, {})


@pytest.mark.slow
def test_the_models_name_is_in_the_digest_and_its_address_is_not(tmp_path: Path) -> None:
    path = write_recipe(tmp_path, ONLY)
    digest = freeze(made(path)).digest
    assert freeze(made(path, "policy.endpoint.url=http://elsewhere:1/v1")).digest == digest
    assert freeze(made(path, "policy.endpoint.model=llama")).digest != digest
    assert freeze(made(path, "evaluation.only.ids=2-2")).digest != digest


@pytest.mark.parametrize(
    ("override", "text"),
    [
        ("policy.endpoint=null", "policy: expected a model or an endpoint, got neither"),
        ("policy.endpoint.url=localhost:8000", "policy.endpoint.url: expected http://HOST:PORT/v1 or https://HOST/v1, got"),
        ("policy.endpoint.api=completions", "policy.endpoint.api: expected chat, or policy.model with the tokenizer"),
        ('policy.endpoint.model="\\e[2Jqwen"', "policy.endpoint.model: expected"),
        ("policy.endpoint.api=chats", "policy.endpoint.api: expected one of chat, completions, got 'chats'"),
        ("policy.endpoint.key_variable=sk-1234", "policy.endpoint.key_variable: expected"),
        ("policy.endpoint.requests_per_minute=0", "policy.endpoint.requests_per_minute: expected"),
        ("evaluation.only.ids=3-", "evaluation.only.ids: expected"),
    ],
)
def test_what_an_endpoint_cannot_mean_is_refused(tmp_path: Path, override: str, text: str) -> None:
    said = complaint(write_recipe(tmp_path, ONLY), override)
    assert text in said


def test_promise_11_an_address_with_a_key_in_it_is_refused_and_not_repeated(tmp_path: Path) -> None:
    said = complaint(write_recipe(tmp_path, ONLY.replace("http://127.0.0.1:8000/v1", "http://me:secret@host/v1")))
    assert "got one with credentials (policy.endpoint.key_variable names the variable of a bearer token)" in said
    assert "secret" not in said


def test_ids_that_are_required_need_log_probabilities(tmp_path: Path) -> None:
    said = complaint(write_recipe(tmp_path, ONLY), "policy.endpoint.return_token_ids=required", "policy.endpoint.logprobs=off")
    assert "policy.endpoint.logprobs: expected raw or processed" in said


def test_training_needs_a_model_of_its_own(tmp_path: Path) -> None:
    both = RECIPE.replace("policy:\n", f"policy:\n  {ENDPOINT}\n")
    assert made(write_recipe(tmp_path, both)).run.policy.endpoint is not None
    assert "policy.model: expected a model to train, got null" in complaint(write_recipe(tmp_path, both), "policy.model=null")


def test_an_evaluation_by_an_endpoint_needs_one(tmp_path: Path) -> None:
    said = complaint(write_recipe(tmp_path), "evaluation.policy=endpoint")
    assert "evaluation.policy: expected a section policy.endpoint beside it" in said


def test_a_server_samples_as_it_can_whatever_the_engine(tmp_path: Path) -> None:
    path = write_recipe(tmp_path, ONLY)
    assert made(path, "policy.sampling.top_p=0.9", "policy.sampling.top_k=20").run.policy.sampling.top_k == 20


def test_a_choice_of_tasks_departs_from_a_protocol_that_runs_all(tmp_path: Path) -> None:
    run = made(write_recipe(tmp_path, ONLY), "evaluation.protocol=agenteval", "evaluation.only.splits=[test]").run
    assert (("evaluation", "only"), "expected null, since protocol agenteval runs every task, got a choice of tasks") in list(doubts(run))
