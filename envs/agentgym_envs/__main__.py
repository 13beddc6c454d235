"""``python -m agentgym_envs WORLD``: serves a world on its own."""

from __future__ import annotations

import signal
import sys
from types import FrameType


def _stop(number: int, frame: FrameType | None) -> None:
    """A signal before the server listens ends it as one afterwards does."""
    sys.exit(130 if number == signal.SIGINT else 0)


if __name__ == "__main__":
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, _stop)
    from agentgym_envs.serve import serve

    sys.exit(serve(sys.argv[1:]))
