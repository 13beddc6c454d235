"""``agentgym serve``: one of the shipped worlds as a process of its own; it is run, never imported."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from agentgym_cli.errors import EnvError, ExitCode

_GRACE_SECONDS = 30.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_WITH_PARENT = "--exit-with-parent"
"""Makes a server end when its standard input does, which this process holds open."""


def serve_world(args: Sequence[str]) -> int:
    """Run ``python -m agentgym_envs`` with ``args`` until it ends; its exit code, 130 after SIGINT.

    The first signal asks it to end and is waited for, later ones change nothing. Whatever ends this process, the server ends with it.

    Raises:
        EnvError: a signal that did not come through here ended the server.
    """
    own = [] if args[:1] == [] or args[0].startswith("-") or _WITH_PARENT in args else [_WITH_PARENT]
    with _passing_on() as ending:
        server = subprocess.Popen([sys.executable, "-m", "agentgym_envs", *args, *own], stdin=subprocess.PIPE if own else None)
        code = ending.wait_for(server)
    if code < 0 and not ending.received:
        raise EnvError(f"serve: expected the server to run until it is stopped, got {signal.Signals(-code).name}", "start it again")
    return int(ExitCode.INTERRUPTED) if signal.SIGINT in ending.received[:1] else max(0, code)


class _Ending:
    """Signals that came, and the server that is to end at the first."""

    def __init__(self) -> None:
        self.received: list[int] = []
        self._server: subprocess.Popen[bytes] | None = None

    def stop(self, number: int, frame: FrameType | None) -> None:
        """The handler of both signals."""
        self.received.append(number)
        if len(self.received) == 1 and self._server is not None:
            self._end(self._server)

    def wait_for(self, server: subprocess.Popen[bytes]) -> int:
        """The server's exit code once it has ended; negative where a signal ended it."""
        self._server = server
        if self.received:
            self._end(server)
        return server.wait()

    def _end(self, server: subprocess.Popen[bytes]) -> None:
        server.terminate()
        late = threading.Timer(_GRACE_SECONDS, server.kill)
        late.daemon = True
        late.start()


@contextmanager
def _passing_on() -> Iterator[_Ending]:
    ending = _Ending()
    before = {number: signal.signal(number, ending.stop) for number in _SIGNALS}
    try:
        yield ending
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
