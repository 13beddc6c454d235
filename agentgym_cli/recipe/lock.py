"""A stack's lock file against the running interpreter: what is missing, what is another version, and what that means for a run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from agentgym_cli.errors import LockError, RecipeError
from agentgym_cli.recipe.data import shipped_root
from agentgym_cli.recipe.wording import listed, nearest, shown
from agentgym_cli.recipe.yaml import read_text

Installed = Callable[[str], str | None]
"""Version of an installed distribution by name, None when it is not installed."""

_MAX_BYTES = 8 << 20
_TORCH = re.compile(r"# torch==([0-9][0-9A-Za-z.]*)")
_PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([0-9][0-9A-Za-z.+!_-]*)((?:\s+--hash=sha256:[0-9a-f]{64})+)")
_NEEDS: Mapping[str, tuple[str, ...]] = {"local": ("torch", "transformers", "safetensors"), "verl": ("torch", "verl")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """A lock file."""

    stack: str
    torch: str | None
    """Version of torch, whose build the machine chooses; None for a stack without it."""
    pins: Mapping[str, str]
    """Version by normalized name of everything else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherVersion:
    """A package that is installed in another version than the locked one."""

    name: str
    locked: str
    installed: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """How the interpreter differs from a lock. Packages that the lock does not name are not looked at."""

    stack: str
    torch: str | None
    """Locked version of torch."""
    torch_build: str | None
    """Installed version of torch with its build, e.g. ``2.13.0+cpu``."""
    missing: tuple[str, ...]
    different: tuple[OtherVersion, ...]

    def __bool__(self) -> bool:
        return bool(self.missing or self.different)

    def sentence(self) -> str:
        """The drift in one sentence; '' when there is none."""
        if not self:
            return ""
        parts = [f"{each.name} {each.installed} (locked {each.locked})" for each in self.different]
        gone = [f"no {name}" for name in self.missing]
        return f"lockfiles/{self.stack}.txt: expected the locked versions, got {listed([*parts, *gone])}"


def installed_version(name: str) -> str | None:
    """Version of a distribution in the running interpreter, None when it is not installed. Imports nothing of it."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def find_lock(stack: str, *, where: str = "engine.stack") -> Path:
    """Path of lockfiles/STACK.txt.

    Raises:
        RecipeError: there is no such lock; names the nearest stack.
    """
    folder = shipped_root() / "lockfiles"
    path = folder / f"{stack}.txt"
    if not path.is_file():
        known = sorted(each.stem for each in folder.glob("*.txt"))
        like = nearest(stack, known)
        raise RecipeError(f"{where}: expected one of the stacks {listed(known)}, got {shown(stack)}", hint=f"did you mean {like}?" if like else None)
    return path


def read_lock(path: Path) -> Lock:
    """Read requirement lines ``name==version`` with at least one sha256 each, and the comment ``# torch==VERSION``.

    Raises:
        RecipeError: any other line: an option, an address, a range, a marker, a missing hash, a name twice.
    """
    torch: str | None = None
    pins: dict[str, str] = {}
    for line, text in _logical_lines(read_text(path, _MAX_BYTES)):
        if text.startswith("#"):
            found = _TORCH.fullmatch(text)
            torch = found[1] if found else torch
            continue
        pin = _PIN.fullmatch(text)
        if pin is None:
            raise RecipeError(f"{path}:{line}: expected name==version --hash=sha256:..., got {shown(text)}")
        name = normalized(pin[1])
        if name in pins:
            raise RecipeError(f"{path}:{line}: expected each package once, got {name} again")
        pins[name] = pin[2]
    return Lock(stack=path.stem, torch=torch, pins=pins)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    start, parts = 1, list[str]()
    for number, line in enumerate(text.splitlines(), start=1):
        start = start if parts else number
        stripped = line.strip()
        parts.append(stripped.removesuffix("\\").strip())
        if not stripped.endswith("\\"):
            if joined := " ".join(parts).strip():
                yield start, joined
            parts = []
    if any(parts):
        yield start, " ".join(parts).strip()


def normalized(name: str) -> str:
    """A distribution's name in its one spelling (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def compare(lock: Lock, *, installed: Installed = installed_version) -> Drift:
    """What differs between a lock and the interpreter; torch's build tag (``+cpu``) is left to the machine."""
    have = {name: installed(name) for name in lock.pins}
    torch_build = installed("torch")
    missing = [name for name, version in have.items() if version is None]
    different = [OtherVersion(name=n, locked=lock.pins[n], installed=v) for n, v in have.items() if v is not None and v != lock.pins[n]]
    if lock.torch is not None and torch_build is None:
        missing.insert(0, "torch")
    elif lock.torch is not None and torch_build is not None and torch_build.partition("+")[0] != lock.torch:
        different.insert(0, OtherVersion(name="torch", locked=lock.torch, installed=torch_build))
    return Drift(stack=lock.stack, torch=lock.torch, torch_build=torch_build, missing=tuple(missing), different=tuple(different))


def enforce(drift: Drift, policy: Literal["error", "warn"]) -> str | None:
    """The sentence to record as a warning, None when nothing drifted.

    Raises:
        LockError: something drifted and the recipe calls that an error.
    """
    if drift and policy == "error":
        raise LockError(drift.sentence(), hint=lock_command(drift.stack, drift.torch))
    return drift.sentence() or None


def lock_command(stack: str, torch: str | None) -> str:
    """The commands that install a stack as locked."""
    first = f"pip install torch=={torch} && " if torch else ""
    return f"{first}pip install --no-deps --require-hashes -r {shipped_root() / 'lockfiles' / f'{stack}.txt'}"


def missing_packages(kind: str, *, installed: Installed = installed_version) -> tuple[str, ...]:
    """Packages that an engine cannot work without and that are not installed."""
    return tuple(name for name in _NEEDS[kind] if installed(name) is None)


def require_engine(kind: Literal["local", "verl"], *, installed: Installed = installed_version) -> None:
    """Refuse an engine whose packages are not installed.

    Raises:
        LockError: names what is missing and how to install it.
    """
    if gone := missing_packages(kind, installed=installed):
        raise LockError(f"engine {kind}: expected {listed(_NEEDS[kind])} to be installed, got no {listed(gone)}", hint=install_hint(kind))


def install_hint(kind: str) -> str:
    """The command that brings an engine's packages."""
    return f"pip install 'agentgym-cli[{kind}]'"
