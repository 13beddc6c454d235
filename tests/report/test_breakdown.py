"""Every dimension of a report has the whole account: the sum by reason, both denominators, first attempts, and latency where turns were kept."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym_cli.report.html_report import report_page
from agentgym_cli.report.jsonout import to_json
from agentgym_cli.report.markdown import render
from agentgym_cli.report.model import Report
from agentgym_cli.store.db import Connection
from agentgym_cli.store.records import Record, ScheduledRecord
from tests.report.runs import FROZEN, printed, report_of
from tests.store.builders import make_attempt, make_outcome, make_run, make_scheduled, make_segment, make_turn, settled

DEPTH_2 = "1 success + 1 failure (horizon 1) + 1 infra error (server_5xx 1) + 1 missing (no attempt 1) = 4 scheduled"
LATE = "1 success + 1 failure (horizon 1) + 1 infra error (server_5xx 1) + 0 missing = 3 scheduled"


def retried(scheduled: ScheduledRecord) -> list[Record]:
    """An infra error, then a success."""
    first, second = make_attempt(scheduled, "infra_error"), make_attempt(scheduled, "success", attempt=2)
    return [scheduled, first, second, make_outcome(second, attempts=2, first="infra_error")]


def train(number: int, step: int, horizon: int) -> ScheduledRecord:
    return make_scheduled(number, phase="train", split="train", step=step, horizon=horizon)


RECORDS: list[Record] = [
    make_run(frozen=FROZEN),
    make_segment(),
    *settled(make_scheduled(0), "success"),
    *settled(make_scheduled(1), "failure"),
    *retried(make_scheduled(2, category="depth 2")),
    *settled(make_scheduled(3, category="depth 2"), "failure"),
    *settled(make_scheduled(4, category="depth 2"), "infra_error", action_induced=True),
    make_scheduled(5, category="depth 2"),
    *settled(train(0, 1, 6), "success"),
    *settled(train(1, 2, 6), "failure"),
    *retried(train(0, 3, 9)),
    *settled(train(1, 3, 9), "failure"),
    *settled(train(2, 4, 9), "infra_error", action_induced=True),
]


@pytest.fixture
def report(store: Connection, tmp_path: Path) -> Report:
    return report_of(store, tmp_path / "r1", RECORDS)


def test_every_category_sums_to_its_schedule_by_reason(report: Report) -> None:
    (part,) = [part for part in report.parts if part.phase == "eval"]
    shallow, deep = part.categories
    assert shallow.ledger.sentence == "1 success + 1 failure (horizon 1) + 0 infra error + 0 missing = 2 scheduled"
    assert deep.ledger.sentence == DEPTH_2
    assert (deep.ledger.action_induced, shallow.ledger.action_induced) == (1, 0)
    # 120 tasks of which 100 were to be scheduled: whose categories the other 20 have, nobody can say.
    assert (part.ledger.left_out, deep.ledger.left_out) == (20, None)
    assert part.ledger.action_induced == 1


def test_every_category_and_stage_says_what_its_first_attempts_gave(report: Report) -> None:
    (part,) = [part for part in report.parts if part.phase == "eval"]
    for account in (part.categories[1], report.stages[1]):
        first = account.first_attempts
        assert first.accounting is not None
        assert (first.retried, first.accounting.success, first.accounting.failure, first.accounting.infra_error) == (1, 0, 1, 2)
        assert (account.accounting.success, account.accounting.infra_error) == (1, 1)
        assert first.accounting.conditional.value == 0.0
    assert part.categories[0].first_attempts.retried == report.stages[0].first_attempts.retried == 0


def test_every_stage_of_the_horizon_sums_to_its_schedule_by_reason(report: Report) -> None:
    early, late = report.stages
    assert early.ledger.sentence == "1 success + 1 failure (horizon 1) + 0 infra error + 0 missing = 2 scheduled"
    assert late.ledger.sentence == LATE
    assert late.ledger.action_induced == 1


def test_categories_of_a_split_of_which_nothing_was_left_out_left_nothing_out(store: Connection, tmp_path: Path) -> None:
    frozen = FROZEN.replace('"count":"120"', '"count":"6"')
    (_, part) = report_of(store, tmp_path / "r1", [make_run(frozen=frozen), *RECORDS[1:]]).parts
    assert [category.ledger.left_out for category in part.categories] == [0, 0]


def test_what_a_choice_left_out_is_known_by_category_where_the_run_kept_its_lists(store: Connection, tmp_path: Path) -> None:
    document = json.loads(FROZEN)
    # 26 tasks of which 6 were to be scheduled, 2 of depth 1 and 4 of depth 2; of depth 3 none.
    document["parts"]["tasks.evaluation.test"]["count"] = "26"
    document["config"]["evaluation"]["limit"] = 6
    document["categories"] = {"test": {"depth 1": 10, "depth 2": 6, "depth 3": 10}}
    found = report_of(store, tmp_path / "r1", [make_run(frozen=json.dumps(document)), *RECORDS[1:]])
    (part,) = [part for part in found.parts if part.phase == "eval"]
    assert (part.left_out, [each.ledger.left_out for each in part.categories]) == (20, [8, 2])
    said = "20 more not scheduled by choice (depth 1 8, depth 2 2, depth 3 10)"
    for form in (printed(found), render(found), report_page(found)):
        assert said in " ".join(form.replace("\\", "").split())
    assert [(each["category"], each["tasks"]) for each in json.loads(to_json(found))["parts"][-1]["left_out_categories"]] == [
        ("depth 1", 8),
        ("depth 2", 2),
        ("depth 3", 10),
    ]


def test_counts_that_do_not_add_up_to_what_was_left_out_are_not_given_to_categories(store: Connection, tmp_path: Path) -> None:
    document = json.loads(FROZEN)
    document["categories"] = {"test": {"depth 1": 3, "depth 2": 117}}
    (part,) = [p for p in report_of(store, tmp_path / "r1", [make_run(frozen=json.dumps(document)), *RECORDS[1:]]).parts if p.phase == "eval"]
    # 20 of 120 were left out, and 94 of the 100 others were not written down yet.
    assert (part.left_out, part.left_out_categories, [each.ledger.left_out for each in part.categories]) == (20, (), [None, None])


def test_the_sums_stand_in_every_form(report: Report) -> None:
    said = json.loads(to_json(report))
    (part,) = [part for part in said["parts"] if part["phase"] == "eval"]
    assert part["categories"][1]["ledger"]["infra_error"] == [{"episodes": 1, "why": "server_5xx"}]
    assert said["stages"][1]["ledger"]["sentence"] == LATE
    induced = "1 of the infra errors came back on the same action"
    for form in (printed(report), render(report), report_page(report)):
        text = " ".join(form.replace("\\", "").split())
        for words in (DEPTH_2, LATE, induced, "first attempts only: 0.0% end to end"):
            assert words in text


def test_latency_is_of_every_split_and_of_the_whole_environment(store: Connection, tmp_path: Path) -> None:
    """Five turns of 1 to 5 s of the world in one split, one of 11 s in another, and two of 1 s in training, step 2."""
    records: list[Record] = [make_run(), make_segment()]
    phases = (("eval", "easy", 0, (1, 2, 3, 4, 5)), ("eval", "hard", 0, (11,)), ("train", "train", 2, (1, 1)))
    for phase, split, step, seconds in phases:
        scheduled = make_scheduled(0, phase=phase, split=split, step=step)
        turns = tuple(make_turn(number, env_seconds=float(each), policy_seconds=0.5) for number, each in enumerate(seconds, start=1))
        attempt = replace(make_attempt(scheduled, turns=len(turns)), turns=turns)
        records += [scheduled, attempt, make_outcome(attempt)]
    report = report_of(store, tmp_path / "r1", records)
    found = {(item.phase, item.split, item.step): (item.turns, item.env_p50, item.env_p95) for item in report.latencies}
    # With linear interpolation the 95th percentile of 1, 2, 3, 4, 5 lies at 0.95 * 4 = 3.8 places from the first.
    assert found[("eval", "easy", 0)] == pytest.approx((5, 3.0, 4.8))
    assert found[("eval", "hard", 0)] == (1, 11.0, 11.0)
    assert found[("eval", None, None)] == pytest.approx((6, 3.5, 9.5))
    assert found[("train", "train", None)] == (2, 1.0, 1.0)
    # 1, 1, 1, 2, 3, 4, 5, 11: between 2 and 3, and 0.65 of the way from 5 to 11.
    assert found[(None, None, None)] == pytest.approx((8, 2.5, 8.9))
    hard = next(part for part in report.parts if part.split == "hard")
    assert hard.latency is not None
    assert hard.latency.env_p95 == 11.0
    text = " ".join(printed(report).split())
    assert "world p50 3 s, p95 4.8 s; of 5 turns that were kept" in text
    assert "textcraft 8 0.5 0.5 2.5 8.9" in text
    assert "hard, step 0 1 0.5 0.5 11 11" in text
