"""The matrix of tasks by evaluations, how far a run is, and what stands on its face."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from agentgym_cli.report.build import read_rows
from agentgym_cli.report.face import matrices, said_when_frozen, settings, standing
from agentgym_cli.report.model import Report, Setting
from agentgym_cli.store import diagnosis_queries
from agentgym_cli.store.db import Connection
from agentgym_cli.store.loader import load_into
from agentgym_cli.store.records import Record
from tests.store.builders import make_run, make_scheduled, make_segment, settled, write_journal


def two_evaluations() -> list[Record]:
    """Three tasks before and two of them after training, two episodes each; one episode ended in an infra error, one never ended."""
    records: list[Record] = [make_run(), make_segment()]
    outcomes = {
        ("eval_before", 0): [("success", "failure"), ("failure", "failure"), ("success", "infra_error")],
        ("eval_after", 6): [("success", "success"), ("failure", "missing")],
    }
    for (phase, step), tasks in outcomes.items():
        for number, samples in enumerate(tasks):
            for sample, outcome in enumerate(samples):
                records += settled(make_scheduled(10 - number, phase=phase, step=step, sample=sample, category=f"depth {number}"), outcome)
    return records


def test_tasks_come_by_number_with_what_became_of_their_episodes(store: Connection, tmp_path: Path) -> None:
    load_into(store, write_journal(tmp_path / "r1", two_evaluations()))
    (matrix,) = matrices(diagnosis_queries.matrix(store, "r1", 100))
    assert (matrix.split, matrix.evaluations, matrix.of) == ("test", ("eval_before, step 0", "eval_after, step 6"), 3)
    assert [(task.task, task.category, task.cells, task.solved) for task in matrix.tasks] == [
        ("textcraft_8", "depth 2", ("1 of 2 (1 infra)", None), (False, None)),
        ("textcraft_9", "depth 1", ("0 of 2", "0 of 2 (1 missing)"), (False, False)),
        ("textcraft_10", "depth 0", ("1 of 2", "2 of 2"), (False, True)),
    ]


def test_a_matrix_that_is_cut_says_how_many_tasks_there_are(store: Connection, tmp_path: Path) -> None:
    load_into(store, write_journal(tmp_path / "r1", two_evaluations()))
    (matrix,) = matrices(diagnosis_queries.matrix(store, "r1", 2))
    assert ([task.task for task in matrix.tasks], matrix.of) == (["textcraft_8", "textcraft_9"], 3)


def test_a_finished_run_can_lack_outcomes_only_and_one_that_is_not_names_what_it_lacks(store: Connection, tmp_path: Path) -> None:
    frozen = json.dumps({"config": {"train": {"steps": 9}}})
    records = [replace(record, frozen=frozen) if hasattr(record, "frozen") else record for record in two_evaluations()]
    load_into(store, write_journal(tmp_path / "r1", records))
    rows = read_rows(store, "r1")
    assert standing(rows.run, rows.counts, rows.curve, ("test", "other")).missing == (
        "eval_after / test: 1 of 4 scheduled episodes have no outcome",
        "training: step 0 of 9",
        "eval_after / other: not begun",
    )
    over = standing(replace(rows.run, status="finished"), rows.counts, rows.curve, ("other",))
    assert (over.finished, over.missing) == (True, ("eval_after / test: 1 of 4 scheduled episodes have no outcome",))
    assert standing(replace(rows.run, status="finished"), [replace(row, missing=0) for row in rows.counts], rows.curve, ("other",)).missing == ()


def test_reward_and_stopping_rules_are_read_from_the_frozen_run() -> None:
    frozen = json.dumps(
        {
            "config": {"reward": {"scale": 2.0, "success_at_least": None}, "horizon": {"turns": [8, 10]}, "evaluation": {"horizon": 12}},
            "parts": {"rules": {"the dialect's success": '{"at_least":1}'}},
        }
    )
    reward = [
        Setting(about="reward and success", key="reward.scale", value="2.0"),
        Setting(about="reward and success", key="the dialect's success", value='{"at_least":1}'),
    ]
    last = Setting(about="stopping", key="evaluation.horizon", value="12")
    assert settings(frozen, "eval") == (*reward, last)
    assert settings(frozen, "train") == (*reward, Setting(about="stopping", key="horizon.turns", value="[8,10]"), last)


def test_a_run_whose_frozen_form_is_not_known_has_no_rules_and_no_warnings() -> None:
    for frozen in ("{}", "[]", "no json", '{"warnings": 3, "parts": [1]}'):
        assert settings(frozen, "train") == ()
        assert said_when_frozen(frozen) == ((), ())


def test_overlaps_stand_apart_from_other_warnings() -> None:
    said = ["tasks.allow_overlap: split test shares 1", "reported overlap: split test shares 9", "model: not pinned"]
    assert said_when_frozen(json.dumps({"warnings": said})) == (tuple(said[:2]), (said[2],))


def test_a_report_has_every_rule_and_the_matrix(trained: Report) -> None:
    assert len(trained.findings) == 14
    assert [(matrix.split, len(matrix.tasks), len(matrix.evaluations)) for matrix in trained.matrices] == [("test", 100, 2)]
