"""Reads a dialect file: one family of environment servers, described as data. Knows no HTTP."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import get_args, get_type_hints

import orjson
from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from agentgym_cli.env.contract import ActionRule, EpisodeRules, ListedActions
from agentgym_cli.env.dialect_schema import DialectSpec
from agentgym_cli.env.pattern_trial import slow_text
from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.wording import asked, listed, shown
from agentgym_cli.recipe.yaml import YamlFile, read_text, read_yaml

SHIPPED = Path(__file__).parent / "dialects"
_LARGEST_PROMPT = 64 * 1024
_SPEC = TypeAdapter(DialectSpec)
_UNKNOWN_KEY = "unexpected_keyword_argument"
_QUOTED = re.compile(r"'([^']*)'")
_WORDS = {
    "missing": "a value",
    "bool_type": "true or false",
    "dataclass_type": "a mapping",
    "dict_type": "a mapping",
    "float_type": "a number",
    "int_type": "an integer",
    "string_pattern_mismatch": "text that matches {pattern}",
    "string_too_long": "at most {max_length} characters",
    "string_too_short": "text",
    "string_type": "text",
    "too_short": "at least {min_length} of them",
    "tuple_type": "a list",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """A dialect file, validated, with its prompts. The file and the prompt that a run uses belong to the run's digest."""

    path: Path
    prompt_path: Path
    system_prompt: str
    spec: DialectSpec
    format_prompts: Mapping[str, str] = field(default_factory=dict)
    """By action format, the instructions of those that have their own."""

    @property
    def name(self) -> str:
        """Prefix of task ids."""
        return self.spec.name

    def prompt_for(self, action_format: str) -> str:
        """Instructions to a model that answers in an action format."""
        return self.format_prompts.get(action_format, self.system_prompt)

    def rules(self) -> EpisodeRules:
        """What the episode loop must know."""
        spec = self.spec
        return EpisodeRules(
            env=spec.name,
            system_prompt=self.system_prompt,
            reward_kind=spec.success.reward_kind,
            success_reward=spec.success.at_least,
            invalid_action=spec.invalid_action,
            actions={
                name: ActionRule(
                    pattern=action.pattern,
                    remove=action.remove,
                    on_many=action.on_many,
                    on_none=action.on_none,
                    call=action.call,
                    functions=spec.functions if action.call is not None else {},
                )
                for name, action in spec.actions.items()
            },
            verified=spec.routes.verify is not None,
            oracle_seconds=spec.routes.oracle_deadline(0.0),
            random_always=spec.random.always,
            random_listed=tuple(ListedActions(pattern=listed.pattern, say=listed.say) for listed in spec.random.listed),
        )


def load_dialect(name_or_path: str | Path) -> Dialect:
    """Read a shipped dialect by name, or any dialect file by path (anything with a slash or an ending).

    Raises:
        RecipeError: no such dialect, or a file that says something that cannot be meant; names file, line and the nearest valid name.
    """
    path = _locate(name_or_path)
    file = read_yaml(path)
    spec = _validated(file)
    if path.parent != SHIPPED:
        _refuse_slow(spec, file)
    texts = {name: read_text(path.parent / name, _LARGEST_PROMPT) for name in {spec.prompt, *_own_prompts(spec).values()}}
    return Dialect(
        path=path,
        prompt_path=path.parent / spec.prompt,
        system_prompt=texts[spec.prompt],
        spec=spec,
        format_prompts={name: texts[file_name] for name, file_name in _own_prompts(spec).items()},
    )


def _own_prompts(spec: DialectSpec) -> dict[str, str]:
    return {name: action.prompt for name, action in spec.actions.items() if action.prompt is not None}


