"""``agentgym report`` on hostile runs and on a store of real ones: every form, comparisons, gates, and names that lead nowhere else."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from agentgym_cli.store.records import Record
from tests.e2e.commands import Ended, run
from tests.report.runs import FROZEN, HANDBOOK, evaluation, trained_run, training
from tests.report.test_forms import hostile_run
from tests.store.builders import NOW, make_run, make_scheduled, make_segment, settled, write_journal

pytestmark = pytest.mark.e2e
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
UNKNOWN = "allow_different: [tasks, dialect, protocol, success rule, prompt, horizon, samples]\n"
GATE = "split: test\nminimum_end_to_end: 0.5\nmaximum_infra_share: 0.2\n"


def ended_run(name: str, outcomes: tuple[str, ...] = HANDBOOK) -> list[Record]:
    """An evaluation that has finished."""
    records = [
        make_run(frozen=FROZEN, verb="eval", policy="oracle"),
        make_segment(),
        *evaluation(outcomes),
        make_segment(ended=NOW, status="finished"),
    ]
    return [renamed(record, name) for record in records]


def renamed(record: Record, name: str) -> Record:
    return replace(record, run=name)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of six runs."""
    place = tmp_path_factory.mktemp("reports")
    runs = {
        "better": ended_run("better", ("success",) * 80 + ("failure",) * 15 + ("infra_error",) * 5),
        "handbook": ended_run("handbook"),
        "hostile": [renamed(record, "hostile") for record in hostile_run()],
        "live": [renamed(record, "live") for record in live_run()],
        "trained": [renamed(record, "trained") for record in trained_run()],
    }
    for name, records in runs.items():
        write_journal(place / "runs" / name, records)
    assert report(place, "store", "rebuild").code == 0
    return place


def live_run() -> list[Record]:
    """A training run in the middle: three of six steps, its last episodes not settled."""
    frozen = json.loads(FROZEN)
    frozen["config"]["train"] = {"steps": 6}
    frozen["warnings"] = ["tasks.allow_overlap: split test shares 2 of 120 tasks with training: task 3 and task 5", "something else"]
    open_episodes = [make_scheduled(number, phase="train", split="train", step=4) for number in range(2)]
    return [make_run(frozen=json.dumps(frozen)), make_segment(), *training(3), *settled(open_episodes[0], "success"), open_episodes[1]]


def report(folder: Path, *words: str) -> Ended:
    return run(folder, *words)


def test_promise_04_the_handbooks_example_has_the_same_numbers_in_all_forms(folder: Path) -> None:
    terminal = report(folder, "report", "handbook").out
    markdown = report(folder, "report", "handbook", "--format", "md").out
    page = report(folder, "report", "handbook", "--format", "html").out
    document = report(folder, "report", "handbook", "--json").json
    for text in (terminal, markdown, page):
        for number in ("60.0%", "50.2 to 69.1%", "66.7%", "56.4 to 75.5%", "10.0%", "5.5 to 17.4%", "60.0% to 70.0%"):
            assert number in " ".join(text.split())
    accounting = document["parts"][0]["accounting"]
    assert (accounting["end_to_end"]["value"], accounting["conditional"]["denominator"], accounting["infra_share"]["count"]) == (0.6, 90, 10)
    assert max(map(len, terminal.splitlines())) <= 80


def test_a_run_in_progress_says_so_and_what_is_missing_and_overlaps_stand_at_the_top(folder: Path) -> None:
    text = " ".join(report(folder, "report", "live").out.split())
    assert "This run has not finished (in progress)" in text
    assert "train / train: 1 of 2 scheduled episodes have no outcome" in text
    assert "training: step 3 of 6" in text
    assert "eval_after / test: not begun" in text
    assert "split test shares 2 of 120 tasks with training: task 3 and task 5" in text
    assert text.index("Overlaps of evaluation and training") < text.index("Diagnosis")


def test_a_file_is_written_in_each_form_and_nothing_is_printed(folder: Path) -> None:
    for form, begins in {"html": "<!doctype html>", "md": "# ", "json": "{", "csv": "run,segment,episode", "terminal": "textcraft_grpo"}.items():
        ended = report(folder, "report", "trained", "--format", form, "-o", f"out.{form}")
        assert (ended.code, ended.out) == (0, "")
        assert (folder / f"out.{form}").read_text().startswith(begins)
    assert report(folder, "report", "trained", "-o", "runs").message[0] == "error: runs: expected a file to write, got a folder"
    assert report(folder, "report", "trained", "--format", "html", "-o", "no/such/x.html").code == 2


