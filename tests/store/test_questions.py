"""The views for the questions people ask, with values worked out by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym_cli.store.db import Connection, rows_of
from agentgym_cli.store.loader import load_into
from agentgym_cli.store.records import Record
from tests.store.builders import make_attempt, make_outcome, make_run, make_scheduled, make_segment, settled, write_journal
from tests.store.conftest import empty


def train(step: int, number: int, outcome: str, horizon: int, **changes: object) -> list[Record]:
    scheduled = make_scheduled(number, phase="train", split="train", step=step, horizon=horizon)
    return settled(scheduled, outcome, **changes)


def retried() -> list[Record]:
    """An infra error of 3 turns and 5 seconds, then a success of 2 turns and 1 second."""
    scheduled = make_scheduled(0)
    first = make_attempt(scheduled, "infra_error", turns=3, seconds=5.0, ended="2025-01-01T00:00:01+00:00")
    second = make_attempt(scheduled, "success", attempt=2)
    return [scheduled, first, second, make_outcome(second, attempts=2, first="infra_error")]


RECORDS: list[Record] = [
    make_run(),
    make_segment(),
    *retried(),
    *settled(make_scheduled(1), "infra_error", action_induced=True),
    *settled(make_scheduled(2, category="depth 2"), "failure"),
    make_scheduled(3, category="depth 2"),
    *settled(make_scheduled(0, sample=1), "success"),
    *train(1, 0, "success", 6),
    *train(1, 1, "failure", 6, turns=6),
    *train(2, 0, "failure", 6, seconds=4.0),
    *train(3, 0, "success", 9),
    *train(4, 0, "infra_error", 6, seconds=2.5, turns=1),
]


@pytest.fixture(scope="module")
def loaded(migrated: Connection, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    load_into(migrated, write_journal(tmp_path_factory.mktemp("runs") / "r1", RECORDS))
    yield migrated
    empty(migrated)


def test_denominators_count_every_scheduled_episode_by_category(loaded: Connection) -> None:
    columns = "category, scheduled, success, failure, infra_error, missing, action_induced, truncated, first_success, first_infra_error, retried"
    assert rows_of(loaded, f"select {columns} from denominators where phase = 'eval' order by category") == [
        ("depth 1", 3, 2, 0, 1, 0, 1, 0, 1, 2, 1),
        ("depth 2", 2, 0, 1, 0, 1, 0, 1, 0, 0, 0),
    ]
    assert rows_of(loaded, "select step, scheduled from denominators where phase = 'train'") == [(None, 5)]


def test_per_task_adds_up_the_samples_of_a_task(loaded: Connection) -> None:
    columns = "task, scheduled, success, infra_error, missing, reward_sum, rewards, turns"
    assert rows_of(loaded, f"select {columns} from per_task where phase = 'eval' order by task") == [
        ("textcraft_0", 2, 2, 0, 0, 2.0, 2, 4),
        ("textcraft_1", 1, 0, 1, 0, None, 0, 2),
        ("textcraft_2", 1, 0, 0, 0, 0.0, 1, 2),
        ("textcraft_3", 1, 0, 0, 1, None, 0, None),
    ]


def test_the_learning_curve_says_what_each_step_gave_and_what_it_had_cost_by_then(loaded: Connection) -> None:
    columns = "step, horizon, scheduled, success, infra_error, reward_sum, turns, turns_so_far, action_tokens_so_far, seconds_so_far"
    assert rows_of(loaded, f"select {columns} from learning_curve order by step") == [
        (1, 6, 2, 1, 0, 1.0, 8, 8, 32, 2.0),
        (2, 6, 1, 0, 0, 0.0, 2, 10, 40, 6.0),
        (3, 9, 1, 1, 0, 1.0, 2, 12, 48, 7.0),
        (4, 6, 1, 0, 1, None, 1, 13, 52, 9.5),
    ]


def test_errors_by_cause_counts_episodes_tasks_and_servers(loaded: Connection) -> None:
    columns = "phase, stop, cause, episodes, action_induced, tasks, replicas, example"
    message = "POST /step: expected 200, got 503"
    assert rows_of(loaded, f"select {columns} from errors_by_cause order by phase") == [
        ("eval", "env_error", "server_5xx", 1, 1, 1, 1, message),
        ("train", "env_error", "server_5xx", 1, 0, 1, 1, message),
    ]


def test_horizon_stages_are_spans_of_steps_even_when_a_horizon_comes_back(loaded: Connection) -> None:
    columns = "stage, horizon, first_step, last_step, scheduled, success, failure, infra_error, truncated, turns"
    assert rows_of(loaded, f"select {columns} from horizon_stages order by stage") == [
        (1, 6, 1, 2, 3, 1, 2, 0, 2, 10),
        (2, 9, 3, 3, 1, 1, 0, 0, 0, 2),
        (3, 6, 4, 4, 1, 0, 0, 1, 0, 1),
    ]


def test_throughput_counts_retries_and_errors_as_spent(loaded: Connection) -> None:
    columns = "phase, attempts, infra_error, turns, action_tokens, seconds, first_ended, last_ended"
    assert rows_of(loaded, f"select {columns} from throughput order by phase") == [
        ("eval", 5, 2, 11, 44, 9.0, "2025-01-01T00:00:00+00:00", "2025-01-01T00:00:01+00:00"),
        ("train", 5, 1, 13, 52, 9.5, "2025-01-01T00:00:00+00:00", "2025-01-01T00:00:00+00:00"),
    ]


@pytest.mark.slow
def test_what_reports_count_is_what_the_records_say_with_one_segment_and_with_two(store: Connection, tmp_path: Path) -> None:
    later = [replace(record, segment=2) for record in train(2, 5, "success", 6)]
    load_into(store, write_journal(tmp_path / "r1", RECORDS))
    same = "(from episodes_final except all from episodes_now) union all (from episodes_now except all from episodes_final)"
    assert rows_of(store, same) == []
    assert rows_of(store, "select count(*) from episodes_final") == [(10,)]
    two = write_journal(tmp_path / "two", RECORDS, [make_segment(2, resumed=1), *later])
    empty(store)
    load_into(store, two)
    assert rows_of(store, same) == []
    assert rows_of(store, "select step, task from episodes_final where phase = 'train' order by step, task") == [
        (1, "textcraft_0"),
        (1, "textcraft_1"),
        (2, "textcraft_5"),
    ]
