"""Where files named by people are: beside the recipe, in the current folder, or shipped with the package. Reads none of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import agentgym_cli
from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.wording import alike, shown

PACKAGE = Path(agentgym_cli.__file__).parent
_SHIPPED_FOLDERS = ("recipes", "lockfiles")


def shipped_root() -> Path:
    """Folder that holds recipes/ and lockfiles/: ``_data`` of an installed package, else the root of the checkout."""
    installed = PACKAGE / "_data"
    return installed if installed.is_dir() else PACKAGE.parent


def try_find(name: str, *, beside: Sequence[Path] = ()) -> Path | None:
    """The file or folder called ``name``: in the folders of ``beside`` in order, then in the current folder, then shipped; None if nowhere."""
    if not name or "\0" in name:
        return None
    places = [*(folder / name for folder in beside), Path(name), shipped_root() / name, shipped_root() / "recipes" / name]
    return next((place for place in places if _exists(place)), None)


def _exists(place: Path) -> bool:
    try:
        return place.exists()
    except OSError:  # a name that is too long for any file
        return False


def find_data(name: str, *, beside: Sequence[Path] = (), where: str = "file") -> Path:
    """Like ``try_find``, where finding nothing is an error.

    Raises:
        RecipeError: ``where`` names something that is nowhere; the message has the nearest shipped name.
    """
    found = try_find(name, beside=beside)
    if found is not None:
        return found
    like = alike(name, shipped_names())
    hint = f"did you mean {like}?" if like else None
    raise RecipeError(f"{where}: expected a file or folder beside the recipe, in the current folder or shipped, got {shown(name)}", hint=hint)


def shipped_names() -> list[str]:
    """Names of shipped files and folders as a recipe or a command line can give them, sorted."""
    root = shipped_root()
    names: set[str] = set()
    for folder in _SHIPPED_FOLDERS:
        for path in (root / folder).rglob("*"):
            if path.suffix == ".py" or any(part.startswith((".", "__")) for part in path.relative_to(root).parts):
                continue
            names.add(path.relative_to(root).as_posix())
            if folder == "recipes":
                names.add(path.relative_to(root / folder).as_posix())
    return sorted(names)
