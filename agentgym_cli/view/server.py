"""Owns uvicorn here: a socket on loopback, a token for each start, a folder for copies of the store that is removed in the end."""

from __future__ import annotations

import logging
import secrets
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from agentgym_cli.errors import EnvError
from agentgym_cli.store.snapshot import Snapshots
from agentgym_cli.view.address import link
from agentgym_cli.view.app import Viewer
from agentgym_cli.view.frame import TokenReader
from agentgym_cli.view.requests import Gate

_HOST = "127.0.0.1"
_KEEP_ALIVE_SECONDS = 30
_GRACE_SECONDS = 2
_MOST_CONNECTIONS = 64


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
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
        uvicorn.Server(config).run(sockets=[self.listening])


@contextmanager
def opened(database: Path, *, runs_dir: Path, port: int, tokens: TokenReader) -> Iterator[Open]:
    """Listen on loopback and copy the store for the first time; ``port`` 0 takes a free one.

    Raises:
        EnvError: the port cannot be had.
        StoreBusy, StoreError: the store cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="agentgym-view-") as folder, _bound(port) as listening:
        snapshots = Snapshots(database, Path(folder))
        try:
            with snapshots.reading():
                pass
            gate = Gate(token=secrets.token_urlsafe(24), port=listening.getsockname()[1])
            yield Open(viewer=Viewer(snapshots, gate, runs_dir, tokens), listening=listening)
        finally:
            snapshots.close()


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
