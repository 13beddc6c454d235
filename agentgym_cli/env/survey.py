"""First observations of many tasks, asked twice and digested. Opens sessions and closes every one; knows no list and no file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from agentgym_cli.env.contract import EnvClient, EnvFailure, EnvSession, InfraCause, content_digest
from agentgym_cli.env.dialect_schema import DialectSpec

_LONGEST_GOAL = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What pins a task."""

    digest: str
    """Of its first observation."""
    goal: str
    """What it asks for, on one line of at most 500 printable characters; '' where the dialect does not say how to find it."""


async def survey(
    env: EnvClient, spec: DialectSpec, tasks: Sequence[int], *, attempts: int, advance: Callable[[int], None] | None = None
) -> dict[int, Content]:
    """Content of each task, in two passes of opposite order with at most ``spec.probe_sessions`` sessions at once.

    A task that reads differently the second time is asked twice more while nobody else asks anything.

    Args:
        tasks: task numbers, each once.
        attempts: most tries at one task, each after the first in a new session.
        advance: told how many of the ``2 * len(tasks)`` answers are there.

    Raises:
        EnvFailure: a server failed at every attempt, or a task reads differently even when it is asked alone.
    """
    answers = 0

    def one_more() -> None:
        nonlocal answers
        answers += 1
        if advance is not None:
            advance(answers)

    first = await _pass(env, spec, tasks, sessions=spec.probe_sessions, attempts=attempts, told=one_more)
    second = await _pass(env, spec, tasks[::-1], sessions=spec.probe_sessions, attempts=attempts, told=one_more)
    unsure = [task for task in tasks if first[task] != second[task]]
    return first | await _alone(env, spec, unsure, attempts=attempts)


async def _alone(env: EnvClient, spec: DialectSpec, tasks: Sequence[int], *, attempts: int) -> dict[int, Content]:
    first, second = [await _pass(env, spec, tasks, sessions=1, attempts=attempts, told=lambda: None) for _ in range(2)]
    for task in tasks:
        if first[task] != second[task]:
            raise EnvFailure(
                InfraCause.PROTOCOL,
                f"task {task}: expected the same first observation whenever it is asked for, got digests {first[task].digest} and "
                f"{second[task].digest} while nobody else was asking: its content cannot be pinned",
                "agentgym probe RECIPE shows what differs; a recipe without a manifest does not pin content",
            )
    return first


async def _pass(
    env: EnvClient, spec: DialectSpec, tasks: Sequence[int], *, sessions: int, attempts: int, told: Callable[[], None]
) -> dict[int, Content]:
    found: dict[int, Content] = {}
    queue = iter(tasks)

    def keep(task: int, observation: str) -> None:
        found[task] = Content(digest=content_digest(observation), goal=_one_line(spec.goal_in(observation)))
        told()

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(sessions, len(tasks))):
                group.create_task(_worker(env, queue, keep, attempts))
    except BaseExceptionGroup as failures:
        known = [failure for failure in failures.exceptions if isinstance(failure, EnvFailure)]
        raise (known or failures.exceptions)[0] from failures
    return found


async def _worker(env: EnvClient, queue: Iterator[int], keep: Callable[[int, str], None], attempts: int) -> None:
    """Ask for tasks of the queue in one session, and in a new one after a failure."""
    session: EnvSession | None = None
    try:
        for task in queue:
            for attempt in range(1, attempts + 1):
                try:
                    session = session or await env.open()
                    keep(task, await session.reset(task))
                    break
                except EnvFailure:
                    failed, session = session, None
                    await _close(failed)
                    if attempt == attempts:
                        raise
    finally:
        await _close(session)


async def _close(session: EnvSession | None) -> None:
    """Close a session to the end, also when we are cancelled meanwhile."""
    if session is None:
        return
    closing = asyncio.ensure_future(session.close())
    try:
        await asyncio.shield(closing)
    except asyncio.CancelledError:
        await closing
        raise


def _one_line(goal: str) -> str:
    return "".join(character if character.isprintable() else " " for character in goal[:_LONGEST_GOAL]).strip()
