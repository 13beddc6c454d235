"""The fault drill: whatever a proxy does to 2,000 episodes of known truth, the store says exactly that."""

from __future__ import annotations

import sys

import pytest

from tests.drill.faults import Drilled, fault_drill
from tests.drill.proxy import DOWN, FAULTS

pytestmark = [pytest.mark.drill, pytest.mark.timeout(280)]
EPISODES = 2_000


@pytest.fixture(scope="module")
def drilled(tmp_path_factory: pytest.TempPathFactory) -> Drilled:
    """One drill, shared: it takes a minute."""
    return fault_drill(tmp_path_factory.mktemp("drill"), episodes=EPISODES)


def test_promise_01_scheduled_is_success_and_failure_and_infra_error_and_missing(drilled: Drilled, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        sys.stdout.write(f"\n{drilled.table()}\n")
    assert drilled.scheduled == EPISODES == sum(drilled.outcomes.values())
    assert drilled.outcomes["success"] > 0 and drilled.outcomes["failure"] > 0 and drilled.outcomes["infra_error"] > 0
    assert drilled.outcomes.get("missing", 0) == 0


def test_every_injected_fault_is_recorded_with_its_cause_count_by_count(drilled: Drilled) -> None:
    injected = drilled.injected()
    assert all(injected[fault] > 0 for fault in (*FAULTS, DOWN))
    assert dict(drilled.causes) == {cause: count for cause, count in drilled.expected_causes().items() if count}


def test_promise_03_every_attempt_is_kept(drilled: Drilled) -> None:
    assert drilled.attempts == sum(drilled.causes.values()) + drilled.outcomes["success"] + drilled.outcomes["failure"]


def test_promise_02_no_fault_becomes_a_success_or_a_failure(drilled: Drilled) -> None:
    assert drilled.wrong == ()
    assert drilled.unaffected > EPISODES / 10
    assert drilled.unaffected_successes == drilled.unaffected_truth


def test_no_session_is_left_open_on_a_server(drilled: Drilled) -> None:
    assert drilled.left_open == (0, 0)


def test_the_server_that_was_killed_was_given_up_and_taken_back(drilled: Drilled) -> None:
    events = [event for url, event in drilled.changes if url == drilled.killed_url]
    assert events[:2] == ["opened", "closed"]


def test_a_run_with_so_many_infra_errors_is_degraded(drilled: Drilled) -> None:
    share = f"{drilled.outcomes['infra_error']} of {EPISODES}"
    assert drilled.degraded is not None
    assert drilled.degraded.startswith("infra share: expected at most 5% of scheduled episodes, got eval ")
    assert share in drilled.degraded
