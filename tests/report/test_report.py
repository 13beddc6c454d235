"""From journal through store to report: what may be claimed of a run, in every form."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym_cli.errors import StoreError
from agentgym_cli.report.build import build_report
from agentgym_cli.report.jsonout import to_json
from agentgym_cli.report.markdown import render
from agentgym_cli.report.model import Report
from agentgym_cli.store.db import Connection, rows_of
from agentgym_cli.store.loader import load
from agentgym_cli.store.records import Record
from tests.report.runs import FROZEN, HANDBOOK, evaluation, printed, report_of, trained_run, training
from tests.store.builders import make_attempt, make_metric, make_outcome, make_run, make_scheduled, make_segment, settled, write_journal

START: list[Record] = [make_run(), make_segment()]


def squeezed(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_promise_04_the_handbooks_example_comes_out_exactly_in_every_form(store: Connection, tmp_path: Path) -> None:
    report = report_of(store, tmp_path / "r1", [*START, *evaluation(HANDBOOK)])
    lines = squeezed(printed(report))
    assert "end to end 60.0% 60 of 100 50.2 to 69.1%" in lines
    assert "conditional 66.7% 60 of 90 56.4 to 75.5%" in lines
    assert "infra 10.0% 10 of 100 5.5 to 17.4%" in lines
    assert "worst to best case 60.0% to 70.0% 10 infra, 0 missing" in lines
    assert (
        "| all | 100 | 60.0% (60 of 100; 95% 50.2 to 69.1%) | 66.7% (60 of 90; 95% 56.4 to 75.5%) "
        "| 10.0% (10 of 100; 95% 5.5 to 17.4%) | 60.0% to 70.0% | 0 |"
    ) in render(report)
    accounting = json.loads(to_json(report))["parts"][0]["accounting"]
    assert {name: accounting[name] for name in ("scheduled", "scored", "success", "failure", "infra_error", "missing")} == {
        "scheduled": 100, "scored": 90, "success": 60, "failure": 30, "infra_error": 10, "missing": 0,
    }  # fmt: skip
    rates = ("end_to_end", "conditional", "infra_share", "worst_case", "best_case")
    assert [accounting[name]["value"] for name in rates] == [0.6, 60 / 90, 0.1, 0.6, 0.7]


def test_promise_01_what_was_scheduled_and_never_ran_stays_in_the_denominator(store: Connection, tmp_path: Path) -> None:
    report = report_of(store, tmp_path / "r1", [*START, *evaluation(("success", "missing", "missing", "missing"))])
    accounting = report.parts[0].accounting
    assert (accounting.scheduled, accounting.scored, accounting.missing) == (4, 1, 3)
    assert (accounting.end_to_end.value, accounting.conditional.value, accounting.best_case.value) == (0.25, 1.0, 1.0)
    assert "missing 3, done 1" in printed(report)
    assert "1 success + 0 failure + 0 infra error + 3 missing (no attempt 3) = 4 scheduled" in " ".join(printed(report).split())


def test_promise_04_no_data_is_shown_as_such_in_every_form(store: Connection, tmp_path: Path) -> None:
    report = report_of(store, tmp_path / "r1", [*START, *evaluation(("infra_error", "missing"))])
    assert "conditional n/a no episode was scored n/a" in squeezed(printed(report))
    assert "| n/a: no episode was scored |" in render(report)
    assert json.loads(to_json(report))["parts"][0]["accounting"]["conditional"]["value"] is None


def test_categories_are_reported_apart_and_add_up(store: Connection, tmp_path: Path) -> None:
    (part,) = report_of(store, tmp_path / "r1", [*START, *evaluation(HANDBOOK, categories=3)]).parts
    assert [category.name for category in part.categories] == ["depth 1", "depth 2", "depth 3"]
    assert [category.accounting.scheduled for category in part.categories] == [34, 33, 33]
    assert [category.accounting.success for category in part.categories] == [20, 20, 20]
    assert sum(category.accounting.infra_error for category in part.categories) == 10


def test_phases_come_in_the_order_in_which_they_happen(store: Connection, tmp_path: Path) -> None:
    phases = ("eval_after", "train", "eval_before")
    records = [record for phase in phases for record in evaluation(("success",), phase, 3)]
    report = report_of(store, tmp_path / "r1", [*START, *records])
    assert [(part.phase, part.step) for part in report.parts] == [("eval_before", 3), ("train", None), ("eval_after", 3)]


def test_before_and_after_are_compared_by_task(trained: Report) -> None:
    (comparison,) = trained.comparisons
    assert comparison.split == "test"
    assert (comparison.before.end_to_end.value, comparison.after.end_to_end.value) == (0.2, 0.6)
    assert comparison.end_to_end.points == pytest.approx(40.0)
    # 40 tasks went from failure to success and 60 did not change; half a task more in each cell: 40 of 102, with (40 + 1) / 102 as mean square
    centre, half = 100 * 40 / 102, 195.996398 * ((41 / 102 - (40 / 102) ** 2) / 102) ** 0.5
    assert comparison.end_to_end.method == "matched pairs"
    assert (comparison.end_to_end.low, comparison.end_to_end.high) == pytest.approx((centre - half, centre + half), rel=1e-5)
    assert comparison.end_to_end.intervals_overlap is False
    assert comparison.conditional.method == "newcombe"
    lines = squeezed(printed(trained))
    assert "end to end 20.0% 20 of 100 60.0% 60 of 100 +40.0 apart" in lines
    assert f"13.3 to 28.9% 50.2 to 69.1% {centre - half:+.1f} to {centre + half:+.1f}" in lines


def test_before_and_after_are_compared_as_two_runs_are(store: Connection, tmp_path: Path) -> None:
    """Every episode was scored, so both rates pair the same tasks: one interval, and that of a comparison of runs."""
    before, after = ("success",) * 3 + ("failure",) * 7, ("failure",) + ("success",) * 6 + ("failure",) * 3
    report = report_of(store, tmp_path / "r1", [*START, *evaluation(before, "eval_before"), *evaluation(after, "eval_after")])
    (found,) = report.comparisons
    # 4 tasks won and 1 lost of 10; half a task more in each cell
    centre, half = 3 / 12, 1.95996398 * ((6 / 12 - (3 / 12) ** 2) / 12) ** 0.5
    for item in (found.end_to_end, found.conditional):
        assert (item.points, item.method) == (pytest.approx(30.0), "matched pairs")
        assert (item.low, item.high) == pytest.approx((100 * (centre - half), 100 * (centre + half)))
    assert squeezed(printed(report)).count("matched pairs") == 2


def test_several_episodes_of_few_tasks_before_and_after_have_an_interval(store: Connection, tmp_path: Path) -> None:
    records: list[Record] = []
    for phase, good in (("eval_before", (0, 0, 1, 1, 0)), ("eval_after", (2, 1, 2, 1, 2))):
        for task, successes in enumerate(good):
            for sample in range(2):
                records += settled(make_scheduled(task, phase=phase, sample=sample), "success" if sample < successes else "failure")
    (found,) = report_of(store, tmp_path / "r1", [*START, *records]).comparisons
    # by task +1, +1/2, +1/2, 0, +1
    assert (found.end_to_end.points, found.end_to_end.method, found.conditional) == (pytest.approx(60.0), "cluster bootstrap", found.end_to_end)
    assert found.end_to_end.low is not None and found.end_to_end.high is not None
    assert 0 < found.end_to_end.low < 60 < found.end_to_end.high <= 100


def test_without_an_evaluation_after_there_is_no_comparison(store: Connection, tmp_path: Path) -> None:
    assert report_of(store, tmp_path / "r1", [*START, *evaluation(("success",), "eval_before")]).comparisons == ()


def test_promise_03_what_retries_changed_is_shown(store: Connection, tmp_path: Path) -> None:
    scheduled = make_scheduled(0)
    first, second = make_attempt(scheduled, "infra_error"), make_attempt(scheduled, "success", attempt=2)
    retried = [scheduled, first, second, make_outcome(second, attempts=2, first="infra_error")]
    report = report_of(store, tmp_path / "r1", [*START, *retried, *settled(make_scheduled(1), "success")])
    part = report.parts[0]
    assert part.accounting.end_to_end.value == 1.0
    assert part.first_attempts.accounting.infra_share.value == 0.5
    assert (part.spent.attempts, part.spent.infra_errors, part.spent.turns, part.spent.action_tokens) == (3, 1, 6, 24)
    flat = " ".join(printed(report).split())
    assert (
        "50.0% end to end (9.5 to 90.5%), 100.0% conditional (20.7 to 100.0%), 50.0% infra (9.5 to 90.5%), 50.0% to 100.0% worst to best; "
        "tried again under the retry policy: 1"
    ) in flat


def test_stops_causes_truncation_and_invalid_actions_are_counted(store: Connection, tmp_path: Path) -> None:
    records = [
        *settled(make_scheduled(0), "success", invalid_actions=1),
        *settled(make_scheduled(1), "failure", invalid_actions=2, turns=6),
        *settled(make_scheduled(2), "infra_error", action_induced=True),
        *settled(make_scheduled(3), "infra_error", stop="env_deadline", cause="timeout", detail="no answer in 10 s"),
    ]
    (part,) = report_of(store, tmp_path / "r1", [*START, *records]).parts
    assert [(stop.reason, stop.cause, stop.episodes) for stop in part.stops] == [
        ("done", None, 1),
        ("env_deadline", "timeout", 1),
        ("env_error", "server_5xx", 1),
        ("horizon", None, 1),
    ]
    assert part.stops[1].example == "no answer in 10 s"
    assert (part.action_induced.count, part.action_induced.denominator) == (1, 2)
    assert (part.truncated.count, part.truncated.denominator) == (1, 4)
    assert (part.invalid_actions.count, part.invalid_actions.denominator) == (3, 12)


def test_promise_10_superseded_records_are_shown_and_not_counted(store: Connection, tmp_path: Path) -> None:
    first = [make_run(), make_segment(1), *evaluation(("failure",) * 4, "train", 2)]
    second = [make_segment(2, resumed=1), *[replace(record, segment=2) for record in evaluation(("success",) * 4, "train", 2)]]
    report = report_of(store, tmp_path / "r1", first, second)
    assert report.parts[0].accounting.success == report.parts[0].accounting.scheduled == 4
    assert [(segment.superseded_attempts, segment.superseded_outcomes, segment.superseded_records) for segment in report.segments] == [
        (4, 4, 12),
        (0, 0, 0),
    ]
    assert "superseded and not counted: 4 attempts, 4 outcomes, 12 records in all" in " ".join(printed(report).split())


def test_records_outside_the_schedule_refuse_the_report(store: Connection, tmp_path: Path) -> None:
    scheduled = make_scheduled(0, phase="train", step=3)
    late = replace(make_attempt(scheduled), segment=2)
    with pytest.raises(StoreError, match="expected every record to be scheduled, got attempts of train/test/3/textcraft_0/0"):
        report_of(store, tmp_path / "r1", [*START, scheduled], [make_segment(2, resumed=1), late, make_outcome(late)])


def test_learning_shows_curves_stages_and_groups(store: Connection, tmp_path: Path) -> None:
    learning = report_of(store, tmp_path / "r1", [*START, *training()]).learning
    assert [(curve.phase, curve.name, len(curve.points)) for curve in learning.curves] == [
        ("warm_start", "loss", 3),
        ("train", "horizon", 6),
        ("train", "reward_mean", 6),
        ("train", "success", 6),
    ]
    assert [(stage.horizon, stage.first_step, stage.last_step) for stage in learning.stages] == [(6, 1, 2), (9, 3, 4), (12, 5, 6)]
    assert learning.groups is not None
    assert (learning.groups.planned, learning.groups.dropped.count, learning.groups.zero_variance.count) == (72, 6, 18)
    new = next(metric for metric in learning.metrics if metric.name == "something_new")
    assert (new.steps, new.mean, new.least, new.most, new.first, new.last) == (6, 2.5, 2.5, 2.5, 2.5, 2.5)


def test_a_metric_without_data_is_skipped_and_not_zero(store: Connection, tmp_path: Path) -> None:
    records = [make_metric("success", None, 1), make_metric("success", 0.5, 2), make_metric("success", None, 3), make_metric("empty", None, 1)]
    learning = report_of(store, tmp_path / "r1", [*START, *records]).learning
    assert learning.curves[0].points == ((1, None), (2, 0.5), (3, None))
    totals = {metric.name: (metric.steps, metric.mean, metric.first, metric.last) for metric in learning.metrics}
    assert totals == {"empty": (0, None, None, None), "success": (1, 0.5, 0.5, 0.5)}


@pytest.mark.parametrize(
    ("changes", "stop", "promise"),
    [
        ({}, {}, "equal bits"),
        ({"policy": "oracle"}, {}, "equal bits"),
        ({"policy": "openai"}, {}, "equal schedules"),
        ({"engine": "verl"}, {}, "equal schedules"),
        ({}, {"stop": "policy_deadline"}, "equal schedules"),
        ({}, {"stop": "env_error", "cause": "timeout"}, "equal schedules"),
    ],
)
def test_promise_07_the_report_says_what_repeats(
    store: Connection, tmp_path: Path, changes: dict[str, str], stop: dict[str, str], promise: str
) -> None:
    outcome = "infra_error" if "cause" in stop else "failure"
    report = report_of(store, tmp_path / "r1", [make_run(**changes), make_segment(), *settled(make_scheduled(), outcome, **stop)])
    assert report.header.promise == promise


DRIFT = "another model: config.json (frozen 1a2b3c4d5e6f, then 3c4d5e6f7a8b)"


def test_promise_07_drift_that_was_allowed_is_shown_in_every_form(store: Connection, tmp_path: Path) -> None:
    first = [make_run(frozen=FROZEN), make_segment(), *evaluation(("success",))]
    report = report_of(store, tmp_path / "r1", first, [make_segment(2, resumed=0, drift=(DRIFT,))])
    line = f"Drift allowed: segment 2 ran with {DRIFT}"
    assert line in " ".join(printed(report).split())
    assert "[RAN WITH DRIFT]" in printed(report)
    assert [text[:4] for text in printed(report).splitlines() if "Drift allowed" in text or "3c4d5e6f7a8b" in text] == ["  Dr", "  1a"]
    assert f"- {line}" in render(report).replace("\\", "")
    assert render(report).startswith("# textcraft\\_grpo (laptop result, ran with drift)\n")
    header = json.loads(to_json(report))["header"]
    assert (header["drift"], header["promise"]) == ([f"segment 2 ran with {DRIFT}"], "equal schedules")
    assert [segment["drift"] for segment in json.loads(to_json(report))["segments"]] == [[], [DRIFT]]


def test_what_a_success_means_is_shown_in_every_form_where_the_frozen_run_says_it(store: Connection, tmp_path: Path, trained: Report) -> None:
    frozen = FROZEN.replace('"parts":{', '"parts":{"rules":{"the dialect\'s semantics":"guess until right"},')
    report = report_of(store, tmp_path / "r1", [make_run(frozen=frozen), make_segment(), *evaluation(("success",))])
    assert "success means  guess until right" in printed(report)
    assert "guess until right" in render(report)
    assert json.loads(to_json(report))["header"]["semantics"] == "guess until right"
    assert trained.header.semantics is None
    assert "success means" not in printed(trained) + render(trained)


LIMITS = '{"config":{"env":{"max_infra_share":%s,"max_action_induced_share":%s}}}'


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (("0.1", "0.1"), None),
        (("0.09", "0.1"), "infra share: expected at most 9% of scheduled episodes, got eval 10.0% (10 of 100)"),
        (("0.1", "0.02"), "errors that came back on the same action: expected at most 2% of scheduled episodes, got eval 3.0% (3 of 100)"),
    ],
)
def test_a_run_above_its_recipes_limits_is_marked_degraded_in_every_form(
    store: Connection, tmp_path: Path, limits: tuple[str, str], said: str | None
) -> None:
    records = [make_run(frozen=LIMITS % limits), make_segment()]
    for number, outcome in enumerate(HANDBOOK):
        records += settled(make_scheduled(number), outcome, action_induced=number >= 97)
    report = report_of(store, tmp_path / "r1", records)
    assert report.header.degraded == said
    assert json.loads(to_json(report))["header"]["degraded"] == said
    shown = " ".join(printed(report).split())
    assert (f"Degraded: {said}" in shown, "[DEGRADED]" in shown) == (said is not None, said is not None)
    assert (", degraded)" in render(report).splitlines()[0]) == (said is not None)


def test_a_run_without_drift_says_nothing_of_it(trained: Report) -> None:
    assert "drift" not in (printed(trained) + render(trained)).lower()
    assert trained.header.drift == ()


def test_a_laptop_result_is_labelled_wherever_it_is_shown(trained: Report) -> None:
    assert "[LAPTOP RESULT]" in printed(trained)
    assert render(trained).startswith("# textcraft\\_grpo (laptop result)\n")
    assert json.loads(to_json(trained))["header"]["label"] == "laptop result"
    other = replace(trained, header=replace(trained.header, label=None))
    assert "laptop result" not in (printed(other) + render(other)).lower()


@pytest.mark.parametrize(("status", "shown"), [("finished", "finished"), ("interrupted", "interrupted"), (None, "in progress")])
def test_the_status_is_the_latest_segments(store: Connection, tmp_path: Path, status: str | None, shown: str) -> None:
    segments = [[make_run(), make_segment(1, status="failed", ended="t")], [make_segment(2, resumed=0, status=status)]]
    report = report_of(store, tmp_path / "r1", *segments)
    assert report.header.status == shown
    assert f"status {shown};" in " ".join(printed(report).split())


def test_outcomes_say_where_they_come_from(store: Connection, tmp_path: Path) -> None:
    attempt = make_attempt(make_scheduled(0))
    records = [make_scheduled(0), attempt, make_outcome(attempt, by_verifier=True)]
    assert report_of(store, tmp_path / "r1", [*START, *records]).header.outcome_from == "verifier"


@pytest.mark.parametrize(("by_verifier", "origin"), [(True, "verifier"), (False, "reward and verifier")])
def test_an_episode_cut_at_its_horizon_asks_nobody_and_says_nothing_of_where_outcomes_come_from(
    store: Connection, tmp_path: Path, by_verifier: bool, origin: str
) -> None:
    verified, cut, other = make_attempt(make_scheduled(0)), make_attempt(make_scheduled(1), "failure"), make_attempt(make_scheduled(2))
    outcomes = [make_outcome(verified, by_verifier=True), make_outcome(cut), make_outcome(other, by_verifier=by_verifier)]
    records = [*(make_scheduled(place) for place in range(3)), verified, cut, other, *outcomes]
    assert report_of(store, tmp_path / "r1", [*START, *records]).header.outcome_from == origin


def test_tasks_left_out_by_choice_stay_visible(trained: Report) -> None:
    assert [(part.tasks, part.left_out) for part in trained.parts] == [(100, 20), (100, 20)]
    assert "100, 20 more not scheduled by choice" in printed(trained)


def test_a_split_of_which_nothing_was_scheduled_stays_visible(store: Connection, tmp_path: Path) -> None:
    two = FROZEN.replace('"parts":{', '"parts":{"tasks.evaluation.other":{"count":"7","rows":"c"},')
    two = two.replace('"limit":100', '"limit":100,"only":{"ids":"0-2"}')
    report = report_of(store, tmp_path / "r1", [make_run(frozen=two), make_segment(), *evaluation(["success"] * 3)])
    chosen, other = report.parts
    assert (chosen.split, chosen.tasks, chosen.left_out) == ("test", 3, 117)
    assert (other.split, other.tasks, other.left_out, other.accounting.scheduled) == ("other", 0, 7, 0)
    assert (other.accounting.end_to_end.value, other.accounting.end_to_end.low) == (None, None)
    assert {row.split for row in report.papers} == {"test"}, "nothing was run that could stand beside a paper"


@pytest.mark.parametrize("only", ['{"splits":["test"]}', '{"splits":["test"],"categories":["depth 1"]}', '{"ids":"0-2"}'])
def test_a_split_that_was_left_out_by_choice_is_not_waited_for(store: Connection, tmp_path: Path, only: str) -> None:
    two = FROZEN.replace('"parts":{', '"parts":{"tasks.evaluation.other":{"count":"7","rows":"c"},').replace(
        '"limit":100', f'"limit":3,"only":{only}'
    )
    run = make_run(frozen=two, verb="eval")
    found = report_of(store, tmp_path / "r1", [run, make_segment(), *evaluation(["success", "failure", "missing"])]).standing
    assert not found.finished
    assert found.missing == ("eval / test: 1 of 3 scheduled episodes have no outcome",)


def test_promise_12_every_count_can_be_followed_to_rows_and_the_run_to_its_lock(store: Connection, tmp_path: Path) -> None:
    report = report_of(store, tmp_path / "r1", trained_run())
    for part in report.parts:
        outcomes = [outcome for _, outcome, *_ in rows_of(store, part.rows)]
        counted = [outcomes.count(name) for name in ("success", "failure", "infra_error", "missing")]
        accounting = part.accounting
        assert counted == [accounting.success, accounting.failure, accounting.infra_error, accounting.missing]
        assert len(outcomes) == accounting.scheduled
    assert (report.header.digest, report.header.stack, report.header.lock) == ("d" * 64, "cpu", "a" * 64)
    pointers = {pointer.what: pointer.how for pointer in report.reproduce}
    assert pointers["stack"] == f"lockfiles/cpu.txt, SHA-256 {'a' * 64}"
    assert pointers["run it again"] == "agentgym train runs/r1/frozen.json"
    assert pointers["its folder"] == "runs/r1, or where --runs-dir put r1, which no record names"
    assert len(rows_of(store, pointers["rows of counts"])) == sum(part.accounting.scheduled for part in report.parts)
    assert rows_of(store, pointers["what was frozen"]) == [(FROZEN, "{}")]
    assert [checkpoint.path for checkpoint in report.checkpoints] == ["checkpoints/6"]


@pytest.mark.slow
def test_a_run_is_reported_from_a_store_file_by_name_beginning_or_folder(tmp_path: Path) -> None:
    database = tmp_path / "x.duckdb"
    for run in ("craft-1a", "craft-1b", "walk-2"):
        load(write_journal(tmp_path / run, [make_run(run, name=f"recipe {run[0]}"), make_segment(run=run)]), database)
    for text in ("craft-1a", str(tmp_path / "craft-1a"), "runs/craft-1a/"):
        assert build_report(database, text).header.run == "craft-1a"
    assert build_report(database, "wa").header.run == build_report(database, "recipe w").header.run == "walk-2"
    with pytest.raises(StoreError, match="run 'craft': expected one, got 2: craft-1a, craft-1b"):
        build_report(database, "craft")
    with pytest.raises(StoreError, match="run 'none': there is none in this store; it has craft-1a, craft-1b, walk-2"):
        build_report(database, "none")
    with pytest.raises(StoreError, match="there is no store"):
        build_report(tmp_path / "other.duckdb", "craft-1a")


def test_several_samples_of_a_task_are_clustered_and_labelled(store: Connection, tmp_path: Path) -> None:
    records = [
        record
        for task in range(20)
        for sample in range(2)
        for record in settled(make_scheduled(task, sample=sample), "success" if task % 4 == 0 or (task % 2 and sample) else "failure")
    ]
    report = report_of(store, tmp_path / "r1", [*START, *records])
    (part,) = report.parts
    means = [1.0 if task % 4 == 0 else 0.5 if task % 2 else 0.0 for task in range(20)]
    # t(19) = 2.0930; the ends are where a share q is t standard errors away: (q - 0.5)^2 = t^2 v q (1 - q) / 0.25
    spread = 2.093024054408263**2 * sum((mean - 0.5) ** 2 for mean in means) / 19 / 20 / 0.25
    half = 0.5 * (spread / (1 + spread)) ** 0.5
    rate = part.accounting.end_to_end
    assert (rate.count, rate.denominator, rate.method) == (20, 40, "t over tasks")
    assert (rate.low, rate.high) == pytest.approx((0.5 - half, 0.5 + half), rel=1e-9)
    text = " ".join(printed(report).split())
    assert "intervals 95%, end to end t over tasks, conditional t over tasks, infra wilson over tasks" in text


def test_a_run_that_has_only_begun_can_be_reported(store: Connection, tmp_path: Path) -> None:
    report = report_of(store, tmp_path / "r1", [make_run(frozen="not JSON")])
    assert (report.header.status, report.header.outcome_from, report.parts) == ("in progress", "n/a", ())
    assert "in progress" in printed(report)
    assert "in progress" in render(report)
