"""A record as one JSON line and back, exactly. Knows no files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from math import isfinite
from types import MappingProxyType, NoneType
from typing import cast, get_args, get_type_hints

import orjson

from agentgym_cli.env.contract import InfraCause
from agentgym_cli.episode.types import Outcome, StopReason
from agentgym_cli.store import records
from agentgym_cli.store.records import Record

Convert = Callable[[object], object]

KINDS: Mapping[str, type[Record]] = MappingProxyType(
    {
        "run": records.RunRecord,
        "segment": records.SegmentRecord,
        "scheduled": records.ScheduledRecord,
        "attempt": records.AttemptRecord,
        "outcome": records.OutcomeRecord,
        "metric": records.MetricRecord,
        "probe": records.ProbeRecord,
        "checkpoint": records.CheckpointRecord,
        "server": records.ServerRecord,
        "imported_run": records.ImportedRunRecord,
        "imported_scheduled": records.ImportedScheduledRecord,
        "imported_attempt": records.ImportedAttemptRecord,
    }
)
_NAMES = {cls: kind for kind, cls in KINDS.items()}
CHOICES: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "outcome": frozenset(Outcome),
        "first_outcome": frozenset(Outcome),
        "stop": frozenset(StopReason),
        "cause": frozenset(InfraCause),
        "status": frozenset({"finished", "interrupted", "failed"}),
        "result": frozenset({"pass", "fail", "n/a", "known deviation"}),
        "event": frozenset({"opened", "closed"}),
    }
)
_UNSCORED = frozenset({Outcome.INFRA_ERROR, Outcome.MISSING})
_LOWEST, _HIGHEST, _HIGHEST_SEED = -(2**63), 2**63 - 1, 2**64 - 1
_COUNTS = ("seed", "segment", "attempt", "attempts", "turn", "turns_count", "invalid_actions", "sample", "horizon", "token_ids")
_TOKENS = ("prompt_tokens", "action_tokens", "response_tokens", "context_tokens")
_NEVER_NEGATIVE = frozenset((*_COUNTS, *_TOKENS, "seconds", "policy_seconds", "env_seconds", "run_seconds"))
"""Fields that count or measure what there is."""


class Malformed(ValueError):
    """A record or a line that cannot be what it claims; the message says which field, what was expected and what was there."""


def kind_of(record: Record) -> str:
    """The ``kind`` of a record's line."""
    return _NAMES[type(record)]


def kind_of_class(record: type) -> str:
    """The same for all records of a class."""
    return _NAMES[record]


def normalise(record: Record) -> Record:
    """The record as reading gives it back: whole numbers of float fields as floats, enums as text, lone surrogates as U+FFFD.

    Raises:
        Malformed: a wrong type, a number that is not finite or does not fit 64 bits, an unknown outcome, a reward on an unscored outcome.
    """
    return _of_kind(kind_of(record))(record)


def encode(record: Record) -> bytes:
    """One line of a journal, newline included. Floats are written in their shortest exact form. Raises Malformed."""
    body = orjson.dumps(normalise(record))
    return b'{"kind":"' + kind_of(record).encode() + b'",' + body[1:] + b"\n"


