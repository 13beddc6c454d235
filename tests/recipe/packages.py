"""A folder of installed packages, made as pip leaves one: files, and a dist-info folder whose RECORD names them."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Mapping
from importlib import metadata
from pathlib import Path


def record_line(file: str, content: bytes, algorithm: str = "sha256") -> str:
    """One line of a RECORD."""
    digest = base64.urlsafe_b64encode(hashlib.new(algorithm, content).digest()).rstrip(b"=").decode()
    return f'"{file}",{algorithm}={digest},{len(content)}'


def install(site: Path, name: str, version: str, files: Mapping[str, bytes] | None = None, *, record: str | None = None) -> Path:
    """Install a package; ``record`` replaces what its RECORD would say of its files. Returns its dist-info folder."""
    files = {f"{name}/__init__.py": b"one = 1\n"} if files is None else files
    for file, content in files.items():
        path = site / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    info = site / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    lines = [record_line(file, content) for file, content in files.items()]
    own = f"{info.name}/RECORD,,"
    (info / "RECORD").write_text("\n".join([*lines, own, ""]) if record is None else record, encoding="utf-8")
    return info


def finder(*sites: Path) -> Callable[[], Iterable[metadata.Distribution]]:
    """What finds the packages of these folders and no others."""
    return lambda: metadata.distributions(path=[str(site) for site in sites])
