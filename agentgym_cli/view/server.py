"""Owns uvicorn here: a socket on loopback, a token for each start, a folder for copies of the store that is removed in the end."""

from __future__ import annotations

import logging
import secrets
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from agentgym_cli.errors import EnvError, Interrupted
from agentgym_cli.store.snapshot import Snapshots
from agentgym_cli.view.address import link
from agentgym_cli.view.app import Viewer
from agentgym_cli.view.connections import Connection
from agentgym_cli.view.frame import TokenReader
from agentgym_cli.view.requests import Gate

_HOST = "127.0.0.1"
_KEEP_ALIVE_SECONDS = 30
_GRACE_SECONDS = 2
_LONGEST_HEAD = 128 * 1024
"""Bytes of a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """A viewer that listens."""

    viewer: Viewer
    listening: socket.socket

    @property
    def root(self) -> str:
        """The address that everything is below, the token in it."""
        return f"http://{_HOST}:{self.viewer.gate.port}/{self.viewer.gate.token}"

    def address(self, run: str | None) -> str:
        """Where to begin: at a run, or at the list of them."""
        return link(self.root, "") if run is None else link(self.root, "run", {"run": run})

    def serve(self) -> None:
        """Answer until a signal."""
        config = uvicorn.Config(
            self.viewer,
            lifespan="off",
            log_config=None,
            log_level=logging.WARNING,
            access_log=False,
            server_header=False,
            ws="none",
            http=Connection,
            h11_max_incomplete_event_size=_LONGEST_HEAD,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
        server = uvicorn.Server(config)
        with _hanging_up(lambda: setattr(server, "should_exit", True)):
            server.run(sockets=[self.listening])


@contextmanager
def opened(database: Path, *, runs_dir: Path, port: int, tokens: TokenReader) -> Iterator[Open]:
    """Listen on loopback and copy the store for the first time; ``port`` 0 takes a free one.

    Raises:
        EnvError: the port cannot be had, or there is no place for a copy.
        StoreBusy, StoreError: the store cannot be read.
        Interrupted: the terminal was closed before the server began to serve.
    """
    with _hanging_up(_stop), _own_folder() as folder, _bound(port) as listening:
        snapshots = Snapshots(database, folder)
        try:
            with snapshots.reading():
                pass
            gate = Gate(token=secrets.token_urlsafe(24), port=listening.getsockname()[1])
            yield Open(viewer=Viewer(snapshots, gate, runs_dir, tokens), listening=listening)
        finally:
            snapshots.close()


@contextmanager
def _own_folder() -> Iterator[Path]:
    """A folder that nobody else can read, gone in the end."""
    try:
        made = tempfile.TemporaryDirectory(prefix="agentgym-view-")
    except OSError as err:
        raise EnvError(f"a copy of the store: expected a place for temporary files, got: {err.strerror or err}", "name one: TMPDIR=FOLDER") from err
    with made as folder:
        yield Path(folder)


@contextmanager
def _bound(port: int) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((_HOST, port))
        except OSError as err:
            raise EnvError(f"--port {port}: expected a free port on {_HOST}, got: {err.strerror or err}", "leave --port out for a free one") from err
        listening.listen()
        yield listening


@contextmanager
def _hanging_up(act: Callable[[], None]) -> Iterator[None]:
    """Have a terminal that closes do ``act`` instead of killing, unless whoever started this had that signal ignored (nohup)."""
    before = signal.getsignal(signal.SIGHUP)
    if before is signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGHUP, lambda number, frame: act())
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def _stop() -> None:
    raise Interrupted("stopped by SIGHUP", "nothing was running that could be resumed")
