"""Connections within bounds, below the application: size and time of a request's head, and what still comes after a refusal. Needs httptools."""

from __future__ import annotations

from asyncio import TimerHandle, Transport

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from agentgym_envs.app import MOST_HEAD_BYTES

MOST_UNREAD_BYTES = 16 * 1_048_576
"""Most bytes of a body that are read and thrown away after its request was answered, so that a client that still sends can read why."""
HEAD_SECONDS = 30.0
"""How long a head that comes in parts may take."""


class Bounded(HttpToolsProtocol):
    """One connection. A message's head is ``in parts`` from its first byte until all of it is there."""

    _head_in_parts = False
    _head_bytes = 0
    _unread = 0
    _head_timer: TimerHandle | None = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """A connection that says nothing is closed like one that says nothing more."""
        super().connection_made(transport)
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timer."""
        self._head_ended()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse; then see whether a head has become too long, or has begun and must end in time."""
        super().data_received(data)
        if not self._head_in_parts or self.transport.is_closing():
            return
        self._head_bytes += len(data)
        if self._head_bytes > MOST_HEAD_BYTES:
            self._refuse(b"431 Request Header Fields Too Large", "head_too_large")
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self._refuse, b"408 Request Timeout", "slow_head")

    def on_message_begin(self) -> None:
        """A head begins."""
        super().on_message_begin()
        self._head_in_parts, self._head_bytes, self._unread = True, 0, 0

    def on_headers_complete(self) -> None:
        """A head ends."""
        self._head_ended()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """What comes for a request that was answered is thrown away, up to a bound."""
        super().on_body(body)
        if self.cycle.response_complete:
            self._unread += len(body)
            if self._unread > MOST_UNREAD_BYTES:
                self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP is counted, like every other refusal."""
        self._count("malformed")
        super().send_400_response(msg)

    def _head_ended(self) -> None:
        self._head_in_parts = False
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _refuse(self, status: bytes, kind: str) -> None:
        if not self.transport.is_closing():
            self._count(kind)
            self.transport.write(b"HTTP/1.1 " + status + b"\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
            self.transport.close()

    def _count(self, kind: str) -> None:
        self.config.app.count_refused(kind)  # type: ignore[union-attr]
