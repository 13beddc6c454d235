"""Whether an action ends where the model was taught to end it."""

from __future__ import annotations

import json
from pathlib import Path

from agentgym_cli.episode.qualification.findings import NotMet
from agentgym_cli.episode.tokens import TurnTokens
from agentgym_cli.recipe.wording import shown

_FILES = ("generation_config.json", "config.json")


def check_stop(tokens: TurnTokens, *, model_folder: Path) -> str:
    """Compare the layout's end token with the model's own settings. Raises NotMet."""
    [end] = tokens.stop_ids
    said = f"actions end with {tokens.layout.end!r} ({end})"
    for name in _FILES:
        known = _end_ids(model_folder / name)
        if known is None:
            continue
        if end not in known:
            got = ", ".join(f"{shown(tokens.spelled(token))} ({token})" for token in known[:4] if 0 <= token < tokens.vocabulary) or str(known[:4])
            raise NotMet(f"{name} eos_token_id: expected {tokens.layout.end!r} ({end}), which ends an action, got {got}")
        others = [token for token in known if token != end]
        more = f"; {name} also names {', '.join(f'{shown(tokens.spelled(token))} ({token})' for token in others[:4])}, which stop nothing here"
        return f"{said}, as {name} says{more if others else ''}"
    return f"{said}; the model's folder says nothing of its own"


def _end_ids(path: Path) -> list[int] | None:
    """Ids of a file's eos_token_id; None where it says none."""
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as err:
        raise NotMet(f"{path.name}: expected JSON, got {type(err).__name__}: {str(err)[:200]}") from err
    ids = said.get("eos_token_id") if isinstance(said, dict) else None
    if ids is None:
        return None
    ids = ids if isinstance(ids, list) else [ids]
    if not ids or not all(type(each) is int for each in ids):
        raise NotMet(f"{path.name} eos_token_id: expected a token id or a list of them, got {shown(ids)}")
    return ids
