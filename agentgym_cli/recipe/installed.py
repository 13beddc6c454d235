"""Installed packages against their own word: every file that a package's RECORD names, by presence, size and digest. Imports none of them."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal, TypeAlias

from agentgym_cli.recipe.lock import normalized

Problem: TypeAlias = Literal["missing", "other size", "other content", "not readable"]
Find = Callable[[], Iterable[metadata.Distribution]]
"""Every installed distribution, in the order of sys.path."""

_ALGORITHMS = ("sha256", "sha384", "sha512")
"""Of the digests that a RECORD may use; any other proves nothing and never matches."""
_RECORD = "RECORD"


@dataclass(frozen=True, slots=True, kw_only=True)
class Altered:
    """A file that is no longer what its package installed."""

    package: str
    file: str
    """As the package's RECORD spells it: relative to the folder of packages."""
    problem: Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What a look at one package's files found."""

    files: int
    """Files whose digest the RECORD has."""
    altered: tuple[Altered, ...]


def find_installed(find: Find = metadata.distributions) -> dict[str, metadata.Distribution]:
    """Distribution by normalized name; of several with one name, the one that an import would find. Remains without a name are left out."""
    found: dict[str, metadata.Distribution] = {}
    for each in find():
        if "Name" in each.metadata and "Version" in each.metadata:
            found.setdefault(normalized(each.metadata["Name"]), each)
    return found


def check_files(name: str, distribution: metadata.Distribution) -> Checked:
    """Compare a package's files with its RECORD. Compiled files and those without a digest are skipped; a package without RECORD is altered."""
    try:
        entries = list(_entries(distribution.read_text("RECORD") or ""))
    except (UnicodeDecodeError, csv.Error):
        return Checked(files=0, altered=(Altered(package=name, file=_RECORD, problem="not readable"),))
    if not entries:
        return Checked(files=0, altered=(Altered(package=name, file=_RECORD, problem="missing"),))
    found = ((file, _problem(Path(str(distribution.locate_file(file))), digest, size)) for file, digest, size in entries)
    altered = tuple(Altered(package=name, file=file, problem=problem) for file, problem in found if problem)
    return Checked(files=len(entries), altered=altered)


def how_installed(distribution: metadata.Distribution) -> Literal["editable", "wheel"]:
    """Whether a package runs from a folder that may change under it."""
    try:
        origin = json.loads(distribution.read_text("direct_url.json") or "null")
    except ValueError:
        return "wheel"
    where = origin.get("dir_info") if isinstance(origin, dict) else None
    return "editable" if isinstance(where, dict) and where.get("editable") is True else "wheel"


def _entries(text: str) -> Iterator[tuple[str, str, str]]:
    for row in csv.reader(io.StringIO(text, newline="")):
        file, digest, size = (*row, "", "", "")[:3]
        if digest and not file.endswith(".pyc"):
            yield file, digest, size


def _problem(path: Path, digest: str, size: str) -> Problem | None:
    algorithm, _, wanted = digest.partition("=")
    try:
        if not path.is_file():
            return "missing"
        if size and str(path.stat().st_size) != size:
            return "other size"
        with path.open("rb") as file:
            got = hashlib.file_digest(file, algorithm).digest() if algorithm in _ALGORITHMS else None
        return None if got == base64.urlsafe_b64decode(wanted + "=" * (-len(wanted) % 4)) else "other content"
    except ValueError:
        return "other content"  # the digest is not base64
    except OSError:
        return "not readable"