@pytest.mark.parametrize("form", ["terminal", "md", "html", "csv"])
def test_promise_11_hostile_text_reaches_no_terminal_page_or_spreadsheet(folder: Path, form: str) -> None:
    text = report(folder, "report", "hostile", "--format", form).out
    assert not CONTROL.search(text)
    if form == "csv":
        cells = [cell for row in csv.reader(StringIO(text)) for cell in row]
        assert not [cell for cell in cells if cell.lstrip().startswith(("=", "+", "-", "@"))]
    else:
        assert "<b>" not in re.sub(r"(?<!\\)`[^`]*`", "", text) or form == "terminal"


def test_runs_are_compared_in_every_form(folder: Path) -> None:
    terminal = " ".join(report(folder, "report", "handbook", "better").out.split())
    # On 100 tasks 20 more succeed and none is lost.
    assert "+20 points" in terminal
    assert "20, 0" in terminal
    document = report(folder, "report", "handbook", "better", "--json").json
    assert (document["schema"], document["environments"]) == (2, [])
    assert document["comparisons"][0]["splits"][0]["end_to_end"]["won"] == 20
    for form in ("md", "html"):
        assert "+20 points" in report(folder, "report", "handbook", "better", "--format", form).out


def test_a_gate_that_passes_exits_0_and_one_that_does_not_exits_8_with_its_evidence(folder: Path) -> None:
    (folder / "gate.yaml").write_text(GATE)
    passing = report(folder, "report", "handbook", "--gate", "gate.yaml")
    assert (passing.code, "Every rule is met." in passing.out) == (0, True)
    (folder / "strict.yaml").write_text(GATE.replace("0.5", "0.7") + "baseline: better\nno_regression: [all]\nheld_out: true\n" + UNKNOWN)
    failing = report(folder, "report", "handbook", "--gate", "strict.yaml", "--json")
    assert failing.code == 8
    assert failing.message[0].endswith("got not met: minimum_end_to_end, no_regression all, held_out")
    by_rule = {check["rule"]: check for check in failing.json["checks"]}
    assert by_rule["minimum_end_to_end"]["got"] == "60.0% (60 of 100; 95% 50.2 to 69.1%)"
    assert by_rule["no_regression all"]["got"].startswith("-20.0 points over 100 tasks")


def test_decisions_are_kept_shown_and_survive_a_rebuild(folder: Path) -> None:
    (folder / "gate2.yaml").write_text(GATE)
    assert report(folder, "report", "better", "--gate", "gate2.yaml").code == 0
    assert report(folder, "store", "rebuild").code == 0
    decisions = report(folder, "report", "better", "--json").json["gates"]
    assert [(each["gate"], each["passed"]) for each in decisions] == [("gate2.yaml", True)]
    assert "Decisions of gates" in report(folder, "report", "better").out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["handbook", "--format", "pdf"], "--format: expected one of terminal, md, json, html, csv, got 'pdf'"),
        (["handbook", "--x", "epochs"], "--x: expected one of steps, turns, tokens, seconds, got 'epochs'"),
        (["handbook", "better", "--format", "csv"], "report --format csv: expected one run with it, got 2"),
        (["handbook", "hand"], "report: expected different runs, got 'handbook' twice"),
        (["handbook", "better", "--gate", "gate.yaml"], "report --gate: expected one run with it, got 2"),
        (["trained", "--x", "tokens"], "--x tokens: expected a run that kept it with its attempts, got trained"),
        (["handbook", "--gate", "none.yaml"], "none.yaml: expected a readable file"),
    ],
)
def test_words_that_cannot_be_meant_are_refused(folder: Path, words: list[str], message: str) -> None:
    ended = report(folder, "report", *words)
    assert ended.code == 2
    assert ended.message[0].startswith(f"error: {message}")


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "..", "runs/../../x", "\x1b[2Jx", "x'; drop table runs; --"])
def test_a_name_of_a_run_leads_nowhere_else(folder: Path, name: str) -> None:
    ended = report(folder, "report", name)
    assert ended.code == 7
    assert not CONTROL.search(ended.err)
    assert report(folder, "report", "handbook").code == 0


@pytest.mark.parametrize("name", ["../../out", "/tmp/out", "..", "a\\b", "a\nb", ""])
def test_a_journal_whose_run_is_not_the_name_of_a_folder_is_refused(tmp_path: Path, name: str) -> None:
    write_journal(tmp_path / "runs" / "r", [renamed(record, name) for record in ended_run("r")])
    ended = report(tmp_path, "store", "rebuild")
    assert ended.code == 7
    assert "expected the name of a folder as the run's name" in ended.message[0]


def test_a_link_out_of_the_folder_of_runs_is_refused(tmp_path: Path) -> None:
    outside = write_journal(tmp_path / "elsewhere" / "r", ended_run("r"))
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "r").symlink_to(outside)
    ended = report(tmp_path, "store", "rebuild")
    assert ended.code == 7
    assert ended.message[0] == "error: runs/r: expected a folder inside runs, got a link out of it"
