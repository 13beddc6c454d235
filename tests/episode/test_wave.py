"""The wave policy over a decoder without weights: exact tokens, fixed slots, no deadlock whatever the world does."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from agentgym_cli.env.contract import EnvFailure, InfraCause, StepReply
from agentgym_cli.episode.policies.barrier import Barrier
from agentgym_cli.episode.policies.protocol import SlotReply, SlotRequest
from agentgym_cli.episode.policies.wave import WavePolicy
from agentgym_cli.episode.runner import EpisodeResult, run_schedule
from agentgym_cli.episode.tokens import TurnTokens
from agentgym_cli.episode.types import AttemptResult, Outcome, ScheduledEpisode, StopReason, Trajectory
from agentgym_cli.errors import PolicyError
from agentgym_cli.recipe.schema.world import BudgetsSpec, RetrySpec
from tests.episode.fakes import BUDGETS, PLAIN, FakeEnv, Fault, make_episode, make_rules
from tests.episode.virtual_time import run_virtual

VOCABULARY = ["<pad>", "<unk>", "<obs>", "<act>", "<end>", "task", "after", *(f"w{i}" for i in range(13)), *map(str, range(40))]
END = 4


def turn_tokens() -> TurnTokens:
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(VOCABULARY)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens(VOCABULARY[:5])
    return TurnTokens(tokenizer, "words")


class FakeDecoder:
    """A Decoder whose draw at position p depends on (seed, p, the tokens before it) alone, like a model's; checks what it is asked."""

    def __init__(self, *, slots: int = 4, context: int = 64, stop_share: int = 4) -> None:
        self.slots = slots
        self.context = context
        self.policy_version = 3
        self.batches: list[list[int]] = []
        self.fed: dict[int, list[int]] = {}
        self.requests: list[SlotRequest] = []
        self._stop_share = stop_share
        self._one = threading.Lock()

    def decode(self, requests: Sequence[SlotRequest]) -> list[SlotReply]:
        assert self._one.acquire(blocking=False), "two decodes at once"
        try:
            slots = [request.slot for request in requests]
            assert slots == sorted(set(slots)) and all(0 <= slot < self.slots for slot in slots)
            self.batches.append(slots)
            self.requests += requests
            return [self._row(request) for request in requests]
        finally:
            self._one.release()

    def _row(self, request: SlotRequest) -> SlotReply:
        tokens = [] if request.fresh else self.fed[request.slot]
        tokens += request.new_tokens
        assert request.max_new >= 1 and len(tokens) + request.max_new <= self.context
        sampled: list[int] = []
        while len(sampled) < request.max_new and sampled[-1:] != [END]:
            draw = hashlib.sha256(f"{request.seed} {tokens + sampled}".encode()).digest()
            sampled.append(END if draw[0] % self._stop_share == 0 else 7 + draw[1] % 13)
        self.fed[request.slot] = tokens + sampled
        return SlotReply(token_ids=tuple(sampled), logprobs=tuple(-0.5 - i for i in range(len(sampled))), stopped=sampled[-1] == END)


def wave_policy(decoder: FakeDecoder, *, budgets: BudgetsSpec = BUDGETS, temperature: float = 1.0, system_prompt: str = "") -> WavePolicy:
    return WavePolicy(decoder, tokens=turn_tokens(), system_prompt=system_prompt, budgets=budgets, temperature=temperature)


def schedule(count: int, *, horizon: int = 4) -> list[ScheduledEpisode]:
    return [make_episode(index, horizon=horizon) for index in range(count)]


def world(**disturbed: Callable[[str, int], float] | Callable[[str, int], Fault]) -> FakeEnv:
    """Done after task modulo 4 turns (never for 0), with a reward that depends on what was said."""

    def answer(task: int, action: str, turn: int) -> StepReply:
        return StepReply(observation=f"after {len(action.split())}", reward=float(len(action) % 2), done=turn == task % 4)

    return FakeEnv(answer=answer, **disturbed)  # type: ignore[arg-type]


