"""What a probe prints: every check of one server, checks beside servers for a few, a line each for many; and JSON."""

from __future__ import annotations

import json

import pytest

from agentgym_cli.cli.show_probe import show_probe
from agentgym_cli.errors import EnvError, StoreError
from tests.cli.probes import BAD, GOOD, RUNG, check, report


def test_one_server_is_shown_with_every_detail(capsys):
    show_probe(report(GOOD), as_json=False)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "http://host:1 (textcraft, full)",
        "check result detail",
        "health pass fine",
        "step pass fine",
        "done_latching known deviation done false (the client latches)",
    ]


def test_measurements_under_load_are_a_table_of_their_own(capsys):
    show_probe(report((check("capacity", rungs=(RUNG,)),)), as_json=False)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[-3:] == ["capacity, in milliseconds", "sessions calls failed p50 p95 p99", "2 8 2 (25.0%) 1.2 2.5 n/a"]


def test_a_few_servers_are_columns_and_what_was_found_is_said_below(capsys):
    with pytest.raises(EnvError, match=r"probe of http://host:2: step: expected text") as caught:
        show_probe(report(GOOD, BAD, GOOD), as_json=False)
    assert caught.value.exit_code == 4
    out = capsys.readouterr().out
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines == [
        "3 servers (textcraft, full)",
        "check 1 2 3",
        "health pass pass pass",
        "step pass FAIL pass",
        "done_latching known n/a known",
        "1 http://host:1",
        "2 http://host:2",
        "3 http://host:3",
        "fail: step at server 2: expected text, got <script>&\"']]>[bold]red[/bold]",
        "known deviation: done_latching at servers 1, 3: done false (the client latches)",
    ]
    assert all(character.isprintable() or character == "\n" for character in out)


def test_a_table_of_eight_servers_fits_80_columns(capsys):
    long = (check("reset_determinism_concurrent", "known deviation", "x"), check("step"))
    show_probe(report(*[long] * 8), as_json=False)
    table = capsys.readouterr().out.splitlines()[:4]
    assert max(map(len, table)) <= 80
    assert table[2].split() == ["reset_determinism_concurrent", *["known"] * 8]


def test_many_servers_are_a_line_each(capsys):
    with pytest.raises(EnvError):
        show_probe(report(*[GOOD] * 9, BAD, *[GOOD] * 3), as_json=False)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[1:3] == ["server pass FAIL known n/a", "1 http://host:1 2 0 1 0"]
    assert lines[11] == "10 http://host:10 1 1 0 1"
    assert lines[-1] == "known deviation: done_latching at servers 1-9, 11-13: done false (the client latches)"


def test_json_has_every_check_with_its_measurements(capsys):
    show_probe(report((check("capacity", rungs=(RUNG,)),)), as_json=True)
    assert json.loads(capsys.readouterr().out) == {
        "dialect": "textcraft",
        "level": "full",
        "ok": True,
        "servers": [
            {
                "url": "http://host:1",
                "checks": [
                    {
                        "name": "capacity",
                        "result": "pass",
                        "detail": "fine",
                        "seconds": 0.25,
                        "rungs": [{"sessions": 2, "calls": 8, "failed": 2, "p50_ms": 1.25, "p95_ms": 2.5, "p99_ms": None}],
                    }
                ],
            }
        ],
    }


def test_files_are_written_before_the_failure_is_told(tmp_path, capsys):
    with pytest.raises(EnvError):
        show_probe(report(BAD), as_json=True, output=tmp_path / "probe.json", junit=tmp_path / "probe.xml")
    assert json.loads((tmp_path / "probe.json").read_text()) == json.loads(capsys.readouterr().out)
    assert (tmp_path / "probe.xml").read_text().startswith("<testsuites ")


def test_a_file_that_cannot_be_written_is_an_error_of_the_store(tmp_path, capsys):
    with pytest.raises(StoreError, match="expected to write the result of the probe"):
        show_probe(report(GOOD), as_json=True, junit=tmp_path / "no" / "such.xml")
