"""The door: what becomes of a signal at any moment."""

from __future__ import annotations

import sys

import pytest

from agentgym_cli.cli.main import _run
from agentgym_cli.errors import Interrupted


class Stopped:
    """A module that a signal comes upon while it is read."""

    def __getattr__(self, name: str) -> object:
        raise Interrupted("stopped by SIGINT", "nothing was running that could be resumed")


def test_a_signal_while_the_command_tree_is_still_read_ends_in_two_lines_and_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "agentgym_cli.cli.commands", Stopped())
    assert _run(["report", "r1"]) == 130
    assert capsys.readouterr().err == "error: stopped by SIGINT\nhint: nothing was running that could be resumed\n"


def test_an_empty_address_of_a_cluster_is_refused_where_none_would_start_a_ray(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["train", "textcraft_grpo.yaml", "profile=gpu", "--show", "--ray-address", ""]) == 2
    assert "cluster.ray_address: expected null or text that is not empty, got ''" in capsys.readouterr().err
