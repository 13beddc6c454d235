"""A new run has a folder of its own whoever starts beside it, and its frozen run in it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym_cli.errors import StoreError
from agentgym_cli.recipe.frozen_file import read_frozen
from agentgym_cli.verbs.folders import FROZEN_FILE
from agentgym_cli.verbs.home import claim_folder, keep_observed
from agentgym_cli.verbs.progress import Silent
from tests.verbs.frozen_runs import prepared, toy


def test_two_starts_of_one_second_get_folders_of_their_own(tmp_path: Path) -> None:
    wanted = prepared(toy(tmp_path))
    first, second, third = (claim_folder(wanted, Silent()) for _ in range(3))
    assert first.folder == wanted.folder
    assert second.folder == wanted.folder.with_name(f"{wanted.name}-2")
    assert third.name == third.folder.name == f"{wanted.name}-3"
    assert {read_frozen(run.folder / FROZEN_FILE).digest for run in (first, second, third)} == {wanted.frozen.digest}


@pytest.mark.slow
def test_many_starts_at_once_share_no_folder(tmp_path: Path) -> None:
    wanted = prepared(toy(tmp_path))
    with ThreadPoolExecutor(8) as pool:
        claimed = list(pool.map(lambda _: claim_folder(wanted, Silent()).folder, range(24)))
    assert len(set(claimed)) == 24
    assert all((folder / FROZEN_FILE).is_file() for folder in claimed)


def test_a_resumed_run_keeps_its_folder(tmp_path: Path) -> None:
    run = claim_folder(prepared(toy(tmp_path)), Silent())
    again = replace(run, resumed=True)
    assert claim_folder(again, Silent()) == again
    assert [folder.name for folder in (tmp_path / "runs").iterdir()] == [run.name]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    wanted = prepared(toy(tmp_path))
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(StoreError, match="expected to make the run's folder, got: ") as caught:
        claim_folder(wanted, Silent())
    assert caught.value.hint == "choose another place: --runs-dir DIR"


def test_what_servers_say_is_kept_in_the_frozen_run_and_changes_no_digest(tmp_path: Path) -> None:
    run = claim_folder(prepared(toy(tmp_path)), Silent())
    keep_observed(run, {"env.world": "served by this program: textcraft"})
    kept = read_frozen(run.folder / FROZEN_FILE)
    assert (kept.digest, kept.observed) == (run.frozen.digest, {"env.world": "served by this program: textcraft"})


@pytest.mark.slow
def test_a_new_run_of_a_frozen_run_does_not_inherit_what_was_observed_elsewhere(tmp_path: Path) -> None:
    run = claim_folder(prepared(toy(tmp_path)), Silent())
    keep_observed(run, {"http://127.0.0.1:1": "HTTP 200: hello"})
    again = claim_folder(prepared(run.folder / FROZEN_FILE), Silent())
    assert read_frozen(again.folder / FROZEN_FILE).observed == {}
