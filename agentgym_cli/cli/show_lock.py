"""A lock's comparison on stdout: a table for people, JSON for machines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from agentgym_cli.cli.show import print_json, stdout_console
from agentgym_cli.report.text import for_terminal

if TYPE_CHECKING:
    from agentgym_cli.verbs.lock import LockCheck

_ROWS = 20
"""Most differences of one kind that are shown one by one."""
_NAMES = 12


def show_lock(check: LockCheck, *, as_json: bool) -> None:
    """Print how the interpreter differs from a lock; raises LockError (exit 3) when something drifted."""
    from agentgym_cli.verbs.lock import lock_failure

    if as_json:
        print_json(_values(check))
    else:
        _print(check)
    if not check.clean:
        raise lock_failure(check)


def _values(check: LockCheck) -> dict[str, object]:
    drift = check.drift
    return {
        "stack": drift.stack,
        "clean": check.clean,
        "locked": check.locked,
        "files": check.files,
        "torch": {"locked": drift.torch, "installed": drift.torch_build},
        "agentgym": None if check.ours is None else {"version": check.ours[0], "install": check.ours[1]},
        "missing": list(drift.missing),
        "different": [{"name": each.name, "locked": each.locked, "installed": each.installed} for each in drift.different],
        "altered": [{"name": each.package, "file": each.file, "problem": each.problem} for each in check.altered],
        "extra": dict(check.extra),
    }


def _print(check: LockCheck) -> None:
    drift, console = check.drift, stdout_console()
    console.print(f"stack         {drift.stack}: {check.locked} packages locked, {check.files:,} files checked")
    if drift.torch is not None:
        console.print(f"torch         {drift.torch} locked, {_plain(drift.torch_build or 'none')} installed")
    console.print(f"agentgym-cli  {'not installed' if check.ours is None else f'{_plain(check.ours[0])}, {check.ours[1]}'}")
    if check.extra:
        console.print(f"beyond        {_beyond(check)}; no drift")
    if check.clean:
        console.print("no drift")
        return
    table = Table(box=None, padding=(0, 1))
    for heading in ("drift", "package", "locked", "here"):
        table.add_column(heading, overflow="fold")
    for row in _rows(check):
        table.add_row(*map(_plain, row))
    console.print(table)


def _beyond(check: LockCheck) -> str:
    names = [_plain(f"{name} {version}") for name, version in check.extra.items()]
    rest = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return ", ".join(names[:_NAMES]) + rest


def _rows(check: LockCheck) -> Iterator[tuple[str, str, str, str]]:
    drift = check.drift
    yield from _bounded([("missing", name, "", "-") for name in drift.missing])
    yield from _bounded([("version", each.name, each.locked, each.installed) for each in drift.different])
    yield from _bounded([("file", each.package, each.file, each.problem) for each in check.altered])


def _bounded(rows: list[tuple[str, str, str, str]]) -> Iterator[tuple[str, str, str, str]]:
    yield from rows[:_ROWS]
    if len(rows) > _ROWS:
        yield (rows[0][0], f"and {len(rows) - _ROWS} more", "", "--json has all")


def _plain(text: str) -> str:
    return escape(for_terminal(text))
