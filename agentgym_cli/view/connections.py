"""How many connections stay open: where there are too many, the one that has been silent longest makes room for a new one."""

from __future__ import annotations

import asyncio
from typing import Final

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST: Final = 128
"""Connections at once; a browser opens six for each of its windows, and keeps them."""


class Connection(H11Protocol):
    """One connection, which knows when it was heard of last; h11 bounds what one request may send before it is understood."""

    heard: float = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Give up another connection where there are too many: one that waits for nothing, else the one that is heard of least."""
        others = [each for each in self.connections if isinstance(each, Connection)]
        if len(others) >= MOST:
            silent = min(others, key=lambda each: (each.answering, each.heard))
            silent.connections.discard(silent)
            silent.transport.abort()
        self.heard = self.loop.time()
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Some of a request."""
        self.heard = self.loop.time()
        super().data_received(data)

    @property
    def answering(self) -> bool:
        """A request is not answered whole yet."""
        return self.cycle is not None and not self.cycle.response_complete
