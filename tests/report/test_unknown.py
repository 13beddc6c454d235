"""What nobody knows is n/a with the reason: of imported files, of runs without an outcome, of schedules that were cut short."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym_cli.report.accounting import account, unwritten
from agentgym_cli.report.choice import Choice, choice_of
from agentgym_cli.report.figures import FirstAttempts
from agentgym_cli.report.frozen import read_facts
from agentgym_cli.report.html_report import report_page
from agentgym_cli.report.markdown import render
from agentgym_cli.report.model import Report
from agentgym_cli.store.db import Connection
from agentgym_cli.store.records import (
    ImportedAttemptRecord,
    ImportedRunRecord,
    ImportedScheduledRecord,
    ImportedTurnRecord,
    OutcomeRecord,
    Record,
)
from tests.report.runs import FROZEN, evaluation, printed, report_of
from tests.store.builders import NOW, make_run, make_scheduled, make_segment, settled

SAMPLED = FROZEN.replace('"limit":100', '"limit":48,"samples_per_task":2')
"""48 of 120 tasks, two episodes of each."""


def imported(store: Connection, folder: Path, rewards: list[float | None]) -> Report:
    """Rows of another program's files, one turn each; None is a row without a reward."""
    records: list[Record] = [
        ImportedRunRecord(run="r1", name="theirs", verb="eval", env="textcraft", created=NOW, imported="agentgym-rl", source_digest="e" * 64),
        make_segment(ended=NOW, status="finished"),
    ]
    for number, reward in enumerate(rewards):
        episode = f"eval/imported/0/textcraft_{number}/0"
        records.append(
            ImportedScheduledRecord(
                run="r1",
                segment=1,
                episode=episode,
                phase="eval",
                split="imported",
                step=0,
                task=f"textcraft_{number}",
                task_index=number,
                task_digest="",
                category="",
                goal="",
                sample=0,
            )
        )
        outcome = None if reward is None else "success" if reward else "failure"
        turn = ImportedTurnRecord(turn=1, observation="Goal", text="Action: get 1 log")
        records.append(
            ImportedAttemptRecord(
                run="r1",
                segment=1,
                episode=episode,
                attempt=1,
                outcome=outcome,
                detail="",
                reward=reward,
                turns_count=1,
                final_observation="",
                turns=(turn,),
            )
        )
        if outcome:
            records.append(
                OutcomeRecord(
                    run="r1",
                    segment=1,
                    episode=episode,
                    attempt=1,
                    attempts=1,
                    outcome=outcome,
                    first_outcome=outcome,
                    reward=reward,
                    by_verifier=False,
                )
            )
    return report_of(store, folder / "r1", records)


def test_promise_04_what_imported_files_do_not_say_is_not_zero(store: Connection, tmp_path: Path) -> None:
    report = imported(store, tmp_path, [1.0, 0.0, 0.0])
    (part,) = report.parts
    assert part.accounting.end_to_end.value == pytest.approx(1 / 3)
    infra = part.accounting.infra_share
    assert (infra.value, infra.low, infra.why) == (None, None, "its files do not tell infra errors from failures")
    assert (part.accounting.worst_case.value, part.accounting.best_case.value) == (pytest.approx(1 / 3), None)
    assert "worst to best case 33.3% to n/a n/a infra, 0 missing" in " ".join(printed(report).split())
    assert (part.truncated.value, part.invalid_actions.value) == (None, None)
    assert (part.spent.turns, part.spent.action_tokens, part.spent.seconds, part.spent.infra_errors) == (3, None, None, None)
    assert part.first_attempts == FirstAttempts(retried=None, accounting=None)
    assert {each.what: (each.value, each.why) for each in part.per_success}["tokens sampled"] == (None, "not in the files it was imported from")
    assert report.spending.infra_errors is None
    assert report.spending.clock_seconds.value is None
    assert {each.what: each.value for each in report.spending.per_success}["seconds on the clock"] is None


@pytest.mark.slow
def test_no_form_shows_zeroes_of_imported_files(store: Connection, tmp_path: Path) -> None:
    report = imported(store, tmp_path, [1.0, 0.0, 0.0])
    for text in (printed(report), render(report), report_page(report)):
        said = " ".join(text.split())
        assert "its files do not tell" in said
        assert "seed None" not in said
        assert "n/a: not in the files" in said
        assert not any(zero in said for zero in ("0 action tokens", "0.0 s summed", "0 ended in infra errors", "0 of 3 turns", "0 of 3 episodes"))


def test_promise_01_an_attempt_without_an_outcome_is_missing_and_no_missing_attempt(store: Connection, tmp_path: Path) -> None:
    (part,) = imported(store, tmp_path, [None, 1.0]).parts
    assert "1 missing (no outcome 1)" in part.ledger.sentence
    assert part.spent.attempts == 2


