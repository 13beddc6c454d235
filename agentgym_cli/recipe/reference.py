"""The reference of every key of a recipe, made from the schema. ``python -m agentgym_cli.recipe.reference PAGE`` brings a page up to date."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agentgym_cli.recipe.canonical import canonical_json
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.recipe.shape import CHOSEN_KEYS, describe, fields_of, kinds_of, sections_of

_BLOCK = re.compile(r"(?<=<!-- recipe keys -->\n).*?(?=<!-- end -->)", re.DOTALL)


def render(page: str) -> str:
    """The page's text with the block between ``<!-- recipe keys -->`` and ``<!-- end -->`` as it should be now."""
    return _BLOCK.sub(lambda _: reference(), page)


def reference() -> str:
    """Markdown: a table for the root and for each section; key, what it expects, default, meaning."""
    return "\n".join(line for each in _sections(Run, "", "") for line in _block(*each))


def keys() -> Iterator[tuple[str, list[tuple[str, ...]]]]:
    """For each section its path, and for each key of it: name, what it expects, default, meaning; plain text."""
    for section, path, kind in _sections(Run, "", ""):
        rows = [tuple(re.sub(r"[`\\\\]", "", cell) for cell in cells) for cells in _rows(section, path)]
        yield f"{path}{f' of kind {kind}' if kind else ''}" if path else "the recipe", rows


def _block(section: type, path: str, kind: str) -> list[str]:
    title = f"### `{path}`{f' of kind `{kind}`' if kind else ''}" if path else "### The recipe"
    about = [_cell(section.__doc__ or ""), ""] if path else []
    rows = [f"| {' | '.join(cells)} |" for cells in _rows(section, path)]
    return [title, "", *about, "| key | expects | default | meaning |", "|---|---|---|---|", *rows, ""]


def _sections(section: type, path: str, kind: str) -> Iterator[tuple[type, str, str]]:
    yield section, path, kind
    for name, annotation in fields_of(section).items():
        inner = sections_of(annotation) or sections_of(element_of(annotation))
        for each in inner:
            yield from _sections(each, f"{path}.{name}".lstrip("."), kinds_of(each)[0] if len(inner) > 1 else "")


def _rows(section: type, path: str) -> Iterator[tuple[str, str, str, str]]:
    described = {name: info.description for name, info in section.__pydantic_fields__.items()}  # type: ignore[attr-defined]
    defaults = {field.name: field.default for field in dataclasses.fields(section)}
    for name, annotation in fields_of(section).items():
        if not path and name in CHOSEN_KEYS:
            continue
        inner = sections_of(annotation)
        expects = "a section" if len(inner) == 1 else describe(annotation)
        meaning = described[name] or " ".join(_sentence(each.__doc__) for each in inner[:1])
        if name == "kind" and not described[name]:
            meaning = "Chooses this kind of section."
        yield f"`{name}`", _expects(expects), _default(defaults[name]), _cell(meaning)


def _default(value: object) -> str:
    if value is dataclasses.MISSING:
        return "required"
    return "its defaults" if dataclasses.is_dataclass(value) else f"`{canonical_json(value)}`"


def element_of(annotation: Any) -> Any:
    """What a list holds, as far as a section is concerned."""
    bare = getattr(annotation, "__origin__", annotation)
    arguments = getattr(bare, "__args__", ())
    return arguments[0] if arguments else annotation


def _sentence(docstring: str | None) -> str:
    return " ".join((docstring or "").split())


def _cell(text: str) -> str:
    words = _sentence(text).replace("``", "`").replace("|", "\\|")
    return re.sub(r"\bNone\b", "`null`", words)


def _expects(text: str) -> str:
    return re.sub(r"that matches (\S+)", r"that matches `\1`", text).replace("|", "\\|")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        page = Path(name)
        page.write_text(render(page.read_text(encoding="utf-8")), encoding="utf-8")
