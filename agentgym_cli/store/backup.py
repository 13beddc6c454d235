"""A copy of a store beside it, before an older one is brought up to date. Knows no database."""

from __future__ import annotations

import filecmp
import os
import shutil
from itertools import count
from pathlib import Path

from agentgym_cli.errors import StoreError


def back_up(database: Path, migration: str) -> Path:
    """Copy a store that nobody has open to ``NAME.before-MIGRATION``; a copy that is there and equal is kept, another one is left alone.

    Raises:
        StoreError: the copy cannot be written, or the store changed meanwhile; nothing has been changed then.
    """
    before = database.stat()
    partial = database.with_name(f"{database.name}.{os.getpid()}.copy")
    try:
        shutil.copyfile(database, partial)
        with partial.open("rb+") as copied:
            os.fsync(copied.fileno())
        target = _target(database, migration, partial)
        partial.replace(target)
    except OSError as err:
        raise StoreError(
            f"{database}: expected room for a copy of it before {migration} changes it, got: {err.strerror or err}",
            hint="free some space beside the store, or make it writable; nothing has been changed",
        ) from err
    finally:
        partial.unlink(missing_ok=True)
    after = database.stat()
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        target.unlink(missing_ok=True)
        raise StoreError(f"{database}: expected it to stay as it was while it was copied, but another process wrote to it", "try again")
    return target


def _target(database: Path, migration: str, copy: Path) -> Path:
    for number in count(1):
        target = database.with_name(f"{database.name}.before-{migration}" + ("" if number == 1 else f".{number}"))
        if not target.exists() or filecmp.cmp(target, copy, shallow=False):
            return target
    raise AssertionError("unreachable")
