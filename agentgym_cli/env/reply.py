"""A reply that reports no error, read field by field with its types checked. Foreign text never leaves a message unbounded or raw."""

from __future__ import annotations

import math
import reprlib
from dataclasses import dataclass
from typing import Literal, NoReturn

from agentgym_cli.env.contract import EnvFailure, InfraCause
from agentgym_cli.env.pointer import Json, PointerMiss, resolve
from agentgym_cli.recipe.canonical import canonical_json

SessionId = int | str

_LONGEST_ID = 200
_MOST_ACTIONS = 10_000
_BRIEF = reprlib.Repr()
"""What stands in a long document, of which no text may hide the others."""
_BRIEF.maxstring, _BRIEF.maxdict = 60, 20


class WrongForm(EnvFailure):
    """A reply lacks a field, or has one of another type."""


def shortened(value: object) -> str:
    """``value`` for a message: its repr, without control characters, at most 200 characters; a longer document has its keys sorted, its texts cut."""
    text = repr(value)
    if len(text) > 200 and isinstance(value, dict):
        text = _BRIEF.repr(value)
    return text if len(text) <= 200 else f"{text[:197]}..."


@dataclass(frozen=True, slots=True)
class Reply:
    """The body of a reply. Every method raises WrongForm(PROTOCOL) when the value at ``pointer`` is missing or of another type."""

    where: str
    """The call it answers, for messages."""
    body: Json

    def text(self, pointer: str) -> str:
        """A string."""
        value = self._at(pointer)
        return value if isinstance(value, str) else self._refuse(pointer, "a string", value)

    def shown(self, pointer: str, form: Literal["text", "json"]) -> str:
        """An observation: a string, or whatever is there as canonical JSON."""
        if form == "text":
            return self.text(pointer)
        value = self._at(pointer)
        try:
            return canonical_json(value)
        except (ValueError, RecursionError):
            return self._refuse(pointer, "a document of finite numbers, less than a thousand levels deep", value)

    def flag(self, pointer: str) -> bool:
        """True or false."""
        value = self._at(pointer)
        return value if isinstance(value, bool) else self._refuse(pointer, "true or false", value)

    def number(self, pointer: str, *, null: float | None = None) -> float:
        """A finite number; true is none, and null one only where ``null`` says which."""
        value = self._at(pointer)
        if value is None and null is not None:
            return null
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
        return self._refuse(pointer, "a finite number", value)

    def session(self, pointer: str) -> SessionId:
        """A session id."""
        value = self._at(pointer)
        if isinstance(value, str) and 0 < len(value) <= _LONGEST_ID:
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        return self._refuse(pointer, f"a session id (an integer, or a string of 1 to {_LONGEST_ID} characters)", value)

    def texts(self, pointer: str) -> tuple[str, ...]:
        """A list of strings."""
        value = self._at(pointer)
        if isinstance(value, list) and len(value) <= _MOST_ACTIONS:
            strings = tuple(entry for entry in value if isinstance(entry, str))
            if len(strings) == len(value):
                return strings
        return self._refuse(pointer, f"a list of at most {_MOST_ACTIONS} strings", value)

    def _at(self, pointer: str) -> Json:
        try:
            return resolve(self.body, pointer)
        except PointerMiss as err:
            hint = "is this server of the family that the dialect describes?"
            raise WrongForm(InfraCause.PROTOCOL, f"{self.where}: expected a value at {pointer!r}, got {shortened(self.body)}", hint) from err

    def _refuse(self, pointer: str, expected: str, value: Json) -> NoReturn:
        raise WrongForm(InfraCause.PROTOCOL, f"{self.where}: expected {pointer!r} to be {expected}, got {shortened(value)}")
