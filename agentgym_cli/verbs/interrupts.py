"""Runs asynchronous work so that Ctrl-C and SIGTERM cancel it, let it clean up, and end in Interrupted."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

from agentgym_cli.env.contract import ServersLost
from agentgym_cli.errors import Interrupted

Result = TypeVar("Result")
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def run_interruptible(work: Coroutine[Any, Any, Result], hint: str) -> Result:
    """Run ``work`` to its end; a first signal cancels it, further ones are ignored while it cleans up.

    Raises:
        Interrupted, ServersLost: with ``hint``, which says how to go on.
    """
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        return asyncio.run(_guarded(work, hint))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


async def _guarded(work: Coroutine[Any, Any, Result], hint: str) -> Result:
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    received: list[int] = []

    def cancel(number: int) -> None:
        if not received:
            task.cancel()
        received.append(number)

    for number in _SIGNALS:
        loop.add_signal_handler(number, cancel, number)
    try:
        return await task
    except (Interrupted, ServersLost) as stopped:
        raise type(stopped)(stopped.message, stopped.hint or hint) from stopped
    except asyncio.CancelledError:
        if not received:
            raise
        raise Interrupted(f"stopped by {signal.Signals(received[0]).name}; sessions are closed and everything recorded is kept", hint) from None
