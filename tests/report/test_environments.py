"""Runs of several environments side by side: both averages under their names, and never pooled in silence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym_cli.report.compare import Comparisons, compare_all
from agentgym_cli.report.compared import compared
from agentgym_cli.report.markdown import render_sections
from agentgym_cli.report.side import read_side
from agentgym_cli.store.db import Connection
from agentgym_cli.store.loader import load_into
from agentgym_cli.store.records import Record
from tests.report.runs import FROZEN
from tests.store.builders import make_attempt, make_outcome, make_run, make_scheduled, make_segment, settled, write_journal

FEW = ("success",) * 9 + ("failure",)
MANY = ("success",) * 10 + ("failure",) * 80 + ("infra_error",) * 10
ONES = ("success",) * 3 + ("failure",)


def evaluated(
    store: Connection, folder: Path, run: str, env: str, outcomes: Sequence[str], *, policy: str = "oracle", more: str = "", split: str = "test"
) -> None:
    """A run with one episode of each task, whose last one but for infra errors is a second attempt."""
    records: list[Record] = [make_run(run, env=env, policy=policy, frozen=FROZEN.replace('"limit":100', f'"limit":100{more}')), make_segment(run=run)]
    for number, outcome in enumerate(outcomes):
        records += settled(make_scheduled(number, run=run, split=split, task=f"{env}_{number}"), outcome)
    again = make_scheduled(len(outcomes), run=run, split=split, task=f"{env}_{len(outcomes)}")
    first, second = make_attempt(again, "infra_error"), make_attempt(again, "failure", attempt=2)
    records += [again, first, second, make_outcome(second, attempts=2, first="infra_error")]
    load_into(store, write_journal(folder / run, records))


def read(store: Connection, *runs: str) -> Comparisons:
    sides = [read_side(store, run) for run in runs]
    return compare_all(sides[0], sides[1:])


def said(found: Comparisons) -> str:
    return " ".join(render_sections("t", compared(found)).replace("\\", "").split())


def test_one_policy_in_several_environments_has_both_averages(store: Connection, tmp_path: Path) -> None:
    known = ',"protocol":"own","samples_per_task":1'
    evaluated(store, tmp_path, "r1", "textcraft", FEW, more=known)
    evaluated(store, tmp_path, "r2", "babyai", MANY, more=known)
    found = read(store, "r1", "r2")
    assert [(item.conditions.env, item.whole.accounting.success, item.whole.accounting.scheduled) for item in found.environments] == [
        ("babyai", 10, 101),
        ("textcraft", 9, 11),
    ]
    (average,) = found.averages
    assert average.averages is not None
    assert average.averages.scenarios == "environments"
    assert average.averages.pooled.end_to_end.value == pytest.approx(19 / 112)
    assert average.averages.pooled.conditional.value == pytest.approx(19 / 102)
    assert average.averages.macro_end_to_end.value == pytest.approx((10 / 101 + 9 / 11) / 2)
    assert average.averages.macro_end_to_end.over == ("textcraft", "babyai")
    assert average.incomparable == ()
    text = said(found)
    assert "| B, babyai<br>oracle | 9.9% 10 of 101" in text
    assert "| pooled | 17.0%" in text
    assert "| macro over 2 environments | 45.9%" in text
    assert "not like for like" not in text[text.index("Pooled:") : text.index("Pooled:") + 200]


def test_every_environment_has_its_sum_and_its_first_attempts(store: Connection, tmp_path: Path) -> None:
    evaluated(store, tmp_path, "r1", "textcraft", FEW)
    evaluated(store, tmp_path, "r2", "babyai", MANY)
    (large, small) = read(store, "r1", "r2").environments
    assert large.whole.ledger.sentence == "10 success + 81 failure (horizon 81) + 10 infra error (server_5xx 10) + 0 missing = 101 scheduled"
    assert (small.whole.first_attempts.retried, small.whole.ledger.left_out) == (1, 20)
    assert small.whole.first_attempts.accounting is not None
    assert small.whole.first_attempts.accounting.infra_error == 1
    assert large.whole.latency is not None
    assert large.whole.latency.turns == 2 * 102


def test_runs_under_different_protocols_are_not_pooled_in_silence(store: Connection, tmp_path: Path) -> None:
    evaluated(store, tmp_path, "r1", "textcraft", FEW, more=',"protocol":"agentgym-rl"')
    evaluated(store, tmp_path, "r2", "babyai", MANY, more=',"protocol":"own"')
    found = read(store, "r1", "r2")
    assert [(item.what, item.ours, item.theirs) for item in found.averages[0].incomparable if item.what == "protocol"] == [
        ("protocol", "agentgym-rl", "own")
    ]
    text = said(found)
    place = text.index("Pooled: all episodes together")
    assert "not like for like: protocol" in text[place : place + 200]


def test_two_runs_of_one_environment_leave_open_which_of_them_counts(store: Connection, tmp_path: Path) -> None:
    for run, env in (("r1", "textcraft"), ("r2", "babyai"), ("r3", "babyai")):
        evaluated(store, tmp_path, run, env, ONES)
    (average,) = read(store, "r1", "r2", "r3").averages
    assert (average.averages, average.why) == (None, "several runs of babyai: name one of each environment")
    assert "No average over environments for policy oracle: several runs of babyai" in said(read(store, "r1", "r2", "r3"))


def test_policies_are_averaged_apart(store: Connection, tmp_path: Path) -> None:
    for run, env, policy in (("r1", "textcraft", "oracle"), ("r2", "babyai", "random"), ("r3", "babyai", "oracle"), ("r4", "sciworld", "random")):
        evaluated(store, tmp_path, run, env, ONES, policy=policy)
    found = read(store, "r1", "r2", "r3", "r4").averages
    assert [(item.policy, item.runs) for item in found] == [("oracle", ("r1", "r3")), ("random", ("r2", "r4"))]
    alone = read(store, "r1", "r2")
    assert alone.averages == ()
    assert "No policy was judged in several environments" in said(alone)


def test_runs_of_one_environment_are_not_set_side_by_side_as_environments(store: Connection, tmp_path: Path) -> None:
    for run in ("r1", "r2"):
        evaluated(store, tmp_path, run, "textcraft", ONES)
    found = read(store, "r1", "r2")
    assert (found.environments, found.averages) == ((), ())
    assert "Environments" not in said(found)


def test_a_run_without_an_evaluation_is_no_environment_of_an_average(store: Connection, tmp_path: Path) -> None:
    evaluated(store, tmp_path, "r1", "textcraft", ONES)
    load_into(store, write_journal(tmp_path / "r2", [replace(make_run("r2"), env="babyai"), make_segment(run="r2")]))
    found = read(store, "r1", "r2")
    assert [item.run for item in found.environments] == ["r1"]
    assert found.averages == ()


def test_both_sides_of_a_comparison_have_their_sum_first_attempts_and_latency(store: Connection, tmp_path: Path) -> None:
    for run in ("r1", "r2"):
        evaluated(store, tmp_path, run, "textcraft", ONES)
    text = said(read(store, "r1", "r2"))
    assert "A, counted | 3 success + 2 failure (horizon 2) + 0 infra error + 0 missing = 5 scheduled; first attempts only: 60.0% end to end" in text
    assert "tried again under the retry policy: 1; 20 more tasks not scheduled by choice" in text
    assert "other, turns | policy p50 0.1 s, p95 0.1 s; world p50 0.01 s, p95 0.01 s; of 12 turns that were kept" in text