@pytest.mark.slow
def test_promise_04_a_run_without_any_outcome_claims_nothing(store: Connection, tmp_path: Path) -> None:
    records = [make_run(verb="eval", policy="oracle"), make_segment(), *evaluation(["missing"] * 96), make_segment(ended=NOW, status="finished")]
    report = report_of(store, tmp_path / "r1", records)
    found = report.parts[0].accounting
    assert (found.end_to_end.value, found.infra_share.value, found.infra_share.low) == (None, None, None)
    assert found.infra_share.why == "none of 96 has an outcome"
    assert (found.worst_case.value, found.best_case.value) == (0.0, 1.0)
    assert report.header.promise == "equal schedules"
    assert report.standing.missing == ("eval / test: 96 of 96 scheduled episodes have no outcome",)
    for text in (printed(report), render(report), report_page(report)):
        assert "Nothing was scored: it claims nothing." in " ".join(text.split())


def test_an_infra_share_needs_one_outcome_only() -> None:
    found = account(success=0, failure=0, infra_error=1, missing=3, scheduled=4)
    assert (found.infra_share.value, found.end_to_end.value, found.conditional.value) == (0.25, 0.0, None)


@pytest.mark.parametrize(
    ("frozen", "tasks", "begun", "expected"),
    [
        ("{}", 3, True, Choice(left_out=None, planned=None)),
        (FROZEN, 100, True, Choice(left_out=20, planned=None)),
        (SAMPLED, 15, False, Choice(left_out=72, planned=96)),
        (SAMPLED.replace('"limit":48', '"limit":500'), 15, False, Choice(left_out=0, planned=240)),
        (SAMPLED.replace('"limit":48', '"only":{"ids":"0-9"}'), 10, True, Choice(left_out=110, planned=None)),
        (SAMPLED.replace('"limit":48', '"only":{"ids":"0-9"}'), 4, False, Choice(left_out=None, planned=None)),
        (SAMPLED.replace('"limit":48', '"only":{"splits":["other"],"ids":null}'), 0, False, Choice(left_out=120, planned=0)),
        (SAMPLED.replace('"limit":48', '"only":{"splits":["test"]}'), 15, False, Choice(left_out=0, planned=240)),
        (SAMPLED.replace('"limit":48', '"limit":48,"only":{"splits":["test"],"categories":null}'), 15, False, Choice(left_out=72, planned=96)),
        (SAMPLED.replace('"limit":48', '"only":{"splits":["test"],"categories":["depth 1"]}'), 15, True, Choice(left_out=105, planned=None)),
    ],
)
def test_what_is_left_out_follows_from_the_frozen_choice(frozen: str, tasks: int, begun: bool, expected: Choice) -> None:
    assert choice_of(read_facts(frozen), "test", tasks=tasks, begun=begun) == expected


@pytest.mark.slow
def test_promise_01_a_schedule_that_was_cut_short_is_no_choice(store: Connection, tmp_path: Path) -> None:
    scheduled = [record for number in range(15) for sample in range(2) for record in settled(make_scheduled(number, sample=sample), "missing")]
    report = report_of(store, tmp_path / "r1", [make_run(verb="eval", frozen=SAMPLED), make_segment(), *scheduled])
    (part,) = report.parts
    assert (part.tasks, part.left_out) == (15, 72)
    assert part.unwritten is not None
    assert (part.unwritten.written, part.unwritten.planned) == (30, 96)
    assert "eval / test: 30 of 96 episodes of its schedule were written down" in report.standing.missing
    for text in (printed(report), render(report), report_page(report)):
        assert "incomplete: 30 of 96 episodes were written down; worst to best case over all of them 0.0% to 100.0%" in " ".join(text.split())


def test_the_worst_and_best_case_of_a_cut_schedule_go_over_all_of_it() -> None:
    found = account(success=6, failure=3, infra_error=0, missing=1, scheduled=10)
    cut = unwritten(found, 40)
    assert cut is not None
    assert (cut.worst_case.value, cut.best_case.value) == (6 / 40, 37 / 40)
    assert unwritten(found, 10) is None


def test_every_share_without_data_says_why(store: Connection, tmp_path: Path) -> None:
    records = [record for number in range(2) for sample in range(2) for record in settled(make_scheduled(number, sample=sample), "infra_error")]
    report = report_of(store, tmp_path / "r1", [make_run(), make_segment(), *records])
    whys = {(item.k, item.counted): item.any_of.why for item in report.parts[0].tries}
    assert whys == {
        (1, "end to end"): None, (2, "end to end"): None, (1, "conditional"): "no task has 1 scored episode",
        (2, "conditional"): "no task has 2 scored episodes",
    }  # fmt: skip
    for text in (printed(report), render(report), report_page(report)):
        assert "1 scored" in " ".join(text.split())
        assert "no episode was scored" in " ".join(text.split())
        assert "0 of 0" not in text


def test_tries_of_episodes_that_never_ran_are_worth_nothing_known(store: Connection, tmp_path: Path) -> None:
    records = [record for sample in range(2) for record in settled(make_scheduled(0, sample=sample), "missing")]
    report = report_of(store, tmp_path / "r1", [make_run(), make_segment(), *records])
    assert {item.any_of.value for item in report.parts[0].tries} == {None}
    assert (report.parts[0].truncated.value, report.spending.tokens_sampled.why) == (None, "no attempt was recorded")
