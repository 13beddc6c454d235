"""A job is followed to its end, its exit status passed on, and stopped with who follows it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentgym_cli.errors import TrainerError
from agentgym_cli.learn.verl import jobs
from agentgym_cli.learn.verl.jobs import follow, submit


class Server:
    """A job server whose one job says two lines and ends as it is told to."""

    def __init__(self, *, status: str = "SUCCEEDED", code: int | None = 0, message: str = "", hangs: bool = False, lost: bool = False) -> None:
        self.end = SimpleNamespace(status=status, message=message, driver_exit_code=code)
        self.hangs, self.lost = hangs, lost
        self.looks = self.starting = 0
        self.asked_to_stop = asyncio.Event()
        self.stopped: list[str] = []
        self.submitted: dict[str, Any] = {}

    def submit_job(self, **words: Any) -> str:
        self.submitted = words
        if self.starting:
            self.starting -= 1
            raise RuntimeError("Request failed with status code 500: No available agent to submit job, please try again later..")
        if self.lost:
            raise RuntimeError("Request failed with status code 500")
        return "job_1"

    async def tail_job_logs(self, job_id: str) -> AsyncIterator[str]:
        yield "one\n"
        if self.lost:
            raise RuntimeError("WebSocket connection closed unexpectedly")
        if self.hangs:
            await self.asked_to_stop.wait()
        yield "two\n"

    def get_job_info(self, job_id: str) -> Any:
        # The log ends a little before the job.
        self.looks += 1
        return SimpleNamespace(status="RUNNING", message="", driver_exit_code=None) if self.looks == 1 else self.end

    def stop_job(self, job_id: str) -> bool:
        self.stopped.append(job_id)
        self.asked_to_stop.set()
        return True


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(jobs, "AGENT_SECONDS", 0.001)


@pytest.mark.parametrize(("status", "code", "exit_status"), [("SUCCEEDED", 0, 0), ("SUCCEEDED", None, 0), ("FAILED", 6, 6), ("FAILED", 9, 9)])
async def test_its_words_and_its_exit_status_are_passed_on(status: str, code: int | None, exit_status: int) -> None:
    said: list[str] = []
    assert await follow(Server(status=status, code=code), "job_1", write=said.append) == exit_status
    assert said == ["one\n", "two\n"]


@pytest.mark.parametrize(("status", "code"), [("STOPPED", None), ("FAILED", None), ("FAILED", -9)])
async def test_one_that_did_not_end_by_itself_has_the_servers_words(status: str, code: int | None) -> None:
    server = Server(status=status, code=code, message="worker node died")
    with pytest.raises(TrainerError, match=rf"expected job_1 to end by itself, got {status}: worker node died"):
        await follow(server, "job_1", write=lambda _: None)


async def test_who_is_cancelled_stops_the_job_and_waits_for_its_end() -> None:
    server = Server(status="STOPPED", code=None, hangs=True)
    following = asyncio.ensure_future(follow(server, "job_1", write=lambda _: None))
    await asyncio.sleep(0.03)
    following.cancel()
    with pytest.raises(asyncio.CancelledError):
        await following
    assert server.stopped == ["job_1"]
    assert server.looks >= 2


async def test_a_server_that_is_lost_is_no_end_of_the_job() -> None:
    with pytest.raises(TrainerError, match=r"expected to follow job_1 to its end, got RuntimeError: WebSocket .*; it may go on"):
        await follow(Server(lost=True), "job_1", write=lambda _: None)


def test_the_program_is_sent_with_the_command_and_time_to_end(tmp_path: Path) -> None:
    server = Server()
    assert submit(server, "python -m x", program=tmp_path, metadata={"agentgym": "run"}) == "job_1"
    environment = server.submitted["runtime_env"]
    assert (server.submitted["entrypoint"], environment["working_dir"]) == ("python -m x", str(tmp_path))
    # A launch has 20 s for those that it asks to end, and as many for those that it kills.
    assert float(environment["env_vars"]["RAY_JOB_STOP_WAIT_TIME_S"]) > 40
    with pytest.raises(TrainerError, match="expected the job server to take the run, got RuntimeError: Request failed"):
        submit(Server(lost=True), "python -m x", program=tmp_path, metadata={})


def test_a_cluster_that_has_just_started_is_asked_again_and_not_for_ever(tmp_path: Path) -> None:
    server = Server()
    server.starting = 3
    assert submit(server, "python -m x", program=tmp_path, metadata={}) == "job_1"
    server.starting = 100
    with pytest.raises(TrainerError, match="No available agent to submit job"):
        submit(server, "python -m x", program=tmp_path, metadata={})
    assert server.starting == 100 - jobs.AGENT_TRIES