async def run(
    scheduled: Sequence[ScheduledEpisode],
    env: FakeEnv,
    policy: WavePolicy,
    *,
    budgets: BudgetsSpec = BUDGETS,
    concurrency: int = 100,
    attempts: int = 1,
    recorded: Mapping[str, Sequence[AttemptResult]] | None = None,
) -> list[EpisodeResult]:
    return await run_schedule(
        scheduled,
        policy=policy,
        env=env,
        rules=make_rules(),
        action_rule=PLAIN,
        budgets=budgets,
        retry=RetrySpec(attempts=attempts),
        concurrency=concurrency,
        run_seed=9,
        recorded=recorded,
    )


def what_happened(results: Sequence[EpisodeResult]) -> list[tuple[object, ...]]:
    return [
        (
            result.episode.id,
            attempt.attempt,
            attempt.seed,
            attempt.stop,
            attempt.outcome,
            attempt.reward,
            attempt.trajectory,
            tuple(replace(turn, policy_seconds=0.0, env_seconds=0.0) for turn in attempt.turns),
        )
        for result in results
        for attempt in result.attempts
    ]


def trajectory_of(result: EpisodeResult) -> Trajectory:
    assert result.final.trajectory is not None
    return result.final.trajectory


def test_waves_cut_the_schedule_in_order_by_the_number_of_slots() -> None:
    scheduled = schedule(10)
    assert wave_policy(FakeDecoder(slots=4)).waves(scheduled) == [scheduled[:4], scheduled[4:8], scheduled[8:]]


def test_promise_05_the_trajectory_is_what_the_decoder_was_fed_and_sampled() -> None:
    decoder = FakeDecoder()
    results = run_virtual(run(schedule(4), world(), wave_policy(decoder)))
    for slot, result in enumerate(results):
        trajectory = trajectory_of(result)
        assert list(trajectory.token_ids) == decoder.fed[slot]
        assert sum(trajectory.action_mask) == result.final.action_tokens == sum(turn.response_tokens for turn in result.final.turns)
        assert trajectory.policy_version == 3
        assert all((logprob == 0.0) is not sampled for logprob, sampled in zip(trajectory.logprobs, trajectory.action_mask, strict=True))


def test_promise_05_a_cut_response_is_closed_as_context() -> None:
    decoder = FakeDecoder(stop_share=10_000)
    [result] = run_virtual(run(schedule(1, horizon=2), world(), wave_policy(decoder)))
    trajectory = trajectory_of(result)
    prompt, sampled = 4, BUDGETS.response_tokens
    assert trajectory.token_ids[prompt + sampled] == END
    assert trajectory.action_mask == (False,) * prompt + (True,) * sampled + (False,) * 5 + (True,) * sampled
    assert [turn.context_tokens for turn in result.final.turns] == [4, 4 + sampled + 5]


def test_a_request_says_what_the_decoder_needs_and_no_more() -> None:
    decoder = FakeDecoder(stop_share=1)
    [result] = run_virtual(run(schedule(1, horizon=2), world(), wave_policy(decoder, temperature=0.0, system_prompt="task")))
    first, second = decoder.requests
    assert first == SlotRequest(slot=0, new_tokens=(5, 2, 5, 20, 3), fresh=True, seed=result.final.seed, max_new=8, temperature=0.0)
    assert second == SlotRequest(slot=0, new_tokens=(2, 6, 20, 3), fresh=False, seed=result.final.seed, max_new=8, temperature=0.0)


def test_an_empty_response_is_an_invalid_turn_with_its_stop_in_the_mask() -> None:
    [result] = run_virtual(run(schedule(1, horizon=1), world(), wave_policy(FakeDecoder(stop_share=1))))
    assert [(turn.text, turn.action, turn.valid, turn.response_tokens) for turn in result.final.turns] == [("", "", False, 1)]
    assert trajectory_of(result).token_ids == (2, 5, 20, 3, END)
    assert trajectory_of(result).action_mask == (False, False, False, False, True)


