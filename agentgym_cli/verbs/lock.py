"""``agentgym lock check``: the running interpreter against a stack's lock, versions and files."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Literal

from agentgym_cli.errors import LockError
from agentgym_cli.recipe.installed import Altered, Find, check_files, find_installed, how_installed
from agentgym_cli.recipe.lock import Drift, Lock, compare, find_lock, lock_command, of_torch, read_lock
from agentgym_cli.verbs.progress import Progress

OURS = "agentgym-cli"
_QUIET_SECONDS = 2.0
"""How long a check runs before it tells how far it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockCheck:
    """How the interpreter differs from a lock: versions, files, and, for information only, packages that the lock does not name."""

    drift: Drift
    locked: int
    """Packages that the lock names, torch and what is built for it included."""
    files: int
    """Files whose digest was to be checked."""
    altered: tuple[Altered, ...]
    extra: Mapping[str, str]
    """Version by name of what is installed beyond the lock; agentgym-cli, torch and its vendors' packages left out."""
    ours: tuple[str, Literal["editable", "wheel"]] | None
    """Version of agentgym-cli and how it is installed; None when it runs without being installed."""

    @property
    def clean(self) -> bool:
        """Whether nothing drifted."""
        return not (self.drift or self.altered)


def check_lock(stack: str, *, progress: Progress, find: Find = metadata.distributions, clock: Callable[[], float] = time.monotonic) -> LockCheck:
    """Compare versions, then the files of every locked package with its RECORD.

    Raises:
        RecipeError: there is no such stack; names the nearest.
    """
    return check_against(read_lock(find_lock(stack, where="lock check")), progress=progress, find=find, clock=clock)


def check_against(lock: Lock, *, progress: Progress, find: Find = metadata.distributions, clock: Callable[[], float] = time.monotonic) -> LockCheck:
    """Like ``check_lock``, for a lock that has been read."""
    have = find_installed(find)
    versions = {name: each.version for name, each in have.items()}
    files, altered = _files({name: have[name] for name in lock.pins if name in have}, progress, clock)
    beyond = sorted(set(versions) - set(lock.pins) - set(lock.built) - {OURS})
    return LockCheck(
        drift=compare(lock, installed=versions.get),
        locked=len(lock.pins) + len(lock.built),
        files=files,
        altered=altered,
        extra={name: versions[name] for name in beyond if not of_torch(name)},
        ours=(versions[OURS], how_installed(have[OURS])) if OURS in have else None,
    )


def lock_failure(check: LockCheck) -> LockError:
    """The failure of an interpreter that is not what the lock says; its hint makes it so."""
    drift = check.drift
    counts = [
        (len(drift.missing), "missing"),
        (len(drift.different), "in another version"),
        (len({each.package for each in check.altered}), "with altered files"),
    ]
    found = ", ".join(f"{count} {what}" for count, what in counts if count)
    # pip leaves a package alone whose version is right, whatever became of its files.
    again = " --force-reinstall" if check.altered else ""
    command = lock_command(drift.stack, drift.torch, drift.beside_torch)
    return LockError(f"lockfiles/{drift.stack}.txt: expected {check.locked} packages as locked, got {found}", hint=command + again)


def _files(packages: Mapping[str, metadata.Distribution], progress: Progress, clock: Callable[[], float]) -> tuple[int, tuple[Altered, ...]]:
    began, telling, files = clock(), False, 0
    altered: list[Altered] = []
    for done, (name, distribution) in enumerate(packages.items(), start=1):
        checked = check_files(name, distribution)
        files += checked.files
        altered += checked.altered
        if not telling and clock() - began > _QUIET_SECONDS:
            progress.begin("lock check", len(packages), "package")
            telling = True
        if telling:
            progress.advance(done, {"files": files})
    if telling:
        progress.end()
    return files, tuple(altered)
