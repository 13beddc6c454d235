"""The policy behind a vLLM server of our own: what it sends, what it keeps, what it refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import httpx
import pytest

from agentgym_cli.env.caller import HttpCaller
from agentgym_cli.env.contract import InfraCause, ServersLost
from agentgym_cli.env.wire import build_http
from agentgym_cli.episode.clock import EpisodeClock
from agentgym_cli.episode.loop import run_episode
from agentgym_cli.episode.policies.endpoint_call import LlmServer
from agentgym_cli.episode.policies.endpoint_pace import Gate
from agentgym_cli.episode.policies.failures import PolicyProtocol, PolicyUnavailable
from agentgym_cli.episode.policies.sampled import Sampled
from agentgym_cli.episode.policies.served import Drawing, ServedPolicy, ServedSampler, turn_seed
from agentgym_cli.episode.policies.token_turns import TokenTurns
from agentgym_cli.episode.types import AttemptResult, Outcome, StopReason
from agentgym_cli.recipe.schema.policy import SamplingSpec
from agentgym_cli.recipe.schema.world import BudgetsSpec
from tests.episode.chats import CHATML, laid_out
from tests.episode.fakes import PLAIN, FakeEnv, make_episode, make_rules, solve_in
from tests.episode.llm_server import Fields, LlmStub
from tests.episode.virtual_time import run_virtual

BUDGETS = BudgetsSpec(response_tokens=8, context_tokens=200, policy_call_seconds=60.0, env_call_seconds=10.0, episode_seconds=600.0)
PLAIN_SAMPLING = SamplingSpec()
STOP = frozenset({900})
TOKENS, _ = laid_out(CHATML)


def choice(*ids: int, logprobs: list[float] | None = None, reason: str = "stop") -> Callable[[Fields, int], Fields]:
    """What vLLM says: ids with their log-probabilities, and the prompt's."""

    def say(fields: Fields, number: int) -> Fields:
        numbers = [-0.25] * len(ids) if logprobs is None else logprobs
        return {
            "text": "not what is read",
            "finish_reason": reason,
            "token_ids": [*ids],
            "logprobs": {"token_logprobs": [*numbers]},
            "prompt_token_ids": fields["prompt"],
        }

    return say


@dataclass(frozen=True, kw_only=True)
class Setting:
    stub: LlmStub
    sampling: SamplingSpec = PLAIN_SAMPLING
    temperature: float = 1.0
    give_up_after: int = 5

    def policy(self) -> ServedPolicy:
        transport = httpx.ASGITransport(self.stub.app(), raise_app_exceptions=False)
        gate = Gate(requests_per_minute=None, tokens_per_minute=None, in_flight=None)
        server = LlmServer(HttpCaller(build_http(transport=transport)), "http://vllm/v1", gate=gate)
        drawing = Drawing(model="stub", sampling=self.sampling, temperature=self.temperature)
        turns = TokenTurns(TOKENS, system_prompt="", context=BUDGETS.context_tokens, response=BUDGETS.response_tokens)
        return ServedPolicy(server, drawing, turns, step=3, budgets=BUDGETS, give_up_after=self.give_up_after)


def sampled(setting: Setting, *, context: tuple[int, ...] = (1, 2, 3), most: int = 8) -> Sampled:
    async def sample() -> Sampled:
        clock = EpisodeClock()
        sampler = ServedSampler(setting.policy(), seed=7, clock=clock, end=clock.time() + 500)
        return await sampler.sample(context, most=most, stop_ids=STOP)

    return run_virtual(sample())


def test_a_request_is_ids_and_ends_at_our_stops_alone() -> None:
    stub = LlmStub(say=choice(5, 900))
    sampled(Setting(stub=stub, temperature=0.7, sampling=SamplingSpec(top_p=0.9, top_k=20)))
    assert stub.asked == [
        {
            "model": "stub",
            "prompt": [1, 2, 3],
            "max_tokens": 8,
            "temperature": 0.7,
            "top_p": 0.9,
            "top_k": 20,
            "seed": turn_seed(7, 3),
            "stop_token_ids": [900],
            "ignore_eos": True,
            "logprobs": 0,
            "return_token_ids": True,
        }
    ]


def test_what_was_sampled_is_kept_with_its_log_probabilities_and_the_step_of_the_weights() -> None:
    said = sampled(Setting(stub=LlmStub(say=choice(5, 900, logprobs=[-1.5, -0.5]))))
    assert said == Sampled(token_ids=(5, 900), logprobs=(-1.5, -0.5), version=3)


def test_every_turn_of_an_attempt_has_a_seed_of_its_own() -> None:
    # sha256sum of "7\n3" and "7\n4" begin so.
    assert (turn_seed(7, 3), turn_seed(7, 4)) == (0x664A5AE770AB77F5 >> 1, 0xEFC890A19A42C59C >> 1)
    assert len({turn_seed(seed, length) for seed in range(4) for length in range(50)}) == 200


