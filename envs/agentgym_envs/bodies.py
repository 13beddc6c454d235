"""What clients send: bodies and queries, checked as upstream's server checks them, with the same 422 replies. Knows no world."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TypeVar

import orjson
from pydantic import BaseModel, ValidationError

_MOST_NESTED = 200

B = TypeVar("B", bound=BaseModel)


class Unprocessable(Exception):
    """HTTP 422; ``detail`` is the list that the reply holds."""

    def __init__(self, detail: list[dict[str, object]]) -> None:
        super().__init__(detail)
        self.detail = detail


def read_body(model: type[B], body: bytes) -> B:
    """A JSON body as ``model``; numbers are coerced as upstream does (``"1"``, ``3.0``, ``true``). Unprocessable otherwise."""
    if not body:
        raise Unprocessable([_missing("body")])
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as err:
        raise Unprocessable([_invalid_json(body, err)]) from err
    if value is None:
        raise Unprocessable([_missing("body")])
    return _validated(model, value, "body")


def read_query(model: type[B], query: Mapping[str, str]) -> B:
    """The parameters of a GET request as ``model``; Unprocessable otherwise."""
    if missing := [name for name, field in model.model_fields.items() if field.is_required() and name not in query]:
        raise Unprocessable([_missing("query", name) for name in missing])
    return _validated(model, dict(query), "query")


def _validated(model: type[B], value: object, place: str) -> B:
    try:
        return model.model_validate(value, from_attributes=True)
    except ValidationError as err:
        detail = [{**error, "loc": [place, *error["loc"]], "input": _shown(error["input"])} for error in err.errors(include_url=False)]
        raise Unprocessable(detail) from err


def _shown(value: object) -> object:
    """The refused value as the reply repeats it; None when it is nested too deeply to be written."""
    try:
        orjson.dumps(value)
    except TypeError:
        return None
    return value


def _missing(*place: str) -> dict[str, object]:
    return {"type": "missing", "loc": list(place), "msg": "Field required", "input": None}


def _invalid_json(body: bytes, err: orjson.JSONDecodeError) -> dict[str, object]:
    """Upstream reads JSON with the standard library, whose words and position are kept where it refuses too."""
    reason, position = err.msg, err.pos
    # Nested any deeper, the standard library would run out of stack.
    if body.count(b"[") + body.count(b"{") < _MOST_NESTED:
        try:
            json.loads(body)
        except json.JSONDecodeError as refused:
            reason, position = refused.msg, refused.pos
        except ValueError as refused:
            reason = str(refused)
    return {"type": "json_invalid", "loc": ["body", position], "msg": "JSON decode error", "input": {}, "ctx": {"error": reason}}
