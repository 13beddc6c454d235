"""Ctrl-C cancels asynchronous work, which cleans up before the command ends."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from agentgym_cli.errors import Interrupted
from agentgym_cli.verbs.interrupts import run_interruptible


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_cancels_the_work_lets_it_clean_up_and_names_itself(number):
    cleaned: list[str] = []

    async def work() -> None:
        asyncio.get_running_loop().call_soon(os.kill, os.getpid(), number)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append("closed")

    with pytest.raises(Interrupted, match=number.name) as caught:
        run_interruptible(work(), "resume it")
    assert (cleaned, caught.value.hint) == (["closed"], "resume it")


def test_signal_handlers_are_as_before_afterwards():
    before = signal.getsignal(signal.SIGINT)

    async def work() -> int:
        return 3

    assert run_interruptible(work(), "") == 3
    assert signal.getsignal(signal.SIGINT) is before


def test_a_cancellation_that_no_signal_asked_for_is_not_an_interrupt():
    async def work() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        run_interruptible(work(), "")
