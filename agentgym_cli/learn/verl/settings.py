"""A frozen run as verl's configuration: every key that is set, and from which field of the recipe. Pure; imports no verl."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from agentgym_cli.errors import RecipeError
from agentgym_cli.learn.verl.asked import Asked, Launch, Value, Verbatim
from agentgym_cli.learn.verl.keys import REINFORCING, Keys, known_keys, unknown
from agentgym_cli.learn.verl.tables import EVERY, rows_of
from agentgym_cli.recipe.schema.computing import ClusterSpec
from agentgym_cli.recipe.schema.run import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One key of verl's."""

    key: str
    value: Value
    source: str
    """Field of the recipe that it is from, or why it is what it is."""


def settings(run: Run, launch: Launch) -> tuple[Setting, ...]:
    """Every key of verl's that a run sets; what the recipe says in verl's own words is last, so that it wins. Raises RecipeError."""
    asked = Asked(run=run, launch=launch)
    found = {key: Setting(key=key, value=value(asked), source=source) for key, source, value in rows_of(asked)}
    for name, text in sorted(launch.variables.items()):
        key = f"ray_kwargs.ray_init.runtime_env.env_vars.{name}"
        found[key] = Setting(key=key, value=text, source="every worker has it")
    for own in own_settings(asked.cluster):
        # Hydra takes a key that is added, and not listed in the reference, once only.
        found.pop(own.key, None)
        found[own.key] = own
    return tuple(found.values())


def own_settings(cluster: ClusterSpec, keys: Keys = REINFORCING) -> tuple[Setting, ...]:
    """Keys of verl's that a recipe sets itself. Raises RecipeError for one that verl does not have, or that a launch cannot leave to others."""
    found = []
    listed = keys.listed()
    for number, override in enumerate(cluster.verl):
        key, _, text = override.partition("=")
        if (problem := unknown(key, listed, sections=keys.open)) is not None:
            raise RecipeError(f"cluster.verl[{number}]: {problem}", "agentgym train RECIPE --show-verl prints every key that is set")
        if key in keys.unread:
            raise RecipeError(f"cluster.verl[{number}]: expected a key that changes something, got {key!r}, which nothing reads here", "leave it out")
        if (hung := next((name for name in keys.reserved if name == key or name.startswith(f"{key}.")), None)) is not None:
            field = keys.reserved[hung]
            hint = "leave it to the launch" if field is None else f"{field} says it in the recipe"
            raise RecipeError(f"cluster.verl[{number}]: expected a key that schedule and records do not hang on, got {key!r}", hint)
        found.append(Setting(key=key, value=Verbatim(text), source=f"cluster.verl[{number}]"))
    return tuple(found)


def arguments(found: Sequence[Setting], *, keys: frozenset[str] | None = None) -> list[str]:
    """Settings as words of verl's command line; what its reference does not list is added with ``+``."""
    listed = known_keys() if keys is None else keys
    return [f"{'' if each.key in listed else '+'}{each.key}={_spelled(each.value)}" for each in found]


def _spelled(value: Value) -> str:
    """A value in Hydra's grammar: text in quotes, so that nothing in it means anything."""
    if isinstance(value, tuple):
        return f"[{','.join(map(_spelled, value))}]"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Verbatim):
        return str(value)
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def table() -> Iterator[tuple[str, str]]:
    """Every key that can be set, and the field it is from, in order; for the docs and for tests."""
    for key, source, _ in EVERY:
        yield key, source


def markdown(found: Iterable[tuple[str, str]] | None = None) -> str:
    """The table, or another one like it, as Markdown: each field and the keys that it sets."""
    keys: dict[str, list[str]] = {}
    for key, source in table() if found is None else found:
        keys.setdefault(source, []).append(f"`{key}`")
    rows = [f"| {_marked(source)} | {', '.join(named)} |" for source, named in keys.items()]
    return "\n".join(["| from | verl's keys |", "|---|---|", *rows]) + "\n"


def _marked(source: str) -> str:
    """A source that begins with a field of the recipe has it as code."""
    first, blank, rest = source.partition(" ")
    field, comma, _ = first.partition(",")
    return f"`{field}`{comma}{blank}{rest}" if "." in field else source
