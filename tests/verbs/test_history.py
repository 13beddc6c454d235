"""What a resume takes over from earlier segments."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentgym_cli.store.records import AttemptRecord, OutcomeRecord, Record, ScheduledRecord, SegmentRecord, TokensRecord
from agentgym_cli.verbs.history import Past, read_history
from tests.store.builders import make_attempt, make_scheduled, make_turn


def segment(number: int, resumed: int | None = None) -> SegmentRecord:
    return SegmentRecord(run="r", segment=number, resumed_from_step=resumed, started="2026-01-01T00:00:00+00:00")


def scheduled(number: int, phase: str, step: int) -> ScheduledRecord:
    return ScheduledRecord(
        run="r",
        segment=number,
        episode=f"{phase}/s/{step}/t_0/0",
        phase=phase,
        split="s",
        step=step,
        task="t_0",
        task_index=0,
        task_digest="",
        category="",
        goal="",
        sample=0,
        horizon=3,
    )


def outcome(number: int, phase: str, step: int, value: str = "success") -> OutcomeRecord:
    return OutcomeRecord(
        run="r",
        segment=number,
        episode=f"{phase}/s/{step}/t_0/0",
        attempt=1,
        attempts=1,
        outcome=value,
        first_outcome=value,
        reward=1.0,
        by_verifier=False,
    )


def first_segment() -> list[Record]:
    records: list[Record] = [segment(1)]
    for phase, step in (("warm_start", 0), ("eval_before", 0), ("train", 1), ("train", 2), ("train", 3), ("eval_after", 3)):
        records += [scheduled(1, phase, step), outcome(1, phase, step)]
    return records


@pytest.mark.parametrize(
    ("resumed", "kept"),
    [
        (-1, set()),
        (0, {"warm_start/s/0/t_0/0", "eval_before/s/0/t_0/0"}),
        (2, {"warm_start/s/0/t_0/0", "eval_before/s/0/t_0/0", "train/s/1/t_0/0", "train/s/2/t_0/0"}),
    ],
)
def test_promise_10_a_resume_takes_over_only_what_its_checkpoint_had_seen(resumed, kept):
    assert set(read_history(first_segment(), resumed).outcomes) == kept


def test_a_resume_from_the_last_step_keeps_the_evaluation_behind_it():
    assert "eval_after/s/3/t_0/0" in read_history(first_segment(), 3).outcomes


def test_what_a_second_segment_superseded_stays_superseded_for_the_third():
    records = [*first_segment(), segment(2, resumed=1), scheduled(2, "train", 2), outcome(2, "train", 2, "failure")]
    history = read_history(records, 3)
    assert history.outcomes["train/s/2/t_0/0"] == "failure"
    assert "train/s/3/t_0/0" not in history.outcomes
    assert history.segments == 2


def test_an_outcome_written_by_a_resumed_evaluation_belongs_to_the_schedule_of_the_first_segment():
    records = [segment(1), scheduled(1, "eval", 0), segment(2, resumed=0), outcome(2, "eval", 0)]
    assert read_history(records, 0).outcomes == {"eval/s/0/t_0/0": "success"}


def attempt(phase: str, outcome: str) -> AttemptRecord:
    told = make_scheduled(phase=phase)
    turns = (make_turn(1), make_turn(2, valid=False), make_turn(3, action="pull the lever"))
    tokens = TokensRecord(token_ids=(1, 2), action_mask=(False, True), logprobs=(0.0, -0.5))
    made = make_attempt(told, outcome, turns=3, invalid_actions=1, final_observation="a long story", tokens=tokens)
    return replace(made, turns=turns)


def taken_over(phase: str, outcome: str) -> AttemptRecord:
    told = make_scheduled(phase=phase)
    return read_history([segment(1), told, attempt(phase, outcome)], 0).attempts[told.episode][0]


def test_a_resume_keeps_no_texts_of_what_is_over_and_still_counts_its_turns():
    kept = taken_over("eval", "success")
    assert [turn.valid for turn in kept.turns] == [True, False, True]
    assert {turn.observation + turn.text for turn in kept.turns} == {""}
    assert (kept.final_observation, kept.tokens, kept.turns_count, kept.reward) == ("", None, 3, 1.0)


def test_a_resume_knows_the_action_before_a_failure_of_the_world():
    kept = taken_over("eval", "infra_error")
    assert (len(kept.turns), kept.turns[-1].action) == (3, "pull the lever")


def test_a_resume_keeps_demonstrations_word_for_word():
    kept = taken_over("warm_start", "success")
    assert kept == replace(attempt("warm_start", "success"), tokens=None)


def test_what_was_spent_is_added_up_over_all_attempts_superseded_ones_too():
    records = [*first_segment(), attempt("eval", "success"), attempt("train", "failure")]
    spent = Past(records).spent
    # two attempts of three turns, 20 tokens of context and 4 sampled tokens each
    assert (spent.turns, spent.read, spent.sampled) == (6, 120, 24)
