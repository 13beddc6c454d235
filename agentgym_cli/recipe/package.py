"""The files of the installed program itself, each with its digest; equal in a checkout and in a wheel."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from agentgym_cli.recipe.canonical import file_digest
from agentgym_cli.recipe.data import PACKAGE

_OURS = (".py", ".yaml", ".txt")
_NEVER = ("__pycache__", "_data")


def package_files() -> dict[str, str]:
    """SHA-256 by name of what runs: code, dialects and prompts of ``agentgym_cli``, everything of ``agentgym_envs``."""
    files = folder_files(PACKAGE, prefix=PACKAGE.name, suffixes=_OURS)
    spec = find_spec("agentgym_envs")
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        files |= folder_files(Path(place), prefix="agentgym_envs")
    return files


def folder_files(folder: Path, *, prefix: str = "", suffixes: tuple[str, ...] = (), wanted: Callable[[str], bool] = lambda _: True) -> dict[str, str]:
    """SHA-256 of each file under a folder by its name relative to it, behind ``prefix``; hidden files, caches and ``_data`` left out.

    Args:
        suffixes: endings that are taken; none takes all.
        wanted: says of a name relative to the folder whether that file is read.
    """
    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        hidden = any(part.startswith(".") or part in _NEVER for part in parts)
        if hidden or path.suffix == ".pyc" or (suffixes and path.suffix not in suffixes) or not wanted("/".join(parts)) or not path.is_file():
            continue
        found["/".join((prefix, *parts) if prefix else parts)] = file_digest(path)
    return found
