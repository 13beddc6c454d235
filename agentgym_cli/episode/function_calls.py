"""A function call in a model's text becomes an action by a table of templates. Nothing is ever evaluated."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from agentgym_cli.env.dialect_schema import placeholders

MAX_CALL_CHARS = 8_192
"""A longer text is no call: a parser never runs on unbounded foreign text."""
_CALL = re.compile(r"(?:\s*#[^\n]*\n)*\s*[A-Za-z_][\w.]*\s*\(")
"""How a Python call begins, comments before it aside."""
_PLACE = re.compile(r"\{(\w+)\}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_LARGEST = 1e18
"""Below the 64 bits of any server; NaN and infinities are not below it."""


@dataclass(frozen=True, slots=True)
class _Call:
    function: str
    positional: Sequence[object]
    named: Mapping[str, object]


def called_action(text: str, *, syntax: Literal["json", "python"], functions: Mapping[str, Sequence[str]]) -> str | None:
    """The action that a call stands for; None for anything but a known function with the arguments of one of its templates.

    Args:
        syntax: ``json`` is an object with ``function_name`` and ``arguments`` (an object, or one written as a string); ``python`` one call
            with constant arguments, and a text that is no call is the action itself.
        functions: templates by name of a function, ``{argument}`` in place of each argument.
    """
    if len(text) > MAX_CALL_CHARS:
        return None
    if syntax == "python" and _CALL.match(text) is None:
        return text
    call = _json_call(text) if syntax == "json" else _python_call(text)
    return None if call is None else _said(call, functions.get(call.function, ()))


def _json_call(text: str) -> _Call | None:
    said = _loaded(text)
    if not isinstance(said, dict):
        return None
    function, arguments = said.get("function_name"), said.get("arguments", {})
    if isinstance(arguments, str):
        arguments = _loaded(arguments)
    if not isinstance(function, str) or not isinstance(arguments, dict):
        return None
    return _Call(function.strip(), (), arguments)


def _loaded(text: str) -> object:
    try:
        # Models write line feeds inside strings.
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def _python_call(text: str) -> _Call | None:
    tree = _parsed(text)
    if tree is None or not isinstance(tree.body, ast.Call) or not isinstance(tree.body.func, ast.Name):
        return None
    call = tree.body
    positional = [node.value for node in call.args if isinstance(node, ast.Constant)]
    named = {word.arg: word.value.value for word in call.keywords if word.arg is not None and isinstance(word.value, ast.Constant)}
    if len(positional) < len(call.args) or len(named) < len(call.keywords):
        return None
    return _Call(tree.body.func.id, positional, named)


def _parsed(text: str) -> ast.Expression | None:
    try:
        with warnings.catch_warnings():
            # Python warns of strange escapes in foreign text.
            warnings.simplefilter("ignore")
            return ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def _said(call: _Call, templates: Sequence[str]) -> str | None:
    """The template whose arguments are those of the call, filled in."""
    for template in templates:
        names = placeholders(template)
        given = {**dict(zip(names, call.positional, strict=False)), **call.named}
        overlapping = set(names[: len(call.positional)]) & set(call.named)
        if len(call.positional) <= len(names) and not overlapping and set(given) == set(names):
            return _filled(template, given)
    return None


def _filled(template: str, given: Mapping[str, object]) -> str | None:
    said = {name: _word(value) for name, value in given.items()}
    if any(word is None for word in said.values()):
        return None
    return _PLACE.sub(lambda place: said[place[1]] or "", template)


def _word(value: object) -> str | None:
    """An argument as an action says it; None for what no action can: other types, numbers without end, control characters."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if isinstance(value, str):
        return None if _CONTROL.search(value) else value.encode("utf-8", "replace").decode()
    return str(value) if abs(value) < _LARGEST else None
