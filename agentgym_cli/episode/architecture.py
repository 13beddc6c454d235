"""Which networks the local engine can run, read from a model's config.json. Loads no tensors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from agentgym_cli.errors import PolicyError
from agentgym_cli.recipe.wording import listed, shown

Kind: TypeAlias = Literal["llama", "qwen2"]
KINDS: Mapping[str, Kind] = {kind: kind for kind in get_args(Kind)}
_PLAIN = {
    "hidden_act": "silu",
    "use_sliding_window": False,
    "mlp_bias": False,
    "attention_bias": False,
}
"""Settings of which the sampler knows one value; a config that has none of them has that one."""
_HINT = "agentgym probe RECIPE --policy shows every check; docs/engines.md lists what each engine can do"


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """A network that the local engine knows."""

    kind: Kind
    settings: Mapping[str, object]
    """What config.json says, as it says it."""


def read_architecture(folder: Path) -> Architecture:
    """The network of ``folder``/config.json. Raises PolicyError for one that the local engine does not compute exactly."""
    path = folder / "config.json"
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as err:
        raise PolicyError(f"{path}: expected a model configuration, got {type(err).__name__}: {str(err)[:200]}") from err
    said = raw.get("model_type") if isinstance(raw, dict) else None
    kind = KINDS.get(said) if isinstance(said, str) else None
    if kind is None:
        raise PolicyError(f"{path} model_type: expected {' or '.join(KINDS)}, got {shown(said)}", _HINT)
    for key, known in _PLAIN.items():
        if raw.get(key) not in (None, known):
            raise PolicyError(f"{path} {key}: expected {shown(known)}, which is what the local engine computes, got {shown(raw[key])}", _HINT)
    _refuse_other_places(path, raw)
    return Architecture(kind=kind, settings=raw)


def _refuse_other_places(path: Path, raw: Mapping[str, object]) -> None:
    """Rotary positions whose angles depend on the length so far differ between a sampler and a trainer."""
    said = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
    kind = (said.get("rope_type") or said.get("type")) if isinstance(said, dict) else said
    fixed = ("default", "linear", "llama3", "yarn")
    if kind is not None and kind not in fixed:
        raise PolicyError(f"{path} rope_scaling: expected rotary positions of a fixed kind ({listed(fixed)}), got {shown(kind)}", _HINT)
