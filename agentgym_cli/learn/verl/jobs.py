"""Ray Jobs: a command that a cluster runs with this program's files, followed and stopped from elsewhere. Knows no recipe."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from agentgym_cli.errors import TrainerError

LOOK_SECONDS = 1.0
NO_AGENT = "No available agent"
AGENT_TRIES = 15
AGENT_SECONDS = 2.0
STOP_SECONDS = 60
"""For which Ray lets a command that is stopped end what it started; 3 by itself."""
VARIABLES = {"PYTHONUNBUFFERED": "1", "RAY_JOB_STOP_WAIT_TIME_S": str(STOP_SECONDS)}
OVER = ("SUCCEEDED", "FAILED", "STOPPED")


class Details(Protocol):
    """What a server says of a job."""

    status: Any
    """A text: ``PENDING``, ``RUNNING``, or one of ``OVER``."""
    message: str | None
    driver_exit_code: int | None


class JobServer(Protocol):
    """What is used of ``ray.job_submission.JobSubmissionClient``."""

    def submit_job(self, *, entrypoint: str, runtime_env: dict[str, Any], metadata: dict[str, str]) -> str:
        """Have a command run; the job's name."""

    def tail_job_logs(self, job_id: str) -> AsyncIterator[str]:
        """What it says, until it is over."""

    def get_job_info(self, job_id: str) -> Details:
        """How far it is."""

    def stop_job(self, job_id: str) -> bool:
        """Ask it to end."""


def connect(address: str) -> JobServer:
    """The job server at ``http://HOST:PORT``. Raises TrainerError."""
    from ray.job_submission import JobSubmissionClient

    try:
        client: JobServer = JobSubmissionClient(address)
    except (OSError, RuntimeError, ValueError) as err:
        raise TrainerError(
            f"--ray-job: expected Ray's job server at {address}, got {type(err).__name__}: {str(err)[:300]}",
            "ray start --head --dashboard-host=0.0.0.0 serves one at port 8265; RAY_AUTH_MODE=token where the cluster asks for its token",
        ) from err
    return client


def submit(server: JobServer, entrypoint: str, *, program: Path, metadata: Mapping[str, str]) -> str:
    """Send ``program``, a folder that becomes the command's own, and the command. Raises TrainerError."""
    environment = {"working_dir": str(program), "env_vars": dict(VARIABLES)}
    for left in reversed(range(AGENT_TRIES)):
        try:
            return server.submit_job(entrypoint=entrypoint, runtime_env=environment, metadata=dict(metadata))
        except (OSError, RuntimeError, ValueError) as err:
            # A cluster that has just started says so until its first machine's agent is up.
            if left == 0 or NO_AGENT not in str(err):
                raise TrainerError(f"--ray-job: expected the job server to take the run, got {type(err).__name__}: {str(err)[:300]}") from err
        time.sleep(AGENT_SECONDS)
    raise AssertionError("the last try returns or raises")


async def follow(server: JobServer, job: str, *, write: Callable[[str], None]) -> int:
    """Pass on what a job says until it is over, and return the exit status of its command. Who is cancelled stops the job.

    Raises:
        TrainerError: the server was lost, or has no status of the command; the job may go on.
    """
    try:
        async for text in server.tail_job_logs(job):
            write(text)
        return _status(job, await _over(server, job))
    except asyncio.CancelledError:
        server.stop_job(job)
        await asyncio.wait_for(_over(server, job), timeout=2 * STOP_SECONDS)
        raise
    except (OSError, RuntimeError) as err:
        raise TrainerError(
            f"--ray-job: expected to follow {job} to its end, got {type(err).__name__}: {str(err)[:300]}; it may go on",
            f"ray job logs --follow {job}",
        ) from err


async def _over(server: JobServer, job: str) -> Details:
    while True:
        found = server.get_job_info(job)
        if found.status in OVER:
            return found
        await asyncio.sleep(LOOK_SECONDS)


def _status(job: str, found: Details) -> int:
    if found.status == "SUCCEEDED":
        return 0
    if not found.driver_exit_code or found.driver_exit_code < 0:
        raise TrainerError(f"--ray-job: expected {job} to end by itself, got {found.status}: {str(found.message)[:500]}", f"ray job logs {job}")
    return found.driver_exit_code
