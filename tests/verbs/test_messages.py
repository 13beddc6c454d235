"""Failures that people meet: two lines, the second of which says what to do."""

from __future__ import annotations

import pytest

from agentgym_cli import errors
from agentgym_cli.cli import main
from agentgym_cli.env.endpoint import base_url
from agentgym_cli.store.loader import load_into
from agentgym_cli.store.opening import open_for_writing
from agentgym_cli.store.queries import find_run
from tests.store.builders import make_run, make_segment, write_journal


@pytest.mark.parametrize("words", [["freeze", "recipes"], ["freeze", "recipes/textcraft_grpo.yaml", "seed=-1"], ["report", "x", "--format", "odd"]])
def test_every_failure_has_a_message_and_a_hint(words, capsys):
    assert main._run(words) in (2, 7)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("error: ")
    assert lines[-1].startswith("hint: ")


def test_every_kind_of_failure_has_something_to_say_where_it_has_no_hint_of_its_own():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.AgentgymError)]
    assert len(kinds) == 10
    assert all(kind.general_hint for kind in kinds)


@pytest.mark.parametrize("name", ["", "/", "."])
def test_no_name_means_no_run(tmp_path, name):
    with open_for_writing(tmp_path / "store.duckdb") as connection, pytest.raises(errors.StoreError, match="expected a run's name"):
        find_run(connection, name)


@pytest.mark.slow
def test_runs_that_are_not_named_are_counted(tmp_path):
    with open_for_writing(tmp_path / "store.duckdb") as connection:
        for number in range(10):
            load_into(connection, write_journal(tmp_path / f"run-{number}", [make_run(f"run-{number}"), make_segment(run=f"run-{number}")]))
        named = "run-2, run-3, run-4, run-5, run-6, run-7, run-8, run-9 and 2 older$"
        with pytest.raises(errors.StoreError, match=f"it has {named}"):
            find_run(connection, "x")
        with pytest.raises(errors.StoreError, match=f"expected one, got 10: {named}"):
            find_run(connection, "run")


@pytest.mark.parametrize("url", ["http://127.0.0.1:99999", "http://127.0.0.1:0"])
def test_a_port_that_cannot_be_is_refused_before_anything_is_probed(url):
    with pytest.raises(errors.RecipeError, match="environment URL"):
        base_url(url)
