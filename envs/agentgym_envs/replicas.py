"""Several servers of one world, each a process on a port of its own; they start together and end together."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress

_GRACE_SECONDS = 20.0


def serve_replicas(args: Sequence[str], *, count: int, port: int, exit_with_parent: bool) -> int:
    """Run ``count`` servers with ``args`` on consecutive ports (on free ones where ``port`` is 0) until a signal; the exit code.

    Each announces itself on standard output. When one ends by itself, that is said, the others are ended and its exit code is returned: 1 in place
    of 0, and 128 and the signal's number where a signal ended it.
    """
    return asyncio.run(_serve([[*args, "--replicas", "1", "--port", str(port and port + place)] for place in range(count)], exit_with_parent))


async def _serve(commands: Sequence[Sequence[str]], exit_with_parent: bool) -> int:
    loop = asyncio.get_running_loop()
    stopped: asyncio.Future[int] = loop.create_future()
    for number, code in ((signal.SIGINT, 128 + signal.SIGINT), (signal.SIGTERM, 0)):
        loop.add_signal_handler(number, _stop, stopped, code)
    if exit_with_parent:
        threading.Thread(target=_wait_for_parent, args=(loop, stopped), daemon=True).start()
    servers: list[asyncio.subprocess.Process] = []
    try:
        for command in commands:
            servers.append(await _started(command))
        ends = [asyncio.ensure_future(server.wait()) for server in servers]
        await asyncio.wait([*ends, stopped], return_when=asyncio.FIRST_COMPLETED)
        return stopped.result() if stopped.done() else _ended(*next((place, end.result()) for place, end in enumerate(ends) if end.done()))
    finally:
        await _end(servers)


def _ended(place: int, code: int) -> int:
    """Say which replica ended and how; the exit code."""
    how = f"with exit code {code}" if code >= 0 else f"by {signal.Signals(-code).name}"
    hint = "start them again; --log-level info says what happened"
    sys.stderr.write(f"error: replica {place + 1} ended {how}; the others are ended too\nhint: {hint}\n")
    return code or 1 if code >= 0 else 128 - code


async def _started(command: Sequence[str]) -> asyncio.subprocess.Process:
    """A server that also ends when this process does, whatever ends it, and that a Ctrl-C in the terminal reaches through us alone."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "agentgym_envs", *command, "--exit-with-parent", stdin=asyncio.subprocess.PIPE, start_new_session=True
    )


def _wait_for_parent(loop: asyncio.AbstractEventLoop, stopped: asyncio.Future[int]) -> None:
    """Read standard input to its end, which comes when whoever held the other side has gone."""
    with suppress(OSError):
        while os.read(0, 4096):
            pass
    with suppress(RuntimeError):
        # The loop may have ended meanwhile.
        loop.call_soon_threadsafe(_stop, stopped, 0)


def _stop(stopped: asyncio.Future[int], code: int) -> None:
    if not stopped.done():
        stopped.set_result(code)


async def _end(servers: Sequence[asyncio.subprocess.Process]) -> None:
    """Ask all to end, then end those that have not within the grace."""
    running = [server for server in servers if server.returncode is None]
    for server in running:
        server.terminate()
    waits = [asyncio.ensure_future(server.wait()) for server in running]
    if waits:
        await asyncio.wait(waits, timeout=_GRACE_SECONDS)
    for server in running:
        if server.returncode is None:
            server.kill()
            await server.wait()
