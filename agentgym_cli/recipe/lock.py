"""A stack's lock file against the running interpreter: what is missing, what is another version, and what that means for a run.

Whether the installed files are what their packages say is in recipe/installed.py; how a lock is made is in lockfiles/make.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Literal

from agentgym_cli.errors import LockError, RecipeError
from agentgym_cli.recipe.data import shipped_root
from agentgym_cli.recipe.wording import asked, listed, shown
from agentgym_cli.recipe.yaml import read_text

Installed = Callable[[str], str | None]
"""Version of an installed distribution by name, None when it is not installed."""

_MAX_BYTES = 8 << 20
_BUILT = re.compile(r"# (torch|torchvision|torchaudio)==([0-9][0-9A-Za-z.]*)")
_VENDOR = re.compile(r"torch|triton|(?:nvidia|cuda)-[a-z0-9-]+")
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
    beside_torch: Mapping[str, str] = field(default_factory=dict)
    """Version by name of what is built for one build of torch and installed with it: torchvision, torchaudio."""

    @property
    def built(self) -> dict[str, str]:
        """Version by name of what the machine chooses the build of, torch first."""
        return ({} if self.torch is None else {"torch": self.torch}) | dict(self.beside_torch)


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
    beside_torch: Mapping[str, str] = field(default_factory=dict)
    """Locked versions of what is installed with torch."""

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


def stacks() -> list[str]:
    """Names of the shipped stacks, sorted."""
    return sorted(each.stem for each in (shipped_root() / "lockfiles").glob("*.txt"))


def find_lock(stack: str, *, where: str = "engine.stack") -> Path:
    """Path of lockfiles/STACK.txt.

    Raises:
        RecipeError: there is no such lock; names the nearest stack.
    """
    known = stacks()
    if stack not in known:
        raise RecipeError(f"{where}: expected one of the stacks {listed(known)}, got {shown(stack)}", hint=asked(stack, known) or None)
    return shipped_root() / "lockfiles" / f"{stack}.txt"


def read_lock(path: Path) -> Lock:
    """Read requirement lines ``name==version`` with at least one sha256 each, and comments such as ``# torch==VERSION``.

    Raises:
        RecipeError: any other line: an option, an address, a range, a marker, a missing hash, a name twice.
    """
    built: dict[str, str] = {}
    pins: dict[str, str] = {}
    for line, text in _logical_lines(read_text(path, _MAX_BYTES)):
        if text.startswith("#"):
            if found := _BUILT.fullmatch(text):
                built[found[1]] = found[2]
            continue
        pin = _PIN.fullmatch(text)
        if pin is None:
            raise RecipeError(f"{path}:{line}: expected name==version --hash=sha256:..., got {shown(text)}")
        name = normalized(pin[1])
        if name in pins:
            raise RecipeError(f"{path}:{line}: expected each package once, got {name} again")
        pins[name] = pin[2]
    return Lock(stack=path.stem, torch=built.pop("torch", None), pins=pins, beside_torch=built)


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


def of_torch(name: str) -> bool:
    """Whether a distribution is torch or one that its vendors ship with it (normalized name); the machine chooses those."""
    return _VENDOR.fullmatch(name) is not None


def compare(lock: Lock, *, installed: Installed = installed_version) -> Drift:
    """What differs between a lock and the interpreter; the build tag (``+cpu``) of torch and its kind is left to the machine."""
    missing: list[str] = []
    different: list[OtherVersion] = []
    for name, locked in (lock.built | dict(lock.pins)).items():
        version = installed(name)
        if version is None:
            missing.append(name)
        elif (version.partition("+")[0] if name in lock.built else version) != locked:
            different.append(OtherVersion(name=name, locked=locked, installed=version))
    return Drift(
        stack=lock.stack,
        torch=lock.torch,
        torch_build=installed("torch"),
        missing=tuple(missing),
        different=tuple(different),
        beside_torch=lock.beside_torch,
    )


def enforce(drift: Drift, policy: Literal["error", "warn"]) -> str | None:
    """The sentence to record as a warning, None when nothing drifted.

    Raises:
        LockError: something drifted and the recipe calls that an error.
    """
    if drift and policy == "error":
        raise LockError(drift.sentence(), hint=lock_command(drift.stack, drift.torch, drift.beside_torch))
    return drift.sentence() or None


def lock_command(stack: str, torch: str | None, beside_torch: Mapping[str, str] | None = None) -> str:
    """The commands that install a stack as locked."""
    built = ({"torch": torch} if torch else {}) | dict(beside_torch or {})
    first = f"pip install {' '.join(f'{name}=={version}' for name, version in built.items())} && " if built else ""
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
