"""Runs ``agentgym WORDS`` and kills itself with SIGKILL at one named moment: ``python killed.py POINT NUMBER SECONDS WORDS``.

The hook is put around the package from outside, at the seams where it meets the operating system and the database.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

from agentgym_cli.cli.main import main
from agentgym_cli.store import journal, loader
from agentgym_cli.store.db import transaction
from agentgym_cli.verbs import recorder

LOAD_SECONDS = 0.2
"""Between two loads into the store, so that a short run has many."""


class Moment:
    """Counts down to the kill at one point, which is then ``seconds`` away."""

    def __init__(self, point: str, number: int, seconds: float) -> None:
        self.point, self.left, self.seconds = point, number, seconds

    def passes(self, point: str) -> bool:
        """True when it is now that the process ends."""
        if point != self.point:
            return False
        self.left -= 1
        return self.left == 0

    def reach(self, point: str) -> None:
        """End the process here and now when it is the moment."""
        if self.passes(point):
            die()

    def soon(self, point: str) -> None:
        """End the process in ``seconds``, from a thread, wherever the work then is, when it is the moment."""
        if self.passes(point):
            timer = threading.Timer(self.seconds, die)
            timer.daemon = True
            timer.start()


def die() -> None:
    """No clean-up, no flush, no last word."""
    os.kill(os.getpid(), signal.SIGKILL)


class KilledFile:
    """A journal's file at which the process ends before, in the middle of or behind a write."""

    def __init__(self, path: Path, moment: Moment) -> None:
        self._inner, self._moment = journal.create_file(path), moment
        moment.soon("clock")

    def write(self, data: bytes, /) -> int | None:
        """One line, or the half of it that was in time."""
        self._moment.reach("before a line")
        if self._moment.passes("inside a line"):
            self._inner.write(data[: len(data) // 2])
            die()
        wrote = self._inner.write(data)
        self._moment.reach("behind a line")
        return wrote

    def fileno(self) -> int:
        """As the file."""
        return self._inner.fileno()

    def close(self) -> None:
        """As the file."""
        self._inner.close()


def arm(moment: Moment) -> None:
    """Put the moment's points around the package."""
    defaults: dict[str, Any] = journal.Journal.__init__.__kwdefaults__
    defaults["create"] = lambda path: KilledFile(path, moment)
    recorder.LOAD_SECONDS = LOAD_SECONDS

    @contextmanager
    def killed_transaction(connection: Any) -> Iterator[None]:
        with transaction(connection):
            yield
            moment.reach("before a commit")
        moment.reach("behind a commit")

    @wraps(loader.load)
    def killed_load(*arguments: Any) -> Any:
        moment.soon("inside a load")
        return loader.load(*arguments)

    loader.transaction = killed_transaction
    recorder.load = killed_load
    for name in ("rename", "replace"):
        setattr(os, name, _around(getattr(os, name), moment, "a rename"))
    os.fsync = _around(os.fsync, moment, "a sync")


def _around(call: Any, moment: Moment, what: str) -> Any:
    @wraps(call)
    def killed(*arguments: Any, **options: Any) -> Any:
        moment.reach(f"before {what}")
        answer = call(*arguments, **options)
        moment.reach(f"behind {what}")
        return answer

    return killed


if __name__ == "__main__":
    arm(Moment(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
    del sys.argv[1:4]
    main()
