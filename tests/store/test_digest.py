"""Equal results have equal digests, whatever the clock, the ports and the interruptions; anything else differs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentgym_cli.store.db import Connection
from agentgym_cli.store.digest import ResultsDigest, results_digest
from agentgym_cli.store.loader import load_into
from agentgym_cli.store.records import AttemptRecord, MetricRecord, OutcomeRecord, Record, ScheduledRecord, TokensRecord
from tests.store.builders import make_metric, make_run, make_scheduled, make_segment, settled, write_journal

TOKENS = TokensRecord(token_ids=(1, 2), action_mask=(False, True), logprobs=(0.0, -0.25))


def step(number: int, segment: int = 1) -> list[Record]:
    scheduled = make_scheduled(number, segment=segment, phase="train", split="train", step=number)
    return [*settled(scheduled, "success", tokens=TOKENS), make_metric("loss", 1 / number, number, segment=segment)]


RESULTS = [*step(1), *step(2), *step(3)]


def digest(store: Connection, folder: Path, *segments: Sequence[Record]) -> ResultsDigest:
    """The digest of a run whose name is its folder's."""
    named = [[replace(record, run=folder.name) for record in records] for records in segments]
    load_into(store, write_journal(folder, *named))
    return results_digest(store, folder.name)


@pytest.mark.slow
def test_promise_07_equal_results_under_another_name_and_time_are_equal(store: Connection, tmp_path: Path) -> None:
    def later(record: Record) -> Record:
        if isinstance(record, AttemptRecord):
            turns = tuple(replace(turn, policy_seconds=9.0, env_seconds=9.0) for turn in record.turns)
            return replace(
                record, seconds=9.0, policy_seconds=9.0, env_seconds=9.0, replica="http://127.0.0.1:9", ended="later", detail="port 9", turns=turns
            )
        return record

    first = digest(store, tmp_path / "a", [make_run(), make_segment(), *RESULTS, make_metric("time/step_seconds", 1.0)])
    other = digest(store, tmp_path / "b", [make_run(), make_segment(), *map(later, RESULTS), make_metric("time/step_seconds", 2.0)])
    assert first == other
    assert first.rows == 3 * (1 + 1 + 2 + 1 + 1 + 1)


@pytest.mark.slow
def test_promise_10_an_interrupted_run_that_repeats_its_steps_is_equal_to_an_uninterrupted_one(store: Connection, tmp_path: Path) -> None:
    whole = digest(store, tmp_path / "a", [make_run(), make_segment(), *RESULTS])
    cut = [make_run(), make_segment(), *step(1), *step(2), make_scheduled(3, phase="train", split="train", step=3)]
    resumed = digest(store, tmp_path / "b", cut, [make_segment(2, resumed=1), *step(2, segment=2), *step(3, segment=2)])
    assert resumed == whole


DIFFERENCES: list[tuple[type, dict[str, Any], str]] = [
    (ScheduledRecord, {"horizon": 7}, "scheduled"),
    (AttemptRecord, {"seed": 8}, "attempts"),
    (AttemptRecord, {"reward": 1.0000000000000002}, "attempts"),
    (AttemptRecord, {"final_observation": "else"}, "attempts"),
    (AttemptRecord, {"verified": True}, "attempts"),
    (AttemptRecord, {"tokens": replace(TOKENS, logprobs=(0.0, -0.25000000000000006))}, "tokens"),
    (AttemptRecord, {"tokens": replace(TOKENS, policy_versions=(0, 1), policy_version_tokens=(1, 1))}, "tokens"),
    (AttemptRecord, {"tokens": None}, "tokens"),
    (OutcomeRecord, {"attempts": 2}, "outcomes"),
    (MetricRecord, {"value": 0.9999999999999999}, "metrics"),
    (MetricRecord, {"value": None}, "metrics"),
]


@pytest.fixture(scope="module")
def base(migrated: Connection, tmp_path_factory: pytest.TempPathFactory) -> ResultsDigest:
    """The digest of one step as it was."""
    return digest(migrated, tmp_path_factory.mktemp("base"), [make_run(), make_segment(), *step(1)])


@pytest.mark.parametrize(("kind", "changes", "part"), DIFFERENCES)
def test_promise_07_the_smallest_difference_shows_and_says_where(
    store: Connection, base: ResultsDigest, tmp_path: Path, kind: type, changes: dict[str, Any], part: str
) -> None:
    changed = [replace(record, **changes) if isinstance(record, kind) else record for record in step(1)]
    other = digest(store, tmp_path / "b", [make_run(), make_segment(), *changed])
    names = ("scheduled", "attempts", "turns", "tokens", "outcomes", "metrics")
    assert [name for name in names if getattr(base, name) != getattr(other, name)] == [part]
    assert base.whole != other.whole


def test_what_the_policy_said_is_part_of_the_digest(store: Connection, base: ResultsDigest, tmp_path: Path) -> None:
    def said(record: Record) -> Record:
        return replace(record, turns=(replace(record.turns[0], text="else"), record.turns[1])) if isinstance(record, AttemptRecord) else record

    other = digest(store, tmp_path / "b", [make_run(), make_segment(), *map(said, step(1))])
    assert (base.turns != other.turns, base.attempts == other.attempts, base.whole != other.whole) == (True, True, True)