@pytest.mark.parametrize(
    ("say", "kind", "message"),
    [
        (lambda fields, number: {**choice(5)(fields, number), "prompt_token_ids": [1, 2]}, PolicyProtocol, "to the 3 tokens that were sent"),
        (lambda fields, number: {**choice(5)(fields, number), "logprobs": None}, PolicyProtocol, "as many log-probabilities, got 1 and 0"),
        (lambda fields, number: {**choice(5)(fields, number), "token_ids": None}, PolicyProtocol, "expected 1 to 8 tokens"),
        (choice(*range(9)), PolicyProtocol, "expected 1 to 8 tokens and as many log-probabilities, got 9"),
        (choice(), PolicyProtocol, "expected 1 to 8 tokens"),
        (choice(5, reason="abort"), PolicyUnavailable, "expected a whole response, got one that ended by 'abort'"),
    ],
    ids=["another prompt", "no log-probabilities", "no ids", "too many", "none", "given up"],
)
def test_a_reply_that_is_no_sample_of_this_context_is_refused(say: Callable[[Fields, int], Fields], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        sampled(Setting(stub=LlmStub(say=say)))


def test_a_server_that_finds_the_context_too_short_is_no_full_context() -> None:
    full = (400, {}, {"error": {"message": "This model's maximum context length is 2 tokens.", "code": 400, "type": "BadRequestError"}})
    with pytest.raises(PolicyProtocol, match=r"expected room for 3 \+ 8 tokens"):
        sampled(Setting(stub=LlmStub(say=choice(5), fault=lambda number: full)))


def test_a_server_that_errs_is_asked_again_and_then_given_up() -> None:
    once = LlmStub(say=choice(5, 900), fault=lambda number: 500 if number == 0 else None)
    assert sampled(Setting(stub=once)).token_ids == (5, 900)
    assert len(once.asked) == 2
    with pytest.raises(PolicyUnavailable) as raised:
        sampled(Setting(stub=LlmStub(say=choice(5), fault=lambda number: 500)))
    assert raised.value.cause is InfraCause.SERVER_5XX


def test_a_server_that_stays_away_ends_the_run() -> None:
    gone = LlmStub(say=choice(5), fault=lambda number: 500, listing=lambda number: 500)
    with pytest.raises(ServersLost):
        sampled(Setting(stub=gone, give_up_after=1))


def played(setting: Setting, env: FakeEnv, *, horizon: int = 5) -> AttemptResult:
    async def play() -> AttemptResult:
        return await run_episode(
            make_episode(0, horizon=horizon),
            attempt=1,
            seed=7,
            policy=setting.policy(),
            env=env,
            rules=make_rules(),
            action_rule=PLAIN,
            budgets=BUDGETS,
        )

    return run_virtual(play())


def test_promise_05_an_episode_is_what_was_sent_and_sampled() -> None:
    (end,) = TOKENS.stop_ids
    go = TOKENS.action("go")
    stub = LlmStub(say=choice(*go, logprobs=[-1.0, -2.0]))
    result = played(Setting(stub=stub), FakeEnv(answer=solve_in(2)))
    assert (result.outcome, [turn.text for turn in result.turns]) == (Outcome.SUCCESS, ["go", "go"])
    first, second = (request["prompt"] for request in stub.asked)
    trajectory = result.trajectory
    assert trajectory is not None and isinstance(first, list) and isinstance(second, list)
    assert list(trajectory.token_ids) == [*second, *go] and second[: len(first) + 2] == [*first, *go]
    assert [value for value, acted in zip(trajectory.logprobs, trajectory.action_mask, strict=True) if acted] == [-1.0, -2.0] * 2
    assert (trajectory.policy_version, trajectory.token_ids[-1]) == (3, end)


def test_a_context_without_room_ends_the_episode_before_the_server_is_asked() -> None:
    stub = LlmStub(say=choice(*TOKENS.action("go")))
    result = played(Setting(stub=stub), FakeEnv(first=lambda index: "x" * 200))
    assert (result.stop, result.outcome, len(stub.asked)) == (StopReason.CONTEXT, Outcome.FAILURE, 0)


def test_no_episode_waits_for_another() -> None:
    stub = LlmStub(say=choice(5, 900), seconds=1.0)

    async def together() -> float:
        policy, clock = Setting(stub=stub).policy(), EpisodeClock()
        began = asyncio.get_running_loop().time()
        samplers = [ServedSampler(policy, seed=seed, clock=clock, end=clock.time() + 500) for seed in range(8)]
        await asyncio.gather(*(each.sample((1,), most=8, stop_ids=STOP) for each in samplers))
        return asyncio.get_running_loop().time() - began

    assert run_virtual(together()) == pytest.approx(1.0, abs=0.1)
    assert stub.most_open == 8
