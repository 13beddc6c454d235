"""Serves a shipped world from child processes for as long as somebody needs it. Knows no world by name."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import IO
from urllib.parse import urlsplit

from agentgym_cli.errors import EnvError

START_SECONDS = 30.0
GRACE_SECONDS = 5.0
_TAIL_LINES = 12
_LONGEST_LINE = 400
_LAST_WORDS_SECONDS = 0.2
"""For the last lines of a process that has ended; a child of its own may keep the pipe open for ever."""

Again = Callable[[int], Sequence[str]]
"""The command that serves on a port."""


@asynccontextmanager
async def launch(
    world: str, args: Sequence[str] = (), *, replicas: int = 1, oracle: bool = False, start_seconds: float = START_SECONDS
) -> AsyncIterator[tuple[str, ...]]:
    """Base URLs of ``replicas`` servers of a world on free loopback ports; they end with the block, and with this process.

    Args:
        args: further arguments of the server, e.g. ``--book laptop``.
        oracle: serve the route that tells the actions which solve a task.
        start_seconds: deadline for all of them to say where they listen.

    Raises:
        EnvError: a server ended, or said nothing in time; holds the last lines it wrote.
    """
    async with fleet(world, args, replicas=replicas, oracle=oracle, start_seconds=start_seconds) as servers:
        yield servers.urls


@asynccontextmanager
async def fleet(
    world: str, args: Sequence[str] = (), *, replicas: int = 1, oracle: bool = False, start_seconds: float = START_SECONDS
) -> AsyncIterator[Fleet]:
    """As ``launch``, with the servers themselves: one that ends can be started again where it was."""

    def command(port: int) -> list[str]:
        options = ["--port", str(port), "--exit-with-parent", *args, *(["--oracle"] if oracle else [])]
        return [sys.executable, "-m", "agentgym_envs", world, *options]

    async with _running([command(0)] * replicas, f"server of world {world}", start_seconds, command) as servers:
        yield servers


@asynccontextmanager
async def serving(commands: Sequence[Sequence[str]], *, name: str, start_seconds: float = START_SECONDS) -> AsyncIterator[tuple[str, ...]]:
    """Run commands that print ``{"url": ...}`` as their first line and serve until they are told to end; as ``launch``."""
    async with _running(commands, name, start_seconds, None) as servers:
        yield servers.urls


@asynccontextmanager
async def _running(commands: Sequence[Sequence[str]], name: str, start_seconds: float, again: Again | None) -> AsyncIterator[Fleet]:
    servers: list[_Server] = []
    try:
        servers.extend(_Server(command, name) for command in commands)
        deadline = time.monotonic() + start_seconds
        urls = tuple([await server.url(deadline) for server in servers])
        yield Fleet(urls, servers, again=again, start_seconds=start_seconds)
    finally:
        # Blocks the loop on purpose: a second cancellation must not leave a server behind.
        _stop(servers)


class Fleet:
    """Servers in child processes that have said where they listen."""

    def __init__(self, urls: tuple[str, ...], servers: list[_Server], *, again: Again | None, start_seconds: float) -> None:
        """``servers`` stays the caller's, who ends whatever stands in it; ``again`` makes the command for a port, None where none can be chosen."""
        self.urls = urls
        self._servers = servers
        self._again = again
        self._start_seconds = start_seconds

    def ended(self, place: int) -> str | None:
        """How the server at that place of ``urls`` ended, in words, with the last line it wrote; None while it runs."""
        return self._servers[place].ended()

    def pid(self, place: int) -> int:
        """The process that serves there."""
        return self._servers[place].process.pid

    async def restart(self, place: int) -> None:
        """Start a server that has ended on its old port. Raises EnvError when the new one ends or says nothing in time; it is ended then."""
        assert self._again is not None, "a fleet whose ports can be chosen"
        port = urlsplit(self.urls[place]).port
        assert port is not None, "our servers say their port"
        old = self._servers[place]
        self._servers[place] = server = _Server(self._again(port), old.name)
        await asyncio.to_thread(old.finished)
        try:
            await server.url(time.monotonic() + self._start_seconds)
        except EnvError:
            server.process.kill()
            raise


class _Server:
    """One child process. Its output is always drained, so that it never waits for us."""

    def __init__(self, command: Sequence[str], name: str) -> None:
        self.name = name
        self._announced: Future[str] = Future()
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        # A session of its own keeps a Ctrl-C in the terminal from reaching the server before its clients are done with it.
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, encoding="utf-8", errors="replace"
        )
        assert self.process.stdout is not None and self.process.stderr is not None
        self._readers = [
            threading.Thread(target=self._read_output, args=(self.process.stdout,), daemon=True),
            threading.Thread(target=self._read_errors, args=(self.process.stderr,), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    async def url(self, deadline: float) -> str:
        """Where it listens, once it has said so; ``deadline`` is on the monotonic clock."""
        waiting = asyncio.shield(asyncio.wrap_future(self._announced))
        try:
            line = await asyncio.wait_for(waiting, max(0.0, deadline - time.monotonic()))
        except TimeoutError as err:
            raise self._failure("nothing in time") from err
        try:
            url = json.loads(line)["url"]
        except (ValueError, TypeError, KeyError) as err:
            got = await asyncio.to_thread(self._ended) if line == "" else repr(line)
            raise self._failure(got) from err
        return str(url)

    def ended(self) -> str | None:
        """How it ended, in words; None while it runs."""
        status = self.process.poll()
        if status is None:
            return None
        self._readers[1].join(_LAST_WORDS_SECONDS)
        how = f"by {_signal(-status)}" if status < 0 else f"with status {status}"
        return f"{how}: {self._tail[-1]}" if self._tail else how

    def finished(self) -> None:
        """Release what the ended process leaves. A pipe that a grandchild still holds is left to its reader."""
        for reader in self._readers:
            reader.join(GRACE_SECONDS)
        if not any(reader.is_alive() for reader in self._readers):
            for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
                assert pipe is not None
                pipe.close()

    def _ended(self) -> str:
        self.process.wait(GRACE_SECONDS)
        self._readers[1].join(GRACE_SECONDS)
        return f"an end with status {self.process.returncode}"

    def _failure(self, got: str) -> EnvError:
        tail = "".join(f"\n  {line}" for line in self._tail)
        return EnvError(f"{self.name}: expected a line with its url, got {got}{tail}", hint="agentgym serve --help")

    def _read_output(self, pipe: IO[str]) -> None:
        self._announced.set_result(pipe.readline(_LONGEST_LINE))
        _drain(pipe)

    def _read_errors(self, pipe: IO[str]) -> None:
        for line in _lines(pipe):
            self._tail.append("".join(character if character.isprintable() else "?" for character in line.rstrip()))


def _signal(number: int) -> str:
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"


def _lines(pipe: IO[str]) -> Iterable[str]:
    return iter(lambda: pipe.readline(_LONGEST_LINE), "")


def _drain(pipe: IO[str]) -> None:
    for _ in _lines(pipe):
        pass


def _stop(servers: Sequence[_Server]) -> None:
    """Ask all to end, then end those that have not within the grace."""
    for server in servers:
        server.process.terminate()
    deadline = time.monotonic() + GRACE_SECONDS
    for server in servers:
        try:
            server.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            server.process.kill()
            server.process.wait()
        server.finished()
