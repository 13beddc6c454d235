"""The servers of a run: some that are not there, and ours that end in the middle."""

from __future__ import annotations

import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agentgym_cli.env.dialect import load_dialect
from agentgym_cli.env.launch import launch
from agentgym_cli.errors import EnvError
from agentgym_cli.recipe.schema.world import BudgetsSpec, EnvSpec, RetrySpec
from agentgym_cli.store.journal import read_journal
from agentgym_cli.store.records import ProbeRecord, Record, ServerRecord
from agentgym_cli.verbs.progress import Silent
from agentgym_cli.verbs.recorder import Recorder
from agentgym_cli.verbs.world import World, open_world

pytestmark = pytest.mark.e2e

LAPTOP = ("--book", "laptop")


def dead_url() -> str:
    """Where nobody listens."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{listening.getsockname()[1]}"


@asynccontextmanager
async def opened(env: EnvSpec, folder: Path, progress: Silent) -> AsyncIterator[World]:
    recorder = Recorder(folder=folder, run="r", segment=1, database=folder / "store.duckdb", keep_tokens="none", progress=progress)
    try:
        budgets = BudgetsSpec(env_call_seconds=5.0)
        async with open_world(
            env, load_dialect("textcraft"), budgets, RetrySpec(), [], slots=4, oracle=False, recorder=recorder, progress=progress
        ) as world:
            yield world
    finally:
        recorder.close()


def servers(records: list[Record]) -> list[ServerRecord]:
    return [record for record in records if isinstance(record, ServerRecord)]


async def test_a_run_starts_on_the_replicas_that_are_there_and_says_and_stores_which_are_not(tmp_path: Path) -> None:
    dead, progress = dead_url(), Silent()
    async with (
        launch("textcraft", LAPTOP) as [url],
        opened(EnvSpec(dialect="textcraft", urls=(dead, url)), tmp_path, progress) as world,
    ):
        sessions = [await world.client.open() for _ in range(3)]
        assert {session.replica for session in sessions} == {url}
        for session in sessions:
            await session.close()
    [warning] = progress.warnings
    assert warning.startswith(f"{dead} does not answer and gets no new episode until it does: GET {dead}/: ")
    records = list(read_journal(tmp_path))
    assert [(r.url, r.event, r.cause) for r in servers(records)] == [(dead, "opened", "connect")]
    assert [(r.name, r.result) for r in records if isinstance(r, ProbeRecord) and r.url == dead] == [("health", "fail")]


async def test_a_run_of_which_no_replica_is_there_is_refused(tmp_path: Path) -> None:
    urls = (dead_url(), dead_url())
    with pytest.raises(EnvError, match=re.escape(f"probe of {urls[0]}: health: connect: ") + r".*\(and \d+ more failed checks?\)"):
        async with opened(EnvSpec(dialect="textcraft", urls=urls), tmp_path, Silent()):
            pass


async def test_a_replica_that_answers_and_breaks_the_contract_refuses_the_run(tmp_path: Path) -> None:
    async with launch("textcraft", LAPTOP) as [good], launch("package_prep") as [other]:
        with pytest.raises(EnvError, match=f"probe of {other}: identity"):
            async with opened(EnvSpec(dialect="textcraft", urls=(good, other)), tmp_path, Silent()):
                pass
