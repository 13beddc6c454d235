"""``serve --list``, and worlds that cannot run here."""

from __future__ import annotations

import argparse
import json

import pytest

from agentgym_envs import offers
from agentgym_envs.offers import WORLDS, Offered, listing
from agentgym_envs.protocol import World
from agentgym_envs.serve import serve


def never_built(_: argparse.Namespace) -> World:
    raise AssertionError("built although it cannot run")


LACKING = Offered(
    help="play chess",
    needs="A board, which the extra envs-chess brings.",
    ready=lambda: "expected the package board, got none: pip install 'agentgym-cli[envs-chess]'",
    add_options=lambda _: None,
    build=never_built,
)


def test_the_list_says_what_each_world_needs_and_whether_it_runs_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offers, "WORLDS", {"go": WORLDS["textcraft"], "chess": LACKING})
    assert listing(as_json=False).splitlines() == [
        "go     runs here: make an item from what can be found",
        "       needs: Nothing beside the core.",
        "chess  cannot run here: play chess",
        "       needs: A board, which the extra envs-chess brings.",
        "       why: expected the package board, got none: pip install",
        "         'agentgym-cli[envs-chess]'",
    ]


def test_the_list_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offers, "WORLDS", {"chess": LACKING})
    (row,) = json.loads(listing(as_json=True))
    assert row == {"world": "chess", "about": "play chess", "needs": LACKING.needs, "runs_here": False, "why_not": LACKING.ready()}


def test_serve_list_prints_every_shipped_world(capfd: pytest.CaptureFixture[str]) -> None:
    assert serve(["--list", "--json"]) == 0
    rows = {row["world"]: row["runs_here"] for row in json.loads(capfd.readouterr().out)}
    assert set(rows) == set(WORLDS)
    assert rows["textcraft"] and rows["package_prep"]
    assert serve(["--list"]) == 0
    assert all(len(line) <= 80 for line in capfd.readouterr().out.splitlines())


def test_a_world_that_cannot_run_here_is_refused_in_two_lines_with_exit_code_4(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(WORLDS, "chess", LACKING)
    assert serve(["chess", "--port", "0"]) == 4
    assert capfd.readouterr().err == f"error: chess: {LACKING.ready()}\nhint: agentgym serve --list\n"
