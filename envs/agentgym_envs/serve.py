"""Runs one world as a server process: options, the socket, one line that says where it listens, and a clean end. Knows no world but by name."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import sys
import threading
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import uvicorn

from agentgym_envs.access import AccessError, Token, require_private, token_from
from agentgym_envs.app import MOST_HEAD_BYTES, App, build_app
from agentgym_envs.arguments import parser
from agentgym_envs.logs import logging_to
from agentgym_envs.offers import WORLDS, listing
from agentgym_envs.protocol import World
from agentgym_envs.replicas import serve_replicas

EXIT_OPTIONS, EXIT_WORLD, EXIT_INTERRUPTED = 2, 4, 130
_KEEP_ALIVE_SECONDS = 900
"""Longer than clients keep idle connections, so that none is closed while a request is on its way."""
_GRACE_SECONDS = 3
_LAST_PORT = 65_535

logger = logging.getLogger(__name__)


def serve(args: Sequence[str]) -> int:
    """Serve the world that ``args`` describe until a signal; the exit code.

    Prints one JSON line with ``url`` once it listens, one for each replica. 2 when the options or the world's data are wrong, 4 when the address
    cannot be had or the world cannot run here.
    """
    options = parser().parse_args(args)
    if options.list:
        sys.stdout.write(listing(as_json=options.json) + "\n")
        return 0
    if options.world is None:
        parser().error(f"expected a WORLD, one of {', '.join(WORLDS)}, or --list")
    if (missing := WORLDS[options.world].ready()) is not None:
        return _refuse(EXIT_WORLD, f"{options.world}: {missing}", "agentgym serve --list")
    try:
        token = None if options.token_variable is None else token_from(options.token_variable)
        require_private(options.host, token)
    except AccessError as err:
        return _refuse(EXIT_OPTIONS, *map(str, err.args))
    except OSError as err:
        return _refuse_address(options, err)
    if options.replicas > 1:
        if options.port and options.port + options.replicas - 1 > _LAST_PORT:
            return _refuse(EXIT_OPTIONS, f"--replicas {options.replicas}: expected ports up to {_LAST_PORT}", "choose a lower --port")
        return serve_replicas(args, count=options.replicas, port=options.port, exit_with_parent=options.exit_with_parent)
    return _serve_one(options, token)


def _serve_one(options: Namespace, token: Token | None) -> int:
    try:
        world = WORLDS[options.world].build(options)
    except ImportError as err:
        return _refuse(EXIT_WORLD, f"{options.world}: expected its packages to load, got: {err}", "install anew what agentgym serve --list names")
    except (OSError, ValueError) as err:
        return _refuse(EXIT_OPTIONS, f"{options.world}: {err}", f"agentgym serve {options.world} --help")
    try:
        listening = _bind(options.host, options.port)
    except OSError as err:
        world.close()
        return _refuse_address(options, err)
    app = _app(options, world, token)
    with logging_to(sys.stderr, options.log_level), listening:
        code = _run(app, listening, options)
    if app.stuck:
        # A call into the world never ended; its thread would hold this process for good.
        sys.stdout.flush()
        os._exit(code)
    return code


def _app(options: Namespace, world: World, token: Token | None) -> App:
    return build_app(
        world,
        max_sessions=options.max_sessions,
        idle_seconds=options.idle_seconds,
        call_seconds=options.call_seconds,
        body_bytes=options.body_bytes,
        oracle=options.oracle,
        token=token,
    )


def _run(app: App, listening: socket.socket, options: Namespace) -> int:
    config = uvicorn.Config(
        app,
        interface="asgi3",
        http=_http(),
        h11_max_incomplete_event_size=MOST_HEAD_BYTES,
        ws="none",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    # What strangers send that is no HTTP is counted, and fills no log.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    server = _Server(config, _announcement(listening, app.shell.world), exit_with_parent=options.exit_with_parent)
    logger.info("serving", extra={"world": options.world, "host": options.host, "port": listening.getsockname()[1]})
    server.run(sockets=[listening])
    logger.info("ended", extra={"sessions_made": app.shell.sessions.made, "calls_left": app.stuck})
    return EXIT_INTERRUPTED if server.stopped_by == signal.SIGINT else 0


def _http() -> Any:
    """uvicorn's parser in C, bounded, where it is installed; else the one in Python, which bounds the size of a head itself, but not its time."""
    return import_module("agentgym_envs.connections").Bounded if find_spec("httptools") is not None else "h11"


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
        if self.stopped_by is None:
            self.stopped_by = number
        self.should_exit = True

    def _wait_for_parent(self) -> None:
        """Read standard input to its end, which comes when whoever held the other side has gone."""
        with suppress(OSError):
            while os.read(0, 4096):
                pass
        self.should_exit = True


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


def _refuse_address(options: Namespace, err: OSError) -> int:
    hint = "stop what listens there, or choose another with --port (0 takes a free one)"
    if isinstance(err, socket.gaierror):
        hint = "name this machine, or one of its addresses"
    return _refuse(EXIT_WORLD, f"{options.host}:{options.port}: expected an address to listen on, got {err.strerror or err}", hint)


def _refuse(code: int, message: str, hint: str) -> int:
    sys.stderr.write(f"error: {message}\nhint: {hint}\n")
    return code