def decode(line: bytes) -> Record:
    """The record of one line. Raises Malformed for broken JSON, an unknown kind, an unknown or missing field, or a value of the wrong type."""
    try:
        raw = orjson.loads(line)
    except orjson.JSONDecodeError as err:
        raise Malformed(f"expected one JSON object, got {line[:60]!r} ({err})") from err
    if not isinstance(raw, dict):
        raise Malformed(f"expected a JSON object, got {line[:60]!r}")
    kind = raw.pop("kind", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise Malformed(f"expected kind to be one of {', '.join(KINDS)}, got {kind!r}")
    return _of_kind(kind)(raw)


@cache
def _of_kind(kind: str) -> Callable[[object], Record]:
    return cast(Callable[[object], Record], _of(KINDS[kind], kind))


def _of(cls: type, where: str) -> Convert:
    """A function that makes a ``cls`` from another one or from a JSON object, checking every field."""
    converts = _field_converts(cls, where)
    required = {field.name for field in fields(cls) if field.default is MISSING}

    def convert(value: object) -> object:
        if isinstance(value, cls):
            raw: Mapping[str, object] = {name: getattr(value, name) for name in converts}
        elif isinstance(value, dict):
            raw = value
        else:
            raise Malformed(f"{where}: expected an object, got {value!r:.60}")
        if raw.keys() - converts.keys() or required - raw.keys():
            raise Malformed(_wrong_fields(where, set(raw), set(converts), required))
        made = cls(**{name: converts[name](given) for name, given in raw.items()})
        _check_reward(where, made)
        return made

    return convert


def _wrong_fields(where: str, given: set[str], known: set[str], required: set[str]) -> str:
    unknown, missing = sorted(given - known), sorted(required - given)
    if unknown:
        return f"{where}: expected the fields {', '.join(sorted(known))}, got the unknown {unknown[0]!r}"
    return f"{where}: expected a field {missing[0]!r}, got none"


def _check_reward(where: str, made: object) -> None:
    """A world's failure is never a reward."""
    if getattr(made, "outcome", None) in _UNSCORED and getattr(made, "reward", None) is not None:
        raise Malformed(f"{where}.reward: expected null with outcome {getattr(made, 'outcome', '')}, got {getattr(made, 'reward', '')!r}")


def _field_converts(cls: type, where: str) -> dict[str, Convert]:
    return {name: _convert(hint, f"{where}.{name}", name) for name, hint in get_type_hints(cls).items()}


def _convert(hint: object, where: str, name: str) -> Convert:
    parts = get_args(hint)
    if NoneType in parts:
        inner = _convert(parts[0], where, name)
        return lambda value: None if value is None else inner(value)
    if len(parts) == 2 and parts[1] is Ellipsis:
        return _tuple_of(parts[0], where, name)
    if isinstance(hint, type) and is_dataclass(hint):
        return _of(hint, where)
    highest = _HIGHEST_SEED if name == "seed" else _HIGHEST
    lowest = 0 if name in _NEVER_NEGATIVE else _LOWEST
    scalars: dict[object, Convert] = {
        str: lambda value: _text(value, where, CHOICES.get(name)),
        int: lambda value: _integer(value, where, lowest, highest),
        float: lambda value: _number(value, where, negative=name not in _NEVER_NEGATIVE),
        bool: lambda value: _flag(value, where),
    }
    return scalars[hint]


def _text(value: object, where: str, choices: frozenset[str] | None) -> str:
    if not isinstance(value, str):
        raise Malformed(f"{where}: expected text, got {value!r:.60}")
    if choices is not None and value not in choices:
        raise Malformed(f"{where}: expected one of {', '.join(sorted(choices))}, got {value!r:.60}")
    text = str.__str__(value)
    if text.isascii():
        return text
    # A lone surrogate is legal in JSON escapes, and so in what worlds and models say, but not in UTF-8.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _integer(value: object, where: str, lowest: int, highest: int) -> int:
    if type(value) is not int or not lowest <= value <= highest:
        raise Malformed(f"{where}: expected a whole number between {lowest} and {highest}, got {value!r:.60}")
    return value


def _number(value: object, where: str, *, negative: bool) -> float:
    if type(value) not in (float, int) or not isfinite(cast(float, value)):
        raise Malformed(f"{where}: expected a finite number, got {value!r:.60}")
    if not negative and cast(float, value) < 0:
        raise Malformed(f"{where}: expected a number of 0 or more, got {value!r:.60}")
    return float(cast(float, value))


def _flag(value: object, where: str) -> bool:
    if type(value) is not bool:
        raise Malformed(f"{where}: expected true or false, got {value!r:.60}")
    return value


def _tuple_of(element: object, where: str, name: str) -> Convert:
    """Lists of plain numbers are checked as a whole: an attempt can have many thousand tokens."""
    one = _convert(element, f"{where}[]", name)
    plain = element in (int, bool)

    def convert(value: object) -> tuple[object, ...]:
        if not isinstance(value, list | tuple):
            raise Malformed(f"{where}: expected a list, got {value!r:.60}")
        if plain and set(map(type, value)) == {element}:
            one(min(value)), one(max(value))
            return tuple(value)
        if element is float and set(map(type, value)) == {float} and all(map(isfinite, value)):
            return tuple(value)
        return tuple(map(one, value))

    return convert
