"""A policy behind a server of OpenAI's protocol: what it sends, what it keeps, and how it waits."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from agentgym_cli.env.contract import InfraCause
from agentgym_cli.env.pointer import Json
from agentgym_cli.episode.clock import EpisodeClock
from agentgym_cli.episode.policies.failures import PolicyUnavailable
from agentgym_cli.episode.tokens import TurnTokens
from agentgym_cli.episode.types import AttemptResult, Outcome, StopReason
from agentgym_cli.errors import PolicyError
from agentgym_cli.recipe.schema.policy import SamplingSpec
from tests.episode.endpoints import BUDGETS, Setting, asked_for_turns, one_episode, played, spec_with
from tests.episode.fakes import FakeEnv, make_episode, solve_in
from tests.episode.llm_server import END, Fields, LlmStub, last_words, spell
from tests.episode.virtual_time import run_virtual

TOO_LONG: Json = {"error": {"message": "This model's maximum context length is 64 tokens.", "code": 400, "type": "BadRequestError"}}
TOOL: Fields = {
    "finish_reason": "tool_calls",
    "message": {"content": None, "tool_calls": [{"function": {"name": "craft", "arguments": '{"item": "door"}'}}]},
}


def echo(fields: Fields, number: int) -> str:
    """Says back the last words."""
    return last_words(fields)


def test_a_conversation_is_appended_message_by_message() -> None:
    stub = LlmStub(say=echo)
    result, _ = played(Setting(stub=stub, system_prompt="Be brief."), FakeEnv(answer=solve_in(3)))
    assert (result.outcome, [turn.action for turn in result.turns]) == (Outcome.SUCCESS, ["task 0", "after task 0", "after after task 0"])
    assert asked_for_turns(stub)[2]["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "task 0"},
        {"role": "assistant", "content": "task 0"},
        {"role": "user", "content": "after task 0"},
        {"role": "assistant", "content": "after task 0"},
        {"role": "user", "content": "after after task 0"},
    ]


def test_a_request_says_model_temperature_limit_stop_and_the_attempts_own_seed() -> None:
    stub = LlmStub()
    spec = spec_with(stop=("\nObservation:",), return_token_ids="off")
    played(Setting(stub=stub, spec=spec, temperature=0.7, sampling=SamplingSpec(top_p=0.9, top_k=20)))
    sent = dict(asked_for_turns(stub)[0])
    assert sent.pop("messages")
    expected = {"model": "stub", "temperature": 0.7, "top_p": 0.9, "top_k": 20, "max_tokens": 32, "stop": ["\nObservation:"], "seed": 7}
    assert sent == expected


def test_a_server_that_takes_no_seed_gets_none() -> None:
    stub = LlmStub(unknown=("seed",))
    result, _ = played(Setting(stub=stub, spec=spec_with(send_seed=False)))
    assert result.outcome is Outcome.SUCCESS


@pytest.mark.parametrize("content", ["", None])
def test_a_model_that_says_nothing_has_an_ordinary_empty_turn(content: str | None) -> None:
    stub = LlmStub(say=lambda fields, number: {"finish_reason": "stop", "message": {"content": content}})
    result, _ = played(Setting(stub=stub), FakeEnv(answer=solve_in(9)), horizon=3)
    assert (result.stop, [turn.text for turn in result.turns]) == (StopReason.HORIZON, ["", "", ""])


def test_a_response_that_the_server_cut_is_a_cut_one() -> None:
    stub = LlmStub(say=lambda fields, number: "get 2 wool")

    async def said() -> list[tuple[str, bool]]:
        policy = await Setting(stub=stub, budgets=replace(BUDGETS, response_tokens=8)).policy()
        player = await policy.open(make_episode(), seed=1, session=await FakeEnv().open(), clock=EpisodeClock())
        replies = [await player.act("hello")]
        stub.say = lambda fields, number: "go"
        replies.append(await player.act("hello"))
        return [(reply.text, reply.cut) for reply in replies]

    assert run_virtual(said()) == [("get 2 wo", True), ("go", False)]


def test_of_several_choices_the_first_counts() -> None:
    two: Json = [{"index": 1, "message": {"content": "second"}}, {"index": 0, "message": {"content": "first"}}]
    stub = LlmStub(fault=lambda number: (200, {}, {"choices": two}))
    result, _ = played(Setting(stub=stub))
    assert result.turns[0].text == "first"


def test_a_call_of_a_tool_is_text_where_calls_are_read() -> None:
    result, _ = played(Setting(stub=LlmStub(say=lambda fields, number: TOOL), calls=True))
    assert json.loads(result.turns[0].text) == {"function_name": "craft", "arguments": {"item": "door"}}


def test_a_call_of_a_tool_is_named_where_no_call_is_read() -> None:
    result, _ = played(Setting(stub=LlmStub(say=lambda fields, number: TOOL)))
    assert (result.stop, result.cause, result.outcome) == (StopReason.POLICY_PROTOCOL, InfraCause.PROTOCOL, Outcome.INFRA_ERROR)
    assert "expected text, got a call of the tool 'craft'" in result.detail


@pytest.mark.parametrize("broken", ["[]", "{not json", '{"item"', "null"])
def test_broken_arguments_of_a_call_are_the_models_mistake(broken: str) -> None:
    choice: Fields = {"message": {"tool_calls": [{"function": {"name": "craft", "arguments": broken}}]}}
    result, _ = played(Setting(stub=LlmStub(say=lambda fields, number: choice), calls=True))
    assert result.outcome is Outcome.SUCCESS


def test_text_that_has_no_utf8_goes_back_as_question_marks() -> None:
    lone: Fields = {"message": {"tool_calls": [{"function": {"name": "say", "arguments": '{"word": "\\ud800"}'}}]}}
    stub = LlmStub(say=lambda fields, number: lone)
    world = FakeEnv(answer=solve_in(2), first=lambda index: "a lone \ud800")
    result, _ = played(Setting(stub=stub, calls=True), world)
    assert (result.outcome, result.turns[0].text) == (Outcome.SUCCESS, '{"function_name": "say", "arguments": {"word": "?"}}')
    assert last_words(asked_for_turns(stub)[0]) == "a lone ?"


def test_a_response_far_beyond_its_limit_is_no_answer() -> None:
    result, _ = played(Setting(stub=LlmStub(say=lambda fields, number: {"message": {"content": "x" * 5_000}})))
    assert (result.stop, result.cause) == (StopReason.POLICY_PROTOCOL, InfraCause.PROTOCOL)
    assert "expected at most 32 tokens, which are at most 4096 characters, got 5000 characters" in result.detail


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("html", "expected JSON, got '<html><title>nginx</title></html>'"),
        ("broken", "expected JSON"),
        ("huge", "expected at most 8388608 bytes, got more"),
        ((200, {}, ["no", "completion"]), "expected a completion with choices"),
        ((200, {}, {"choices": []}), "expected a completion with choices"),
        ((200, {}, {"choices": [{"message": {"content": 7}}]}), "content to be text, got 7"),
        ((200, {}, {"choices": [{"text": "plain"}]}), "expected choices[0].message"),
        ((302, {"location": "http://elsewhere"}, {}), "redirects are not followed"),
    ],
    ids=str,
)
def test_an_answer_that_is_no_completion_is_an_infra_error(fault: object, said: str) -> None:
    stub = LlmStub(fault=lambda number: None if number == 0 else fault)  # type: ignore[arg-type,return-value]
    result, _ = played(Setting(stub=stub))
    assert (result.stop, result.cause, result.outcome) == (StopReason.POLICY_PROTOCOL, InfraCause.PROTOCOL, Outcome.INFRA_ERROR)
    assert said in result.detail


def test_a_busy_server_is_asked_again_when_it_says() -> None:
    busy: Json = {"error": {"message": "slow down"}}
    stub = LlmStub(fault=lambda number: (429, {"retry-after": "7"}, busy) if number in (1, 2) else None)
    result, _ = played(Setting(stub=stub))
    assert result.outcome is Outcome.SUCCESS
    first, second, third = stub.started[1:]
    # The pause that is asked for, and at most half of the first or second pause of one's own (0.5 s and 1 s) on top.
    assert 7 <= second - first <= 7.25
    assert 7 <= third - second <= 7.5


def test_pauses_double_and_are_spread_by_the_attempts_seed() -> None:
    def pauses(seed: int) -> list[float]:
        stub = LlmStub(fault=lambda number: 503 if 1 <= number <= 4 else None)

        async def play() -> AttemptResult:
            return await one_episode(await Setting(stub=stub).policy(), FakeEnv(), budgets=BUDGETS, seed=seed)

        assert run_virtual(play()).outcome is Outcome.SUCCESS
        return [after - before for before, after in zip(stub.started[1:], stub.started[2:], strict=False)]

    one, other = pauses(1), pauses(2)
    for pause, longest in zip(one, [0.5, 1.0, 2.0, 4.0], strict=True):
        assert longest / 2 <= pause <= longest
    assert one == pauses(1)
    assert one != other


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        (500, InfraCause.SERVER_5XX),
        (429, InfraCause.SERVER_4XX),
        ((200, {}, {"error": {"message": "provider is down", "code": 502}}), InfraCause.REPORTED_ERROR),
    ],
    ids=str,
)
def test_a_server_that_stays_broken_is_unavailable_within_the_time_for_it(fault: object, cause: InfraCause) -> None:
    stub = LlmStub(fault=lambda number: None if number == 0 else fault)  # type: ignore[arg-type,return-value]
    result, _ = played(Setting(stub=stub, spec=spec_with(retry_seconds=20.0)))
    assert (result.stop, result.cause, result.outcome) == (StopReason.POLICY_UNAVAILABLE, cause, Outcome.INFRA_ERROR)
    assert result.policy_seconds <= 20.0
    assert "tries)" in result.detail


def test_an_outage_never_lasts_into_a_deadline_that_would_make_it_a_failure() -> None:
    stub = LlmStub(fault=lambda number: None if number == 0 else 503)
    short = replace(BUDGETS, policy_call_seconds=30.0)
    call, _ = played(Setting(stub=stub, budgets=short, spec=spec_with(retry_seconds=10_000.0)))
    assert (call.stop, call.policy_seconds <= 27.0) == (StopReason.POLICY_UNAVAILABLE, True)
    stub = LlmStub(fault=lambda number: None if number == 0 else 503)
    short = replace(BUDGETS, policy_call_seconds=600.0, episode_seconds=50.0)
    episode, _ = played(Setting(stub=stub, budgets=short, spec=spec_with(retry_seconds=10_000.0)))
    assert (episode.stop, episode.seconds <= 40.0) == (StopReason.POLICY_UNAVAILABLE, True)


def test_a_server_that_asks_for_a_longer_wait_than_there_is_time_is_given_up_at_once() -> None:
    stub = LlmStub(fault=lambda number: None if number == 0 else (429, {"retry-after": "3600"}, {}))
    result, _ = played(Setting(stub=stub))
    assert (result.stop, result.seconds, len(stub.asked)) == (StopReason.POLICY_UNAVAILABLE, 0.0, 2)


def test_a_server_that_never_answers_spends_the_policys_own_deadline() -> None:
    stub = LlmStub(fault=lambda number: None if number == 0 else "hang")
    result, _ = played(Setting(stub=stub))
    assert (result.stop, result.seconds) == (StopReason.POLICY_DEADLINE, 60.0)


@pytest.mark.parametrize("status", [400, 404, 422])
def test_a_refusal_that_does_not_pass_is_not_asked_again(status: int) -> None:
    stub = LlmStub(fault=lambda number: None if number == 0 else status)
    result, _ = played(Setting(stub=stub))
    assert (result.stop, result.cause, len(stub.asked)) == (StopReason.POLICY_UNAVAILABLE, InfraCause.SERVER_4XX, 2)


def test_a_key_that_is_no_longer_accepted_ends_the_run() -> None:
    stub = LlmStub(fault=lambda number: None if number == 0 else 401)
    with pytest.raises(PolicyError, match="expected the key to be accepted, got HTTP 401"):
        played(Setting(stub=stub, key="sk-secret"))


@pytest.mark.parametrize(
    "error",
    [
        TOO_LONG,
        {"error": {"message": "too many", "code": "context_length_exceeded"}},
        {"error": {"message": "the request exceeds the available context size", "type": "exceed_context_size_error"}},
        {"object": "error", "message": "The input (99 tokens) is longer than the model's context length", "code": 400},
    ],
    ids=str,
)
def test_a_prompt_that_the_model_cannot_read_is_a_full_context(error: Json) -> None:
    stub = LlmStub(fault=lambda number: None if number < 2 else (400, {}, error))
    result, _ = played(Setting(stub=stub), FakeEnv(answer=solve_in(9)))
    assert (result.stop, result.outcome, result.truncated, len(result.turns)) == (StopReason.CONTEXT, Outcome.FAILURE, True, 1)


def test_a_shorter_response_is_asked_for_before_the_context_counts_as_full() -> None:
    def fault(number: int) -> tuple[int, dict[str, str], Json] | None:
        limit = stub.asked[number]["max_tokens"]
        assert isinstance(limit, int)
        return (400, {}, TOO_LONG) if limit > 16 else None

    stub = LlmStub(fault=fault)
    result, _ = played(Setting(stub=stub, budgets=replace(BUDGETS, response_tokens=512)))
    assert result.outcome is Outcome.SUCCESS
    assert [fields["max_tokens"] for fields in asked_for_turns(stub)] == [512, 128, 32, 16]


def test_the_context_budget_ends_an_episode_before_more_is_sent() -> None:
    stub = LlmStub(say=lambda fields, number: "x" * 20)
    small = replace(BUDGETS, response_tokens=30, context_tokens=40)
    result, _ = played(Setting(stub=stub, budgets=small), FakeEnv(answer=solve_in(9)))
    # 7 + 21 tokens, then a prompt of 28 + 27, counted by the server, which is more than 40.
    assert (result.stop, len(result.turns), len(asked_for_turns(stub))) == (StopReason.CONTEXT, 1, 2)


def test_an_observation_that_cannot_fit_is_not_sent() -> None:
    stub = LlmStub()
    small = replace(BUDGETS, response_tokens=8, context_tokens=16)
    result, _ = played(Setting(stub=stub, budgets=small), FakeEnv(first=lambda index: "x" * 10_000))
    assert (result.stop, len(asked_for_turns(stub))) == (StopReason.CONTEXT, 0)


def test_ids_that_the_server_gives_make_the_trajectory() -> None:
    stub = LlmStub(say=lambda fields, number: "ab", ids=True, logprob=-0.25)
    result, policy = played(Setting(stub=stub), FakeEnv(answer=solve_in(2)))
    assert policy.notes == {}
    trajectory = result.trajectory
    assert trajectory is not None
    first, second, action = [*spell("task 0"), END], [*spell("after ab"), END], [*spell("ab"), END]
    assert trajectory.token_ids == (*first, *action, *second, *action)
    assert trajectory.action_mask == (*[False] * 7, *[True] * 3, *[False] * 9, *[True] * 3)
    assert trajectory.logprobs == (*[0.0] * 7, *[-0.25] * 3, *[0.0] * 9, *[-0.25] * 3)
    assert (result.turns[1].context_tokens, result.action_tokens) == (19, 6)


def test_a_template_that_rewrites_history_gives_no_trajectory_and_a_note() -> None:
    def forgetful(fields: Fields) -> list[int]:
        return [*spell(last_words(fields)), END]

    stub = LlmStub(ids=True, prompt_ids=forgetful)
    result, policy = played(Setting(stub=stub), FakeEnv(answer=solve_in(2)))
    assert (result.outcome, result.trajectory) == (Outcome.SUCCESS, None)
    assert list(policy.notes) == ["history"]


def test_ids_without_log_probabilities_of_what_was_drawn_make_no_trajectory() -> None:
    for changes, temperature in ((spec_with(), 0.7), (spec_with(logprobs="off"), 1.0)):
        result, _ = played(Setting(stub=LlmStub(ids=True), spec=changes, temperature=temperature))
        assert (result.outcome, result.trajectory) == (Outcome.SUCCESS, None)
    result, _ = played(Setting(stub=LlmStub(ids=True), spec=spec_with(logprobs="processed"), temperature=0.7))
    assert result.trajectory is not None


def words(*vocabulary: str) -> TurnTokens:
    """A tokenizer of 300 whole words in format ``words``; <end> has id 3, as the stub's END."""
    tokens = ["<unk>", "<obs>", "<act>", "<end>", *vocabulary]
    tokens += [f"word{place}" for place in range(len(tokens), 300)]
    tokenizer = Tokenizer(models.WordLevel({token: place for place, token in enumerate(tokens)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens(tokens[:4])
    return TurnTokens(tokenizer, "words")


def test_completions_send_ids_and_keep_what_was_sampled_as_it_came() -> None:
    stub = LlmStub(say=lambda fields, number: "go", ids=True)
    layout = words("task", "0", "after", "go", "Hello")
    result, policy = played(Setting(stub=stub, spec=spec_with(api="completions"), tokens=layout), FakeEnv(answer=solve_in(2)))
    first, second = asked_for_turns(stub)
    # <obs> task 0 <act>, then the stub's own ids for "go", which the tokenizer here would not give, then <obs> after go <act>.
    assert first["prompt"] == [1, 4, 5, 2]
    assert second["prompt"] == [1, 4, 5, 2, 203, 211, 3, 1, 6, 7, 2]
    assert (first["stop_token_ids"], first["logprobs"], first["return_token_ids"]) == ([3], 0, True)
    assert policy.notes == {}
    trajectory = result.trajectory
    assert trajectory is not None
    assert trajectory.token_ids == (1, 4, 5, 2, 203, 211, 3, 1, 6, 7, 2, 203, 211, 3)
    assert [token for token, sampled in zip(trajectory.token_ids, trajectory.action_mask, strict=True) if sampled] == [203, 211, 3] * 2


def test_ids_beyond_the_vocabulary_are_none() -> None:
    choice: Fields = {"finish_reason": "stop", "text": "go", "token_ids": [300, 3], "logprobs": {"token_logprobs": [-0.5, -0.5]}}
    stub = LlmStub(say=lambda fields, number: "go" if number == 0 else choice, ids=True)
    setting = Setting(stub=stub, spec=spec_with(api="completions"), tokens=words("task", "0", "after", "go", "Hello"))
    stub.ids = False
    result, _ = played(setting, FakeEnv(answer=solve_in(2)))
    assert asked_for_turns(stub)[1]["prompt"] == [1, 4, 5, 2, 7, 3, 1, 6, 7, 2]
    assert (result.outcome, result.trajectory) == (Outcome.SUCCESS, None)


def test_completions_without_ids_go_on_from_the_text_and_make_no_trajectory() -> None:
    stub = LlmStub(say=lambda fields, number: "go")
    layout = words("task", "0", "after", "go", "Hello")
    result, _ = played(Setting(stub=stub, spec=spec_with(api="completions"), tokens=layout), FakeEnv(answer=solve_in(2)))
    assert asked_for_turns(stub)[1]["prompt"] == [1, 4, 5, 2, 7, 3, 1, 6, 7, 2]
    assert (result.outcome, result.trajectory) == (Outcome.SUCCESS, None)


def test_completions_check_the_context_before_sending() -> None:
    stub = LlmStub(say=lambda fields, number: "go", ids=True)
    layout = words("task", "0", "after", "go", "Hello")
    small = replace(BUDGETS, response_tokens=4, context_tokens=12)
    setting = Setting(stub=stub, spec=spec_with(api="completions"), tokens=layout, budgets=small)
    result, _ = played(setting, FakeEnv(answer=solve_in(9)))
    # 4 tokens and 4 of room, then 4 + 3 + 4 and a room of 1, which fills the context.
    assert [fields["max_tokens"] for fields in asked_for_turns(stub)] == [4, 1]
    assert result.stop is StopReason.CONTEXT


def test_failures_of_a_policy_travel_between_processes_with_their_cause() -> None:
    failure = pickle.loads(pickle.dumps(PolicyUnavailable("down", "wait", InfraCause.RESET)))
    assert (failure.message, failure.hint, failure.cause) == ("down", "wait", InfraCause.RESET)
