"""Every form of a report shows the same numbers, is readable through a pipe, and is harmless."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from agentgym_cli.report.jsonout import to_json
from agentgym_cli.report.markdown import render
from agentgym_cli.report.model import Report
from agentgym_cli.store.db import Connection
from agentgym_cli.store.records import ProbeRecord, Record
from tests.report.runs import printed, report_of, trained_run
from tests.store.builders import make_metric, make_run, make_scheduled, make_segment, settled

pytestmark = pytest.mark.slow

HOSTILE = "\x1b[2J\x1b]0;pwn\x07<b>|`*[x](y)\n# h\u202e\x9b1m[red]"


def hostile_run() -> list[Record]:
    """Foreign text wherever a record has room for it."""
    scheduled = make_scheduled(0, split=f"s{HOSTILE}", category=f"c{HOSTILE}")
    other = make_scheduled(1, split=f"s{HOSTILE}", category=f"d{HOSTILE}")
    probe = ProbeRecord(run="r1", segment=1, url=f"u{HOSTILE}", name=f"n{HOSTILE}", result="fail", detail=f"d{HOSTILE}", seconds=0.1)
    start = make_run(name=f"n{HOSTILE}", profile_reason=f"p{HOSTILE}", env=f"e{HOSTILE}", policy=f"o{HOSTILE}", digest=HOSTILE)
    return [
        start,
        make_segment(drift=(f"another model: f{HOSTILE}",)),
        make_segment(ended=HOSTILE, status="failed", drift=(f"another model: f{HOSTILE}",)),
        probe,
        *settled(scheduled, "infra_error", detail=f"m{HOSTILE}"),
        *settled(other, "success"),
        make_metric(f"x{HOSTILE}", 1.0),
        make_metric("success", 1.0),
    ]


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
@pytest.mark.parametrize("width", [80, 200])
def test_a_piped_report_fits_its_lines_and_its_encoding(trained: Report, encoding: str, width: int) -> None:
    text = printed(trained, encoding, width)
    assert max(map(len, text.splitlines())) <= min(width, 100)
    assert "\x1b" not in text
    assert "|horizon 6" in text


def test_a_terminal_that_knows_no_blocks_gets_the_curve_in_ascii(trained: Report) -> None:
    assert "█" in printed(trained)
    assert re.search(r"\.{5,}", printed(trained, "ascii"))
    assert "#####" in printed(trained, "ascii")


def test_ages_of_weights_are_shown_where_any_were_not_the_newest(store: Connection, tmp_path: Path) -> None:
    ages = [
        make_metric(name, value, step) for step in (1, 2) for name, value in (("policy_age_max", step - 1.0), ("policy_age_mean", 0.25 * (step - 1)))
    ]
    text = printed(report_of(store, tmp_path / "r1", [*trained_run(), *ages]))
    assert re.search(r"train policy_age_max +mean 0\.5, most 1 *\n", text) and re.search(r"train policy_age_mean +mean 0\.125, most 0\.25 *\n", text)


def test_ages_of_weights_that_always_were_the_newest_are_no_line(store: Connection, tmp_path: Path) -> None:
    ages = [make_metric("policy_age_max", 0.0, 1), make_metric("policy_age_mean", 0.0, 1)]
    assert "policy_age" not in printed(report_of(store, tmp_path / "r1", [*trained_run(), *ages]))


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_promise_11_foreign_text_controls_no_terminal(store: Connection, tmp_path: Path, encoding: str) -> None:
    text = printed(report_of(store, tmp_path / "r1", hostile_run()), encoding)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    assert "pwn" not in text
    assert "[red]" in text


def test_promise_11_foreign_text_is_no_markdown_and_no_html(store: Connection, tmp_path: Path) -> None:
    text = render(report_of(store, tmp_path / "r1", hostile_run()))
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)
    # A backtick behind a backslash opens no code.
    prose = re.sub(r"(?<!\\)`[^`]*`", "", text)
    assert "<b>" not in prose
    assert not re.search(r"(?<!\\)\[x(?<!\\)\]\(y\)", prose)
    assert [line for line in text.splitlines() if line.startswith("# ")] == [text.splitlines()[0]]


@pytest.mark.parametrize("records", [trained_run(), hostile_run()], ids=["trained", "hostile"])
def test_tables_of_markdown_have_the_same_number_of_cells_in_every_row(store: Connection, tmp_path: Path, records: list[Record]) -> None:
    tables = re.findall(r"(?:^\|.*\n)+", render(report_of(store, tmp_path / "r1", records)), re.MULTILINE)
    assert len(tables) > 3
    for table in tables:
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}) == 1


def test_json_keeps_every_value_sorted(trained: Report) -> None:
    text = to_json(trained)
    read = json.loads(text)
    assert list(read) == sorted(read)
    assert read["schema"] == 2
    assert read["learning"]["stages"][0] == {"first_step": 1, "horizon": 6, "last_step": 2}
    assert text == json.dumps(read, sort_keys=True, ensure_ascii=False, indent=1)


def test_promise_04_no_form_shows_success_without_the_rest(trained: Report) -> None:
    lines = [" ".join(line.split()) for line in printed(trained).splitlines()]
    starts = ("end to end", "conditional", "infra", "worst to best")
    blocks = [index for index, line in enumerate(lines) if line.startswith("end to end")]
    assert len(blocks) == len(trained.parts) + len(trained.comparisons)
    for index in blocks:
        following = [line for line in lines[index : index + 9] if line.startswith(starts)]
        assert [next(start for start in starts if line.startswith(start)) for line in following[:4]] == list(starts)


def test_probes_that_did_not_pass_are_named(trained: Report) -> None:
    text = printed(trained)
    assert "1 pass, 1 known deviation" in text
    assert "known deviation: close_twice at http://127.0.0.1:1: false" in text
