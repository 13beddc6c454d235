"""The server's log: one JSON object a line, written by a thread of its own, so that no request waits for whoever reads it."""

from __future__ import annotations

import json
import logging
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TextIO

LEVELS = ("debug", "info", "warning", "error")
_MOST_WAITING = 10_000
"""Records that wait to be written; one more is dropped and counted."""
_END_SECONDS = 2.0
_PLAIN = frozenset(vars(logging.LogRecord("", 0, "", 0, "", (), None))) | {"message", "taskName", "color_message"}


@contextmanager
def logging_to(stream: TextIO, level: str) -> Iterator[None]:
    """Write what is logged at ``level`` or above to ``stream`` while the block runs."""
    writer = _Writer(stream)
    root = logging.getLogger()
    root.addHandler(writer)
    root.setLevel(level.upper())
    try:
        yield
    finally:
        root.removeHandler(writer)
        writer.close()


class _Writer(logging.Handler):
    """Puts records in line; its thread formats and writes them."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._waiting: queue.Queue[logging.LogRecord | None] = queue.Queue(_MOST_WAITING)
        self._dropped = 0
        self._thread = threading.Thread(target=self._write, name="log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Never waits: where the line is full, the record is dropped."""
        try:
            self._waiting.put_nowait(record)
        except queue.Full:
            self._dropped += 1

    def close(self) -> None:
        """Write what waits; a reader that takes too long is not waited for."""
        try:
            self._waiting.put(None, timeout=_END_SECONDS)
        except queue.Full:
            return
        self._thread.join(_END_SECONDS)
        super().close()

    def _write(self) -> None:
        while (record := self._waiting.get()) is not None:
            dropped, self._dropped = self._dropped, 0
            try:
                self._stream.write(line(record, dropped) + "\n")
                self._stream.flush()
            except (OSError, ValueError):
                # Nobody reads any more; the server goes on.
                return


def line(record: logging.LogRecord, dropped: int = 0) -> str:
    """A record as JSON: time, level, logger, process, event, what was given as ``extra``, a failure's traceback, records dropped before it."""
    said: dict[str, object] = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname.lower(),
        "logger": record.name,
        "pid": record.process,
        "event": record.getMessage(),
    }
    said |= {name: value for name, value in vars(record).items() if name not in _PLAIN}
    if record.exc_info:
        said["failure"] = logging.Formatter().formatException(record.exc_info)
    if dropped:
        said["dropped_before"] = dropped
    return json.dumps(said, default=str)