def test_the_context_budget_is_checked_before_a_turn_is_fed() -> None:
    budgets = replace(BUDGETS, context_tokens=20)
    decoder = FakeDecoder(stop_share=10_000)
    [result] = run_virtual(run(schedule(1, horizon=9), world(), wave_policy(decoder, budgets=budgets), budgets=budgets))
    # 4 of prompt and 8 sampled; 5 of context leave room for 3 more; then no turn fits.
    assert [request.max_new for request in decoder.requests] == [8, 3]
    assert (result.final.stop, result.final.outcome, result.final.truncated) == (StopReason.CONTEXT, Outcome.FAILURE, True)
    assert len(trajectory_of(result).token_ids) == 20


def test_the_decoders_context_binds_as_the_budget_does() -> None:
    decoder = FakeDecoder(stop_share=10_000, context=20)
    [result] = run_virtual(run(schedule(1, horizon=9), world(), wave_policy(decoder)))
    assert [request.max_new for request in decoder.requests] == [8, 3]
    assert result.final.stop is StopReason.CONTEXT


@pytest.mark.parametrize("text", ["task " * 64, "\n" * 100_000, "x" * 100_000])
def test_promise_11_an_observation_that_cannot_fit_is_a_full_context(text: str) -> None:
    decoder = FakeDecoder()
    env = FakeEnv(first=lambda index: text)
    [result] = run_virtual(run(schedule(1), env, wave_policy(decoder)))
    assert (result.final.stop, result.final.trajectory, decoder.batches) == (StopReason.CONTEXT, None, [])


def test_rows_that_wait_are_decoded_together() -> None:
    decoder = FakeDecoder()
    latency = {0: 0.001, 1: 0.002, 2: 0.004, 3: 0.008}
    run_virtual(run(schedule(4), world(seconds=lambda call, session: latency[session]), wave_policy(decoder)))
    # Tasks 1, 2 and 3 are done after as many turns; task 0 goes on to its horizon of 4.
    assert decoder.batches == [[0, 1, 2, 3], [0, 2, 3], [0, 3], [0]]


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(
    seconds=st.lists(st.floats(0, 9), min_size=1, max_size=11),
    concurrency=st.integers(1, 6),
    decode_seconds=st.sampled_from([0.0, 0.3, 7.0]),
)
def test_promise_07_results_depend_neither_on_the_worlds_timing_nor_on_who_shares_a_decode(
    seconds: list[float], concurrency: int, decode_seconds: float
) -> None:
    budgets = replace(BUDGETS, policy_call_seconds=1e5, episode_seconds=1e6)

    env = world(seconds=lambda call, session: seconds[(session + len(call)) % len(seconds)])
    disturbed = run(schedule(10), env, wave_policy(FakeDecoder(), budgets=budgets), budgets=budgets, concurrency=concurrency)
    undisturbed = run(schedule(10), world(), wave_policy(FakeDecoder(), budgets=budgets), budgets=budgets)
    assert what_happened(run_virtual(disturbed, thread_seconds=decode_seconds)) == what_happened(run_virtual(undisturbed))


def test_promise_07_an_episode_keeps_its_slot_in_a_retry_and_in_a_resume() -> None:
    scheduled = schedule(7)
    decoder = FakeDecoder(slots=4)
    flaky = world(fault=lambda call, session: EnvFailure(InfraCause.RESET, "once") if call == "step" and session in (1, 6) else None)
    results = run_virtual(run(scheduled, flaky, wave_policy(decoder), attempts=2, concurrency=1))
    slots = {request.seed: request.slot for request in decoder.requests}
    for place, result in enumerate(results):
        assert [slots[attempt.seed] for attempt in result.attempts] == [place % 4] * len(result.attempts)
    assert [len(result.attempts) for result in results] == [1, 2, 1, 1, 1, 1, 2]

    resumed = FakeDecoder(slots=4)
    recorded = {result.episode.id: result.attempts for result in results if result.episode is not scheduled[6]}
    again = run_virtual(run(scheduled, world(), wave_policy(resumed), attempts=2, recorded=recorded))
    assert {request.slot for request in resumed.requests} == {2}
    assert trajectory_of(again[6]) == replace(trajectory_of(again[6]), policy_version=3)
    assert what_happened(again[:6]) == what_happened(results[:6])