def _refuse_slow(spec: DialectSpec, file: YamlFile) -> None:
    """Refuse a pattern that hostile text can keep busy. Shipped dialects are tested instead."""
    places: list[tuple[tuple[str | int, ...], str | None]] = [
        *((("actions", name, "pattern"), action.pattern) for name, action in spec.actions.items()),
        *((("invalid_action", number), pattern) for number, pattern in enumerate(spec.invalid_action)),
        *((("random", "listed", number, "pattern"), each.pattern) for number, each in enumerate(spec.random.listed)),
        (("goal",), spec.goal),
    ]
    for place, pattern in places:
        text = None if pattern is None else slow_text(pattern)
        if text is not None:
            line = next(file.lines[place[:end]] for end in range(len(place), -1, -1) if place[:end] in file.lines)
            where = f"{file.path}:{line}: {'.'.join(map(str, place))}"
            hint = "leave out a repeat inside a repeat, and anchor what begins with one"
            raise RecipeError(f"{where}: expected a pattern that is done with hostile text in time, got one that is not with {shown(text)}", hint)


def shipped_dialects() -> tuple[str, ...]:
    """Names of the dialects inside the package, sorted."""
    return tuple(sorted(path.stem for path in SHIPPED.glob("*.yaml")))


def _locate(name_or_path: str | Path) -> Path:
    path = Path(name_or_path)
    if path.suffix or len(path.parts) > 1:
        return path
    known = shipped_dialects()
    if path.name not in known:
        hint = f"{asked(path.name, known)} A dialect of your own is named by its path".lstrip()
        raise RecipeError(f"dialect: expected one of {listed(known)}, got {shown(path.name)}", hint=hint)
    return SHIPPED / f"{path.name}.yaml"


def _validated(file: YamlFile) -> DialectSpec:
    try:
        return _SPEC.validate_json(orjson.dumps(file.data))
    except ValidationError as err:
        raise _explained(err, file) from err


def _explained(err: ValidationError, file: YamlFile) -> RecipeError:
    """The worst of pydantic's complaints (an unknown key explains a missing one), with the line of the innermost key that the file has."""
    worst = min(err.errors(include_url=False), key=lambda problem: problem["type"] != _UNKNOWN_KEY)
    place = tuple(part for part in worst["loc"] if part != "[key]")
    known = next(place[:end] for end in range(len(place), -1, -1) if place[:end] in file.lines)
    where = ": ".join(filter(None, (f"{file.path}:{file.lines[known]}", ".".join(map(str, place)))))
    unknown = worst["type"] == _UNKNOWN_KEY
    names = _names_at(place[:-1]) if unknown else _QUOTED.findall(worst.get("ctx", {}).get("expected", ""))
    got = place[-1] if unknown else worst["input"]
    if names:
        hint = (asked(got, names) or None) if isinstance(got, str) else None
        return RecipeError(f"{where}: expected {'one of ' * (len(names) > 1)}{listed(names)}, got {shown(got)}", hint)
    tail = {"value_error": "", "missing": ", got nothing"}.get(worst["type"], f", got {shown(got)}")
    return RecipeError(f"{where}: {_expected(worst)}{tail}")


def _expected(problem: ErrorDetails) -> str:
    """What pydantic expected, in our words where it has a template of ours."""
    template = _WORDS.get(problem["type"])
    if template is not None:
        return f"expected {template.format(**problem.get('ctx', {}))}"
    said = problem["msg"].removeprefix("Value error, ")
    return said if said.startswith("expected") else f"expected {said.removeprefix('Input should be ')}"


def _names_at(place: tuple[str | int, ...]) -> list[str]:
    """Field names of the section at ``place`` of a dialect file; numbers and names of entries lead nowhere further."""
    owner: type = DialectSpec
    for token in place:
        hints = get_type_hints(owner)
        if token in hints:
            owner = section_in(hints[str(token)]) or owner
    return [field.name for field in fields(owner)]


def section_in(hint: object) -> type | None:
    """The one section inside a type such as ``tuple[Match, ...]``, ``dict[Name, ActionSpec]`` or ``CloseRoute | None``."""
    if isinstance(hint, type) and is_dataclass(hint):
        return hint
    return next((found for inner in get_args(hint) if (found := section_in(inner)) is not None), None)
