"""Runs one world as a server process: options, the socket, one line that says where it listens, and a clean end. Knows no world but by name."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import uvicorn

from agentgym_envs.app import build_app
from agentgym_envs.package_prep import options as package_prep
from agentgym_envs.protocol import World
from agentgym_envs.textcraft import options as textcraft

EXIT_DATA, EXIT_PORT, EXIT_INTERRUPTED = 2, 4, 130
_KEEP_ALIVE_SECONDS = 900
"""Longer than clients keep idle connections, so that none is closed while a request is on its way."""
_GRACE_SECONDS = 3


@dataclass(frozen=True, slots=True)
class Offered:
    """How a world is described on the command line."""

    help: str
    needs: str
    """What it needs beside the core, in a sentence."""
    ready: Callable[[], str | None]
    """None, or why it cannot run here and what to do about it. Imports nothing heavy and starts nothing."""
    add_options: Callable[[argparse.ArgumentParser], None]
    build: Callable[[argparse.Namespace], World]
    """Raises OSError or ValueError when the world's data cannot be read. Imports what the world needs, in its body."""


WORLDS = {
    "package_prep": Offered(
        help="pack what is ordered, verify the package and dispatch it",
        needs=package_prep.NEEDS,
        ready=package_prep.ready,
        add_options=package_prep.add_options,
        build=package_prep.build,
    ),
    "textcraft": Offered(
        help="make an item from what can be found",
        needs=textcraft.NEEDS,
        ready=textcraft.ready,
        add_options=textcraft.add_options,
        build=textcraft.build,
    ),
}


def serve(args: Sequence[str]) -> int:
    """Serve the world that ``args`` describe until a signal; the exit code.

    Prints one JSON line with ``url`` once it listens. 2 when the options or the world's data are wrong, 4 when the address cannot be had.
    """
    options = _parser().parse_args(args)
    try:
        world = WORLDS[options.world].build(options)
    except (OSError, ValueError) as err:
        return _refuse(EXIT_DATA, f"{options.world}: {err}", "check the folder given with --recipes")
    try:
        listening = _bind(options.host, options.port)
    except OSError as err:
        hint = "stop what listens there, or choose another with --port (0 takes a free one)"
        return _refuse(EXIT_PORT, f"{options.host}:{options.port}: expected an address to listen on, got {err.strerror or err}", hint)
    app = build_app(world, max_sessions=options.max_sessions, idle_seconds=options.idle_seconds, oracle=options.oracle)
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    config = uvicorn.Config(
        app, log_config=None, access_log=False, server_header=False, timeout_keep_alive=_KEEP_ALIVE_SECONDS, timeout_graceful_shutdown=_GRACE_SECONDS
    )
    server = _Server(config, _announcement(listening, world), exit_with_parent=options.exit_with_parent)
    with listening:
        server.run(sockets=[listening])
    return EXIT_INTERRUPTED if server.stopped_by == signal.SIGINT else 0


class _Server(uvicorn.Server):
    """Says where it listens once it does, and ends at a signal or with its parent, without raising the signal again."""

    def __init__(self, config: uvicorn.Config, announcement: str, *, exit_with_parent: bool) -> None:
        super().__init__(config)
        self._announcement = announcement
        self._exit_with_parent = exit_with_parent
        self.stopped_by: int | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then announce."""
        await super().startup(sockets)
        if self.started:
            sys.stdout.write(self._announcement + "\n")
            sys.stdout.flush()
        if self._exit_with_parent:
            threading.Thread(target=self._wait_for_parent, daemon=True).start()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """In place of uvicorn's, which raises a signal again when it has ended."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop, number)
        yield

    def _stop(self, number: int) -> None:
        self.stopped_by = number
        self.should_exit = True

    def _wait_for_parent(self) -> None:
        """Read standard input to its end, which comes when whoever held the other side has gone."""
        with suppress(OSError):
            while os.read(0, 4096):
                pass
        self.should_exit = True


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="agentgym serve", description="Serve a world over HTTP.")
    worlds = parser.add_subparsers(dest="world", required=True, metavar="WORLD")
    for name, offered in WORLDS.items():
        world = worlds.add_parser(name, help=offered.help, description=offered.help, allow_abbrev=False)
        world.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1, this machine only)")
        world.add_argument("--port", type=_port, default=36001, help="port to listen on; 0 takes a free one (default: 36001)")
        world.add_argument("--max-sessions", type=_positive, default=10_000, metavar="N", help="sessions open at once (default: 10000)")
        world.add_argument(
            "--idle-seconds", type=_seconds, default=3600.0, metavar="S", help="close sessions without a call for S seconds (default: 3600)"
        )
        world.add_argument("--oracle", action="store_true", help="answer GET /oracle with actions that solve the task")
        world.add_argument("--exit-with-parent", action="store_true", help="end when standard input ends")
        offered.add_options(world)
    return parser


def _port(text: str) -> int:
    if not 0 <= (port := int(text)) <= 65535:
        raise argparse.ArgumentTypeError(f"expected 0 to 65535, got {text}")
    return port


def _positive(text: str) -> int:
    if (count := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"expected at least 1, got {text}")
    return count


def _seconds(text: str) -> float:
    if not (seconds := float(text)) > 0:
        raise argparse.ArgumentTypeError(f"expected more than 0, got {text}")
    return seconds


def _bind(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OSError:
        listening.close()
        raise
    return listening


def _announcement(listening: socket.socket, world: World) -> str:
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return json.dumps({"url": f"http://{shown}:{port}", "world": world.name, "tasks": world.task_count, "pid": os.getpid()})


def _refuse(code: int, message: str, hint: str) -> int:
    sys.stderr.write(f"error: {message}\nhint: {hint}\n")
    return code
