"""The rows of a decoding wave wait here until a decode is worth its while. Knows slots and requests, no episodes or tokens' meaning."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from agentgym_cli.episode.policies.protocol import Decoder, SlotReply, SlotRequest
from agentgym_cli.errors import PolicyError

SETTLE_SECONDS = 0.02
"""A decode waits until no slot has opened for this long, so that the first one of a wave is not for its fastest episode alone."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    request: SlotRequest
    reply: asyncio.Future[SlotReply]


class Barrier:
    """Collects one request per open slot and decodes them together in a worker thread, one decode at a time.

    A decode starts as soon as every open slot waits, or ``patience`` seconds after the first of them: a world that hangs holds up its own
    episode, not the others. Which rows share a decode decides nothing: a row's bits do not depend on the other rows.
    """

    def __init__(self, decoder: Decoder, *, patience: float) -> None:
        self._decoder = decoder
        self._patience = patience
        self._open: set[int] = set()
        self._waiting: dict[int, _Waiting] = {}
        self._decoding: dict[int, _Waiting] = {}
        self._decode: asyncio.Future[list[SlotReply]] | None = None
        self._last_opened = float("-inf")
        self._timer: asyncio.TimerHandle | None = None
        self._first_waits_since = 0.0

    def join(self, slot: int) -> None:
        """Open a slot: decodes wait for it from now on."""
        assert slot not in self._open, f"slot {slot} is open already"
        self._open.add(slot)
        self._last_opened = asyncio.get_running_loop().time()

    async def reply(self, request: SlotRequest) -> SlotReply:
        """Wait for the others, then for the decode. Cancelled, the slot asks for nothing.

        Raises:
            PolicyError: the decode failed; it fails for all of its rows.
        """
        assert request.slot in self._open and request.slot not in self._waiting, f"slot {request.slot} has one request at a time"
        loop = asyncio.get_running_loop()
        waiting = _Waiting(request, loop.create_future())
        if not self._waiting:
            self._first_waits_since = loop.time()
        self._waiting[request.slot] = waiting
        self._decode_when_due()
        try:
            return await waiting.reply
        finally:
            if self._waiting.get(request.slot) is waiting:
                del self._waiting[request.slot]
                self._decode_when_due()

    async def leave(self, slot: int, *, seconds: float) -> None:
        """Close a slot, after the decode it is part of: its row of the cache is then free. Idempotent.

        Raises:
            PolicyError: that decode did not end within ``seconds``.
        """
        if slot not in self._open:
            return
        self._open.remove(slot)
        self._decode_when_due()
        if self._decode is not None and slot in self._decoding:
            done, _ = await asyncio.wait({self._decode}, timeout=seconds)
            if not done:
                raise PolicyError(f"decoding a wave: expected it to end within {seconds:g} s, got no end")

    def _decode_when_due(self) -> None:
        """Start a decode if it is time for one, else look again when it will be."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._decode is not None or not self._waiting:
            return
        loop = asyncio.get_running_loop()
        due = self._first_waits_since + self._patience
        if self._open <= self._waiting.keys():
            due = min(due, self._last_opened + SETTLE_SECONDS)
        if due <= loop.time():
            self._start()
        else:
            self._timer = loop.call_at(due, self._decode_when_due)

    def _start(self) -> None:
        self._decoding = dict(sorted(self._waiting.items()))
        self._waiting = {}
        requests = [waiting.request for waiting in self._decoding.values()]
        self._decode = asyncio.get_running_loop().run_in_executor(None, self._decoder.decode, requests)
        self._decode.add_done_callback(self._deliver)

    def _deliver(self, decode: asyncio.Future[list[SlotReply]]) -> None:
        rows, self._decoding, self._decode = list(self._decoding.values()), {}, None
        failure = _failure(decode, len(rows))
        for place, row in enumerate(rows):
            if row.reply.done():
                continue
            if failure is not None:
                row.reply.set_exception(failure)
            else:
                row.reply.set_result(decode.result()[place])
        self._first_waits_since = asyncio.get_running_loop().time()
        self._decode_when_due()


def _failure(decode: asyncio.Future[list[SlotReply]], rows: int) -> PolicyError | None:
    if decode.cancelled():
        return PolicyError("decoding a wave: expected replies, got a decode that was cancelled")
    error = decode.exception()
    if error is not None:
        failure = error if isinstance(error, PolicyError) else PolicyError(f"decoding a wave: expected replies, got {type(error).__name__}: {error}")
        if failure is not error:
            failure.__cause__ = error
        return failure
    if len(decode.result()) != rows:
        return PolicyError(f"decoding a wave: expected {rows} replies, got {len(decode.result())}")
    return None
