"""``agentgym serve``: one of the shipped worlds as a process of its own; it is run, never imported."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

from agentgym_cli.errors import Interrupted

_GRACE_SECONDS = 30.0
_WITH_PARENT = "--exit-with-parent"
"""Makes a server end when its standard input does, which this process holds open."""


def serve_world(args: Sequence[str]) -> int:
    """Run ``python -m agentgym_envs`` with ``args`` until it ends; its exit code.

    A signal is passed on and waited for. Whatever ends this process, the server ends with it.
    """
    own = [] if args[:1] == [] or args[0].startswith("-") or _WITH_PARENT in args else [_WITH_PARENT]
    server = subprocess.Popen([sys.executable, "-m", "agentgym_envs", *args, *own], stdin=subprocess.PIPE if own else None)
    try:
        return server.wait()
    except Interrupted:
        server.terminate()
        try:
            return max(0, server.wait(timeout=_GRACE_SECONDS))
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
            raise
