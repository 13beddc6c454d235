"""Attempts become records and come back as they were."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from agentgym_cli.env.contract import InfraCause
from agentgym_cli.env.replicas import ServerChange
from agentgym_cli.episode.types import Outcome, Trajectory
from agentgym_cli.store.journal import read_journal
from agentgym_cli.store.records import AttemptRecord, OutcomeRecord, ScheduledRecord, ServerRecord
from agentgym_cli.verbs.progress import Silent
from agentgym_cli.verbs.recorder import Recorder
from agentgym_cli.verbs.recording import KeepTokens, restore
from tests.verbs.builders import make_attempt, make_episode, make_result, make_turn


def make_recorder(folder: Path, *, keep_tokens: KeepTokens = "none") -> Recorder:
    return Recorder(folder=folder, run="r", segment=1, database=folder / "store.duckdb", keep_tokens=keep_tokens, progress=Silent())


TRAJECTORY = Trajectory(token_ids=(1, 2, 3), action_mask=(False, True, True), logprobs=(0.0, -0.5, -0.25), policy_version=4)


def test_an_attempt_read_back_from_its_record_is_the_attempt_without_its_tokens(tmp_path):
    episode = make_episode()
    attempt = make_attempt(episode, outcome=Outcome.INFRA_ERROR, cause=InfraCause.RESET, turns=(make_turn(), make_turn(valid=False, reward=None)))
    recorder = make_recorder(tmp_path)
    recorder.attempt(replace(attempt, trajectory=TRAJECTORY))
    recorder.close()
    (record,) = read_journal(tmp_path)
    assert isinstance(record, AttemptRecord)
    assert (record.policy_version, record.invalid_actions, record.tokens) == (4, 1, None)
    assert restore(record, episode) == attempt


def test_a_response_that_was_cut_is_told_from_one_that_stopped(tmp_path):
    episode = make_episode()
    attempt = make_attempt(episode, turns=(make_turn(), replace(make_turn(), cut=True)))
    recorder = make_recorder(tmp_path)
    recorder.attempt(attempt)
    recorder.close()
    (record,) = read_journal(tmp_path)
    assert isinstance(record, AttemptRecord)
    assert [turn.cut for turn in record.turns] == [False, True]
    assert restore(record, episode) == attempt


def test_a_server_that_was_given_up_and_is_back_leaves_a_record_of_each(tmp_path):
    recorder = make_recorder(tmp_path)
    recorder.server_changed(ServerChange(url="http://a", event="opened", cause=InfraCause.CONNECT, detail="refused"))
    recorder.server_changed(ServerChange(url="http://a", event="closed", cause=None, detail=""))
    recorder.close()
    records = list(read_journal(tmp_path))
    assert all(isinstance(record, ServerRecord) for record in records)
    assert [(r.number, r.url, r.event, r.cause, r.detail) for r in records] == [
        (1, "http://a", "opened", "connect", "refused"),
        (2, "http://a", "closed", None, ""),
    ]


def test_tokens_are_kept_when_the_recipe_says_so(tmp_path):
    recorder = make_recorder(tmp_path, keep_tokens="all")
    recorder.attempt(make_attempt(make_episode(), trajectory=TRAJECTORY))
    recorder.close()
    (record,) = read_journal(tmp_path)
    assert isinstance(record, AttemptRecord)
    assert record.tokens is not None
    assert record.tokens.action_mask == (False, True, True)


def test_an_outcome_keeps_what_the_first_attempt_alone_would_have_counted_as(tmp_path):
    episode = make_episode()
    failed = make_attempt(episode, outcome=Outcome.INFRA_ERROR, cause=InfraCause.TIMEOUT)
    recorder = make_recorder(tmp_path)
    recorder.schedule([episode])
    recorder.outcome(make_result(episode, failed, make_attempt(episode, attempt=2)))
    recorder.close()
    scheduled, outcome = read_journal(tmp_path)
    assert isinstance(scheduled, ScheduledRecord)
    assert isinstance(outcome, OutcomeRecord)
    assert (outcome.outcome, outcome.first_outcome, outcome.attempt, outcome.attempts) == ("success", "infra_error", 2, 2)


def test_an_outcome_decided_by_a_verifier_says_so(tmp_path):
    episode = make_episode()
    recorder = make_recorder(tmp_path)
    recorder.attempt(replace(make_attempt(episode), verified=True))
    recorder.outcome(make_result(episode, replace(make_attempt(episode), verified=True)))
    recorder.close()
    attempt, outcome = read_journal(tmp_path)
    assert isinstance(attempt, AttemptRecord)
    assert isinstance(outcome, OutcomeRecord)
    assert (attempt.verified, restore(attempt, episode).verified, outcome.by_verifier) == (True, True, True)


def test_tokens_of_failures_alone_are_kept_when_the_recipe_says_so(tmp_path):
    recorder = make_recorder(tmp_path, keep_tokens="failures")
    recorder.attempt(make_attempt(make_episode(), trajectory=TRAJECTORY))
    recorder.attempt(make_attempt(make_episode(), attempt=2, outcome=Outcome.FAILURE, trajectory=TRAJECTORY))
    recorder.close()
    assert [record.tokens is None for record in read_journal(tmp_path)] == [True, False]
