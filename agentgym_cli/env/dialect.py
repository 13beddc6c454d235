"""Reads a dialect file: one family of environment servers, described as data. Knows no HTTP."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import get_args, get_type_hints

import orjson
from pydantic import TypeAdapter, ValidationError

from agentgym_cli.env.contract import ActionRule, EpisodeRules, ListedActions
from agentgym_cli.env.dialect_schema import DialectSpec
from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.wording import listed, nearest, shown
from agentgym_cli.recipe.yaml import YamlFile, read_text, read_yaml

SHIPPED = Path(__file__).parent / "dialects"
_LARGEST_PROMPT = 64 * 1024
_SPEC = TypeAdapter(DialectSpec)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """A dialect file, validated, with its prompt. Both files belong to a run's digest."""

    path: Path
    prompt_path: Path
    system_prompt: str
    spec: DialectSpec

    @property
    def name(self) -> str:
        """Prefix of task ids."""
        return self.spec.name

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
                name: ActionRule(pattern=action.pattern, remove=action.remove, on_many=action.on_many, on_none=action.on_none)
                for name, action in spec.actions.items()
            },
            verified=spec.routes.verify is not None,
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
    prompt_path = path.parent / spec.prompt
    return Dialect(path=path, prompt_path=prompt_path, system_prompt=read_text(prompt_path, _LARGEST_PROMPT), spec=spec)


def shipped_dialects() -> tuple[str, ...]:
    """Names of the dialects inside the package, sorted."""
    return tuple(sorted(path.stem for path in SHIPPED.glob("*.yaml")))


def _locate(name_or_path: str | Path) -> Path:
    path = Path(name_or_path)
    if path.suffix or len(path.parts) > 1:
        return path
    known = shipped_dialects()
    if path.name not in known:
        hint = f"did you mean {nearest(path.name, known)}? A dialect of your own is named by its path"
        raise RecipeError(f"dialect: expected one of {listed(known)}, got {shown(path.name)}", hint=hint)
    return SHIPPED / f"{path.name}.yaml"


def _validated(file: YamlFile) -> DialectSpec:
    try:
        return _SPEC.validate_json(orjson.dumps(file.data))
    except ValidationError as err:
        raise _explained(err, file) from err


def _explained(err: ValidationError, file: YamlFile) -> RecipeError:
    """The first of pydantic's complaints, with the line of the innermost key that the file has."""
    first = err.errors(include_url=False)[0]
    place = first["loc"]
    known = next(place[:end] for end in range(len(place), -1, -1) if place[:end] in file.lines)
    where = f"{file.path}:{file.lines[known]}: {'.'.join(map(str, place))}"
    if first["type"] != "unexpected_keyword_argument":
        got = "" if first["type"] == "missing" else f", got {shown(first['input'])}"
        return RecipeError(f"{where}: {first['msg']}{got}")
    names = _names_at(place[:-1])
    hint = f"did you mean {nearest(str(place[-1]), names)}?"
    return RecipeError(f"{where}: expected one of {listed(names)}, got {shown(place[-1])}", hint=hint)


def _names_at(place: tuple[str | int, ...]) -> list[str]:
    """Field names of the section at ``place`` of a dialect file."""
    owner: object = DialectSpec
    for token in place:
        if is_dataclass(owner) and isinstance(token, str):
            owner = _section_in(get_type_hints(owner).get(token))
    return [field.name for field in fields(owner)] if is_dataclass(owner) else []


def _section_in(hint: object) -> object:
    """The one section inside a type such as ``tuple[Match, ...]``, ``dict[Name, ActionSpec]`` or ``CloseRoute | None``."""
    if is_dataclass(hint):
        return hint
    return next((found for inner in get_args(hint) if (found := _section_in(inner)) is not None), None)
