"""``agentgym convert FILE.gguf``: a GGUF file, also one inside an installed package, as a model folder that a recipe names. Loads torch."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path

from agentgym_cli.errors import RecipeError
from agentgym_cli.learn.gguf import convert_gguf
from agentgym_cli.recipe.canonical import file_digest
from agentgym_cli.recipe.data import shipped_root
from agentgym_cli.recipe.models import read_models
from agentgym_cli.recipe.wording import shown

_IN_PACKAGE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)/([A-Za-z0-9][A-Za-z0-9_.-]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """A folder that was written."""

    file: Path
    digest: str
    """SHA-256 of the file."""
    pinned: str | None
    """The model of lockfiles/models.yaml that has a file of this name and digest; None where none has."""
    folder: Path
    parameters: int


def convert(name: str, folder: Path) -> Converted:
    """Convert a file by its path, or by ``PACKAGE/FILE`` one inside an installed package.

    Raises:
        RecipeError: the file is nowhere.
        AgentgymError: as ``convert_gguf`` does.
    """
    file = _find(name)
    parameters = convert_gguf(file, folder)
    digest = file_digest(file)
    known = read_models(shipped_root() / "lockfiles" / "models.yaml")
    pinned = next((model for model, lock in known.items() if lock.files.get(file.name) == digest), None)
    return Converted(file=file, digest=digest, pinned=pinned, folder=folder, parameters=parameters)


def _find(name: str) -> Path:
    path = Path(name)
    if path.is_file():
        return path
    inside = _IN_PACKAGE.fullmatch(name)
    spec = importlib.util.find_spec(inside[1]) if inside else None
    if inside and spec is not None and spec.origin is not None and (found := Path(spec.origin).parent / inside[2]).is_file():
        return found
    raise RecipeError(f"convert: expected a GGUF file, or PACKAGE/FILE of an installed package, got {shown(name)}", "docs/convert.md has an example")
