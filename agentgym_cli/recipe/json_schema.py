"""The JSON Schema of a recipe, for editors: every key with its meaning, what it may be, and nothing else. Made from the schema itself."""

from __future__ import annotations

import re
from typing import Any, cast

from pydantic import TypeAdapter

from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.recipe.shape import CHOSEN_KEYS

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def recipe_schema() -> dict[str, object]:
    """JSON Schema (draft 2020-12) of a recipe file.

    No key is required: what a file leaves out, the recipe that it extends, a profile or an override may say. Unknown keys are errors everywhere.
    """
    schema = cast("dict[str, Any]", _readable(TypeAdapter(Run).json_schema()))
    sections = schema.pop("$defs")
    values = {key: value for key, value in schema["properties"].items() if key not in CHOSEN_KEYS}
    sections["Profile"] = {
        "type": "object",
        "title": "Profile",
        "description": "Values that go on top of the recipe's own where this profile is chosen.",
        "properties": values,
        "additionalProperties": False,
    }
    own = {
        "extends": {"type": "string", "minLength": 1, "description": "Recipe that lies below this one."},
        "profiles": {
            "type": "object",
            "description": "Values by profile: where it runs. profile=NAME on the command line chooses one.",
            "additionalProperties": {"$ref": "#/$defs/Profile"},
        },
    }
    return {
        "$schema": DIALECT,
        "title": "Recipe of agentgym",
        "description": "An experiment: environment, tasks, policy, schedule, learning, evaluation and where it runs.",
        "type": "object",
        "properties": own | values,
        "additionalProperties": False,
        "$defs": dict(sorted(sections.items())),
    }


def _readable(value: Any) -> Any:
    """The same without required keys, titles that repeat the key, and what only Python says; a section needs no kind where one below has it."""
    if isinstance(value, list):
        return [_readable(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    kept = {{"oneOf": "anyOf"}.get(key, key): _readable(inner) for key, inner in value.items() if key not in ("required", "discriminator")}
    if isinstance(kept.get("title"), str) and "properties" not in kept:
        del kept["title"]
    if isinstance(kept.get("description"), str):
        kept["description"] = re.sub(r"\bNone\b", "null", " ".join(kept["description"].replace("``", "`").split()))
    return kept