@pytest.mark.parametrize("call", ["open", "reset", "step", "close"])
@pytest.mark.parametrize("fault", ["hang", EnvFailure(InfraCause.SERVER_5XX, "boom")])
def test_an_episode_whose_world_fails_or_hangs_holds_up_nobody(call: str, fault: Fault) -> None:
    async def main() -> tuple[list[EpisodeResult], float]:
        loop = asyncio.get_running_loop()
        began = loop.time()
        env = world(fault=lambda made, session: fault if made == call and session == 2 else None)
        results = await run(schedule(4), env, wave_policy(FakeDecoder()))
        assert env.left_open == set()
        return results, loop.time() - began

    results, seconds = run_virtual(main())
    undisturbed = run_virtual(run(schedule(4), world(), wave_policy(FakeDecoder())))
    if call != "close":
        assert results[2].final.outcome is Outcome.INFRA_ERROR
    healthy = [0, 1, 3]
    assert what_happened([results[i] for i in healthy]) == what_happened([undisturbed[i] for i in healthy])
    assert all(results[i].final.seconds < 21.0 for i in healthy)
    assert seconds < 31.0


def test_promise_10_a_cancelled_wave_closes_everything_and_its_decoder_can_go_on() -> None:
    async def main() -> None:
        decoder = FakeDecoder()
        policy = wave_policy(decoder)
        env = world(seconds=lambda call, session: 2.0)
        task = asyncio.ensure_future(run(schedule(8), env, policy))
        await asyncio.sleep(5.0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert env.left_open == set()
        fresh = await run(schedule(8), world(), policy)
        assert what_happened(fresh) == what_happened(await run(schedule(8), world(), wave_policy(FakeDecoder())))

    run_virtual(main())


def test_one_episode_cancelled_in_the_barrier_lets_the_others_go_on() -> None:
    async def main() -> None:
        barrier = Barrier(FakeDecoder(), patience=1e9)
        for slot in (0, 1, 2):
            barrier.join(slot)
        await asyncio.sleep(1)
        first = asyncio.ensure_future(barrier.reply(request(0)))
        second = asyncio.ensure_future(barrier.reply(request(1)))
        await asyncio.sleep(1)
        first.cancel()
        await asyncio.sleep(1)
        await barrier.leave(2, seconds=1.0)
        await asyncio.sleep(1)
        assert not second.done()
        await barrier.leave(0, seconds=1.0)
        assert (await second).token_ids

    run_virtual(main())


def request(slot: int) -> SlotRequest:
    return SlotRequest(slot=slot, new_tokens=(2, 3), fresh=True, seed=1, max_new=3, temperature=1.0)


def test_a_decode_waits_for_slots_that_have_just_opened() -> None:
    decoder = FakeDecoder()

    async def main() -> None:
        barrier = Barrier(decoder, patience=100.0)
        barrier.join(0)
        first = asyncio.ensure_future(barrier.reply(request(0)))
        await asyncio.sleep(0.015)
        barrier.join(1)
        await asyncio.sleep(0.015)
        await asyncio.gather(first, barrier.reply(request(1)))

    run_virtual(main())
    assert decoder.batches == [[0, 1]]


def test_patience_ends_for_a_slot_that_does_not_come() -> None:
    decoder = FakeDecoder()

    async def main() -> float:
        barrier = Barrier(decoder, patience=5.0)
        barrier.join(0)
        barrier.join(1)
        loop = asyncio.get_running_loop()
        began = loop.time()
        await barrier.reply(request(0))
        return loop.time() - began

    assert run_virtual(main()) == pytest.approx(5.0)
    assert decoder.batches == [[0]]


def test_a_row_cancelled_during_its_decode_costs_the_others_nothing() -> None:
    async def main() -> SlotReply:
        barrier = Barrier(FakeDecoder(), patience=100.0)
        barrier.join(0)
        barrier.join(1)
        await asyncio.sleep(1)
        rows = [asyncio.ensure_future(barrier.reply(request(slot))) for slot in (0, 1)]
        await asyncio.sleep(2)
        rows[0].cancel()
        return await rows[1]

    assert run_virtual(main(), thread_seconds=5.0).token_ids


def test_a_row_that_comes_during_a_decode_is_in_the_next_even_if_the_others_never_return() -> None:
    decoder = FakeDecoder()

    async def main() -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        barrier = Barrier(decoder, patience=3.0)
        barrier.join(0)
        barrier.join(1)
        first = asyncio.ensure_future(barrier.reply(request(0)))
        await asyncio.sleep(4.0)
        await barrier.reply(request(1))
        await first
        return loop.time() - began

    # Patience to 3, decode to 8, patience again to 11, decode to 16.
    assert run_virtual(main(), thread_seconds=5.0) == pytest.approx(16.0)
    assert decoder.batches == [[0], [1]]


class BrokenDecoder(FakeDecoder):
    """Fails with what it is given, or gives too few replies."""

    def __init__(self, error: Exception | None) -> None:
        super().__init__()
        self._error = error

    def decode(self, requests: Sequence[SlotRequest]) -> list[SlotReply]:
        if self._error is not None:
            raise self._error
        return super().decode(requests)[1:]


@pytest.mark.parametrize("error", [RuntimeError("out of memory"), PolicyError("context too short"), None])
def test_a_decoder_that_fails_stops_the_run_and_is_no_episodes_outcome(error: Exception | None) -> None:
    env = world()
    with pytest.raises(PolicyError, match=str(error) if error else "expected 4 replies, got 3"):
        run_virtual(run(schedule(4), env, wave_policy(BrokenDecoder(error))))
    assert env.left_open == set()


def test_a_decode_slower_than_the_policys_deadline_cuts_its_rows_and_frees_its_slots_only_afterwards() -> None:
    results = run_virtual(run(schedule(4), world(), wave_policy(FakeDecoder(slots=2))), thread_seconds=61.0)
    assert [(r.final.stop, r.final.outcome, r.final.trajectory) for r in results] == [(StopReason.POLICY_DEADLINE, Outcome.FAILURE, None)] * 4


async def test_a_slot_is_not_free_before_the_decode_it_is_part_of_has_ended() -> None:
    release = threading.Event()

    class SlowDecoder(FakeDecoder):
        """Works until it is released."""

        def decode(self, requests: Sequence[SlotRequest]) -> list[SlotReply]:
            release.wait(30)
            return super().decode(requests)

    barrier = Barrier(SlowDecoder(), patience=0.0)
    barrier.join(0)
    reply = asyncio.ensure_future(barrier.reply(request(0)))
    await asyncio.sleep(0.001)
    reply.cancel()
    leaving = asyncio.ensure_future(barrier.leave(0, seconds=30.0))
    await asyncio.sleep(0.01)
    assert not leaving.done()
    release.set()
    await leaving
    with pytest.raises(asyncio.CancelledError):
        await reply


async def test_a_decode_that_never_ends_is_an_error_of_the_run() -> None:
    release = threading.Event()

    class StuckDecoder(FakeDecoder):
        """Works until it is released."""

        def decode(self, requests: Sequence[SlotRequest]) -> list[SlotReply]:
            release.wait(30)
            return super().decode(requests)

    barrier = Barrier(StuckDecoder(), patience=0.0)
    barrier.join(0)
    reply = asyncio.ensure_future(barrier.reply(request(0)))
    await asyncio.sleep(0.001)
    try:
        with pytest.raises(PolicyError, match="got no end"):
            await barrier.leave(0, seconds=0.01)
    finally:
        release.set()
    await reply
