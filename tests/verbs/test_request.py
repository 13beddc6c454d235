"""What the words of one ``eval`` command mean: a request for each policy, and overrides for the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym_cli.errors import RecipeError
from agentgym_cli.verbs.endpoint import with_endpoint
from agentgym_cli.verbs.request import EvaluationWords, PolicyChoice, Request, evaluations

HERE = Request(target="recipes/package_prep.yaml", overrides=["seed=3"])
URL = "http://127.0.0.1:8000/v1"


def overrides(**words: object) -> list[str]:
    """Overrides that words come to, behind those that were there."""
    (request,) = evaluations(HERE, EvaluationWords(**words))  # type: ignore[arg-type]
    assert request.overrides[0] == "seed=3"
    return request.overrides[1:]


def choices(**words: object) -> list[PolicyChoice | None]:
    """The policies of the requests that words come to."""
    return [request.policy for request in evaluations(HERE, EvaluationWords(**words))]  # type: ignore[arg-type]


def test_words_about_episodes_are_overrides() -> None:
    assert overrides(limit=4, samples=8, temperature="0.7") == [
        "evaluation.limit=4",
        "evaluation.samples_per_task=8",
        "evaluation.temperature=0.7",
    ]


@pytest.mark.parametrize("said", ["0", "0.0", "greedy"])
def test_temperature_zero_is_greedy(said: str) -> None:
    assert overrides(temperature=said) == ["evaluation.temperature=greedy"]


@pytest.mark.parametrize("said", ["hot", "nan", "inf", "-1"])
def test_a_temperature_is_a_number(said: str) -> None:
    with pytest.raises(RecipeError, match=f"--temperature: expected a number of at least 0 or greedy, got '{said}'"):
        overrides(temperature=said)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"tasks": ("97",)}, "--tasks: expected a recipe with it"),
        ({"limit": 3, "temperature": "0"}, "--limit, --temperature: expected a recipe with them"),
    ],
)
def test_words_that_change_a_frozen_run_are_named_as_they_were_typed(words: dict[str, object], said: str) -> None:
    for frozen in (Request(target="frozen.json", overrides=[]), Request(target="runs/x", overrides=[], resume=True)):
        with pytest.raises(RecipeError, match=said):
            evaluations(frozen, EvaluationWords(**words))  # type: ignore[arg-type]


def test_filters_of_tasks_are_put_together_by_kind() -> None:
    words = ("textcraft_3,5-9", "12", "category=depth 2", "split=test", "category=depth 3")
    assert overrides(tasks=words) == [
        'evaluation.only.ids="textcraft_3,5-9,12"',
        'evaluation.only.categories=["depth 2", "depth 3"]',
        'evaluation.only.splits=["test"]',
    ]


@pytest.mark.parametrize(
    ("said", "got"),
    [
        ("goal=door", "--tasks 'goal=door': expected category=NAME or split=NAME"),
        ("category=", "--tasks 'category=': expected category=NAME or split=NAME"),
        ("", "--tasks '': expected task numbers (3,5-9), category=NAME or split=NAME, got nothing"),
        ("3,,4", "got nothing"),
        ("3-", "expected task numbers (3,5-9), category=NAME or split=NAME, got '3-'"),
        ("9-3", "expected a range that rises, got 9-3, which goes backwards"),
    ],
)
def test_a_filter_that_cannot_be_meant_is_refused_in_words(said: str, got: str) -> None:
    with pytest.raises(RecipeError) as caught:
        overrides(tasks=(said,))
    assert got in caught.value.message


def test_everything_that_is_wrong_with_words_is_said_at_once() -> None:
    with pytest.raises(RecipeError, match=r"--temperature: .*; --tasks '9-3': .*; --tasks 'split=': "):
        overrides(tasks=("9-3", "4", "split="), temperature="nan")


def test_one_policy_is_one_request() -> None:
    assert choices() == [PolicyChoice()]
    assert choices(policy="oracle") == [PolicyChoice(kind="oracle")]
    assert choices(script=Path("s.jsonl"), policy="scripted") == [PolicyChoice(kind="scripted", script=Path("s.jsonl"))]
    assert choices(endpoints=[f"{URL}=a"]) == [PolicyChoice(endpoint=URL, model="a")]
    assert choices(policy="endpoint", model="b") == [PolicyChoice(kind="endpoint", model="b")]


def test_several_policies_are_a_request_each_in_order() -> None:
    found = choices(checkpoints=[Path("x"), Path("y")], endpoints=[f"{URL}=a", URL], model="b")
    assert found == [
        PolicyChoice(checkpoint=Path("x")),
        PolicyChoice(checkpoint=Path("y")),
        PolicyChoice(endpoint=URL, model="a"),
        PolicyChoice(endpoint=URL, model="b"),
    ]


def test_a_resume_has_one_policy() -> None:
    request = Request(target="runs/x", overrides=[], resume=True)
    with pytest.raises(RecipeError, match="--resume: expected one run, which has one policy, got 2 policies"):
        evaluations(request, EvaluationWords(endpoints=[URL, URL]))


def test_another_policy_beside_several_is_refused() -> None:
    with pytest.raises(RecipeError, match="expected checkpoints and endpoints alone"):
        choices(checkpoints=[Path("x"), Path("y")], policy="oracle")


def test_a_model_belongs_to_an_endpoint() -> None:
    with pytest.raises(RecipeError, match="--model 'qwen': expected --endpoint beside it"):
        choices(model="qwen")
    with pytest.raises(RecipeError, match="got no model behind the ="):
        choices(endpoints=[f"{URL}="])


def test_an_endpoint_becomes_keys_of_the_recipe_and_takes_its_profile_for_one() -> None:
    keys = [f'policy.endpoint.url="{URL}"', 'policy.endpoint.model="qwen"', "evaluation.policy=endpoint"]
    (request,) = evaluations(HERE, EvaluationWords(endpoints=[f"{URL}=qwen"]))
    assert with_endpoint(request).overrides == ["seed=3", *keys]
    trained = Request(target="recipes/textcraft_grpo.yaml", overrides=[], policy=PolicyChoice(endpoint=URL, model="qwen"))
    assert with_endpoint(trained).overrides == ["profile=endpoint", *keys]
    named = Request(target="recipes/textcraft_grpo.yaml", overrides=["profile=laptop"], policy=PolicyChoice(endpoint=URL, model="qwen"))
    assert with_endpoint(named).overrides == ["profile=laptop", *keys]


def test_an_endpoint_and_another_policy_are_refused() -> None:
    with pytest.raises(RecipeError, match="--endpoint: expected no other policy beside it"):
        with_endpoint(Request(target="recipes/package_prep.yaml", overrides=[], policy=PolicyChoice(kind="oracle", endpoint=URL, model="qwen")))


@pytest.mark.parametrize("said", ["http://me:secret@h/v1", "http://me:secret@h/v1=model", "http://me:secret@h/v1="])
def test_promise_11_a_key_in_an_address_is_not_repeated(said: str) -> None:
    with pytest.raises(RecipeError, match="--endpoint: expected") as caught:
        choices(endpoints=[said])
    assert "secret" not in f"{caught.value.message}{caught.value.hint}"


def test_an_address_is_checked_before_anybody_is_asked() -> None:
    with pytest.raises(RecipeError, match="--endpoint: expected http://HOST:PORT/v1"):
        choices(endpoints=["localhost:8000"])
