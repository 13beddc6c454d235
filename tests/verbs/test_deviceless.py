"""Answers for runs without devices: an endpoint, a rule, a rehearsal."""

from __future__ import annotations

from functools import cache

import pytest

from agentgym_cli.errors import RecipeError
from agentgym_cli.verbs.capacity import Answer, Question, answer, require_fit
from agentgym_cli.verbs.deviceless import ServedAnswer
from agentgym_cli.verbs.rehearsed import RehearsedAnswer

TEXTCRAFT = "recipes/textcraft_grpo.yaml"
PRICES = ("policy.endpoint.price_per_million_input=0.5", "policy.endpoint.price_per_million_output=1.5")


@cache
def asked(*overrides: str, **words: object) -> Answer:
    return answer(Question(recipe=TEXTCRAFT, overrides=overrides, **words))  # type: ignore[arg-type]


def served(*overrides: str, **words: object) -> ServedAnswer:
    found = asked("profile=endpoint", *overrides, **words)
    assert isinstance(found, ServedAnswer)
    return found


def test_an_endpoint_has_episodes_tokens_time_and_no_memory() -> None:
    found = served()
    assert (found.model, found.why_no_memory) == ("Qwen/Qwen2.5-7B-Instruct", "the server has it, whose devices are not ours")
    # 100 tasks, 18 of 30 turns each, 128 of 512 tokens a turn
    assert (found.stage.episodes, found.stage.tokens_sampled) == (100, 100 * 18 * 128)
    # contexts begin with 600 tokens and grow by 60 and 128 a turn
    assert found.stage.tokens_read == 100 * sum(600 + 188 * turn for turn in range(18))
    # a guess: 0.5 s and 128 x 0.02 s, beside the measured 0.7 ms of a world and 1 ms of a call
    assert found.server.turn_seconds == pytest.approx(3.06)
    assert found.time.turns_per_second["episodes at once"] == pytest.approx(64 / 3.0617)
    require_fit(found)


def test_samples_and_a_limit_make_the_schedule() -> None:
    assert served("evaluation.samples_per_task=3", "evaluation.limit=7").stage.episodes == 21


def test_tokens_have_prices_of_their_own() -> None:
    found = served(*PRICES)
    assert found.stage.cost == pytest.approx((0.5 * found.stage.tokens_read + 1.5 * found.stage.tokens_sampled) / 1e6)
    assert found.per_success[0].cost == pytest.approx((found.stage.cost or 0) / 10)
    assert (found.no_cost, found.notes) == (None, ())
    half = served(PRICES[0])
    assert half.notes == ("tokens sampled have no price and are not in the cost",)
    assert served().no_cost == "no price was given (policy.endpoint.price_per_million_input and price_per_million_output)"


def test_limits_of_the_run_that_are_too_low_are_said() -> None:
    found = served(*PRICES, "budgets.run_tokens=1000000", "budgets.run_cost=2")
    assert found.notes == (
        "budgets.run_tokens=1000000 ends the run before its last episode",
        "budgets.run_cost=2 ends the run before its last episode",
    )


def test_the_endpoints_own_limits_bound_it() -> None:
    assert served("policy.endpoint.max_in_flight=4").time.bottleneck == "requests at once"
    found = served("policy.endpoint.requests_per_minute=60")
    assert (found.time.bottleneck, found.time.turns_per_second["requests a minute"]) == ("requests a minute", 1.0)


def test_an_evaluations_size_costs_tokens() -> None:
    plan = served(*PRICES, width=0.1).evaluation
    assert plan is not None
    size, whole = plan.for_width[0], served(*PRICES).stage
    assert size.stage is not None and size.tasks is not None
    assert size.stage.cost == pytest.approx((whole.cost or 0) * size.tasks / 100)


def test_a_rule_costs_nothing_and_waits_for_worlds() -> None:
    found = asked("profile=laptop", "train=null", "warm_start=null", "evaluation.policy=oracle")
    assert isinstance(found, ServedAnswer)
    assert (found.model, found.why_no_memory, found.no_cost) == (None, "no model acts, policy oracle does", "nobody is paid")
    assert (found.stage.tokens_read, found.stage.tokens_sampled, found.time.bottleneck) == (0.0, 0.0, "worlds")


def test_a_rehearsal_is_not_judged_by_the_real_model() -> None:
    found = asked("profile=rehearsal")
    assert isinstance(found, RehearsedAnswer)
    assert (found.model, found.processes, found.taken) == ("Qwen/Qwen2.5-7B-Instruct", 1, int(6.7 * 1024**3))
    two = asked("profile=rehearsal", "cluster.nodes=2")
    assert isinstance(two, RehearsedAnswer) and two.taken == 2 * found.taken
    require_fit(found)


@pytest.mark.parametrize("profile", ["endpoint", "rehearsal"])
@pytest.mark.parametrize("words", [{"gpu": "h100-80g"}, {"gpus": 8}, {"gpu_price": 2.0}])
def test_gpus_are_not_asked_of_what_has_none(profile: str, words: dict[str, object]) -> None:
    with pytest.raises(RecipeError, match=r"--gpu.*: expected none where no GPU is used"):
        asked(f"profile={profile}", **words)


def test_without_a_list_of_tasks_there_is_nothing_to_count() -> None:
    with pytest.raises(RecipeError, match="expected published lists of ids"):
        answer(Question(recipe="recipes/agentgym_rl/webarena_scaling.yaml", overrides=["train=null", "evaluation.policy=random"]))
