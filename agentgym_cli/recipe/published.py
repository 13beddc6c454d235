"""Published lists of task ids, as the AgentGym data sets have them: JSON, ``[{"item_id": "textcraft_31"}, ...]``. Knows no manifest."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.manifest import MAX_INDEX_DIGITS
from agentgym_cli.recipe.wording import asked, listed, shown
from agentgym_cli.recipe.yaml import read_text

MAX_BYTES = 50 << 20
_KEYS = ("item_id", "conversations")
_NUMBER = re.compile(rf"0|[1-9][0-9]{{0,{MAX_INDEX_DIGITS - 1}}}")


def read_published(path: Path, *, env: str) -> tuple[int, ...]:
    """Task numbers of a published list, in its order.

    Args:
        env: what the ids start with: the dialect's name.

    Raises:
        RecipeError: names the file, and the line or the entry (from 1) of the first thing that cannot be meant.
    """
    entries = _json(read_text(path, MAX_BYTES), path)
    if not isinstance(entries, list) or not entries:
        got = "an empty list" if entries == [] else shown(entries)
        raise RecipeError(f'{path}: expected a list of {{"item_id": "{env}_NUMBER"}}, got {got}')
    first: dict[int, int] = {}
    for place, entry in enumerate(entries, start=1):
        index = _index(entry, env, f"{path}: entry {place}")
        if first.setdefault(index, place) != place:
            raise RecipeError(f"{path}: entry {place}: item_id: expected each task once, got {env}_{index} again (first is entry {first[index]})")
    return tuple(first)


def _json(text: str, path: Path) -> object:
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse)
    except json.JSONDecodeError as err:
        got = "an empty file" if not text.strip() else f"{err.msg} at column {err.colno}"
        raise RecipeError(f"{path}:{err.lineno}: expected JSON, got: {got}") from err
    except (ValueError, RecursionError) as err:
        raise RecipeError(f"{path}: expected JSON, got: {err}") from err


def _index(entry: object, env: str, where: str) -> int:
    if not isinstance(entry, dict):
        raise RecipeError(f"{where}: expected a mapping with item_id, got {shown(entry)}")
    for key in entry:
        if key not in _KEYS:
            raise RecipeError(f"{where}: expected one of {listed(_KEYS)}, got the unknown key {shown(key)}{asked(key, _KEYS, before='; ')}")
    if not isinstance(entry.get("conversations"), list | None):
        raise RecipeError(f"{where}: conversations: expected a list or null, got {shown(entry['conversations'])}")
    if "item_id" not in entry:
        raise RecipeError(f"{where}: item_id: expected {env}_NUMBER, got nothing")
    return _number(entry["item_id"], env, f"{where}: item_id")


def _number(name: object, env: str, where: str) -> int:
    prefix, _, number = name.rpartition("_") if isinstance(name, str) else ("", "", "")
    numbered = _NUMBER.fullmatch(number) is not None
    if prefix == env and numbered:
        return int(number)
    hint = "an id that is a name tells no task number: say the numbers with ids, or in a manifest"
    if numbered:
        hint = f"this is a list of {shown(prefix)}, and the dialect of the recipe is {env}"
    raise RecipeError(f"{where}: expected {env}_NUMBER, got {shown(name)}", hint)


def _unique(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError(f"a mapping with a key twice ({listed(map(shown, dict(pairs)))})")
    return made


def _refuse(word: str) -> object:
    raise ValueError(f"the number {word}")
