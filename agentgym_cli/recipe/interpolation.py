"""Environment variables in values: ``${oc.env:AGENTGYM_NAME}`` and nothing else, from an allow-list that never holds a secret. Reads no variable."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from agentgym_cli.recipe.layers import Layer
from agentgym_cli.recipe.wording import shown
from agentgym_cli.recipe.yaml import KeyPath, YamlValue, parse_value

_CALL = re.compile(r"\$\{oc\.env:([^{}]*)\}")
_ALLOWED = re.compile(r"AGENTGYM_[A-Z0-9_]+")
_SECRET = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS?)$")
RULE = "a variable AGENTGYM_... that names no key, token, secret or password"


def allowed(name: str) -> bool:
    """True for a variable whose value may reach a recipe: what is read so is stored with the run."""
    return _ALLOWED.fullmatch(name) is not None and _SECRET.search(name) is None


def interpolated(layer: Layer, variables: Mapping[str, str]) -> Layer:
    """The layer with every allowed and set variable put in its place; what is left of ``${`` is for ``complaint`` to explain.

    Args:
        variables: allowed variables as they are set.
    """
    data = {key: _value(value, variables, layer, (key,)) for key, value in layer.data.items()}
    return replace(layer, data=data)


def _value(value: YamlValue, variables: Mapping[str, str], layer: Layer, path: KeyPath) -> YamlValue:
    if isinstance(value, dict):
        return {key: _value(inner, variables, layer, (*path, key)) for key, inner in value.items()}
    if isinstance(value, list):
        return [_value(inner, variables, layer, (*path, number)) for number, inner in enumerate(value)]
    if not isinstance(value, str) or "${" not in value or complaint(value, variables) is not None:
        return value
    text = _CALL.sub(lambda call: variables[call[1]], value)
    return _typed(text, f"{layer.place(path)}: {value}") if _CALL.fullmatch(value) else text


def _typed(text: str, where: str) -> YamlValue:
    """A whole value as YAML types it; a variable never makes a mapping or a list."""
    made = parse_value(text, where=where)
    return text if isinstance(made, dict | list) else made


def complaint(text: str, variables: Mapping[str, str]) -> str | None:
    """What is wrong with a text that has ``${`` in it, as ``expected ..., got ...``; None when nothing is."""
    for name in _CALL.findall(text):
        if not allowed(name):
            return f"expected {RULE}, got {shown(name)}"
        if name not in variables:
            return f"expected {name} to be set in the environment, got nothing"
    if "${" in _CALL.sub("", text):
        return f"expected a value, got {shown(text)}; only ${{oc.env:AGENTGYM_NAME}} is interpolated in a recipe"
    return None
