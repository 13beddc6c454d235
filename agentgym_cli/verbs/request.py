"""What a person asked a verb to do, before any file was read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.addresses import address_problem
from agentgym_cli.recipe.rules import KEY_VARIABLE
from agentgym_cli.recipe.wording import shown


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChoice:
    """Which policy an evaluation runs."""

    kind: str | None = None
    """``oracle``, ``random``, ``scripted``, ``checkpoint`` or ``endpoint``; None is whatever else is named here, else whom the recipe names."""
    checkpoint: Path | None = None
    """Checkpoint folder, or the folder of a run (its last checkpoint)."""
    script: Path | None = None
    """JSON lines of {task, actions} for ``scripted``."""
    endpoint: str | None = None
    """Base address of a server of OpenAI's protocol; the recipe's otherwise."""
    model: str | None = None
    """The model as that server calls it; None is the recipe's where it names no address here, else the only one that the server has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The words of one ``train`` or ``eval`` command."""

    target: str
    """Recipe, frozen run, or folder of a run."""
    overrides: list[str]
    resume: bool = False
    runs_dir: Path | None = None
    database: Path | None = None
    allow_degraded: bool = False
    allow_drift: bool = False
    """Go on although files, or the interpreter, are not what the run was frozen with; what is let through is recorded."""
    policy: PolicyChoice | None = None
    """None for ``train``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationWords:
    """What one ``eval`` command says of its policies and tasks."""

    policy: str | None = None
    script: Path | None = None
    checkpoints: Sequence[Path] = ()
    endpoints: Sequence[str] = ()
    """``URL`` or ``URL=MODEL``."""
    model: str | None = None
    """For every endpoint that names none."""
    tasks: Sequence[str] = ()
    """``textcraft_3,5-9``, ``category=NAME`` or ``split=NAME``."""
    limit: int | None = None
    samples: int | None = None
    temperature: str | None = None


def evaluations(request: Request, words: EvaluationWords) -> list[Request]:
    """One request for each policy that is named, in order, alike in all but that. Raises RecipeError for words that cannot be meant."""
    request = replace(request, overrides=[*request.overrides, *_overrides(words)])
    return [replace(request, policy=choice) for choice in _choices(words, resume=request.resume)]


def _choices(words: EvaluationWords, *, resume: bool) -> list[PolicyChoice]:
    if words.model is not None and not words.endpoints and words.policy != "endpoint":
        raise RecipeError(
            f"--model {shown(words.model)}: expected --endpoint beside it, got none", "agentgym eval RECIPE --endpoint URL --model NAME"
        )
    many = len(words.checkpoints) + len(words.endpoints)
    if many > 1 and resume:
        raise RecipeError(f"--resume: expected one run, which has one policy, got {many} policies", "agentgym eval runs/NAME --resume")
    if many > 1 and (words.policy is not None or words.script is not None):
        raise RecipeError("--policy: expected checkpoints and endpoints alone where several policies are named, got another beside them")
    if many <= 1:
        first = words.checkpoints[0] if words.checkpoints else None
        url, model = _endpoint(words.endpoints[0], words.model) if words.endpoints else (None, words.model)
        return [PolicyChoice(kind=words.policy, checkpoint=first, script=words.script, endpoint=url, model=model)]
    told = [_endpoint(said, words.model) for said in words.endpoints]
    ours = [PolicyChoice(checkpoint=path) for path in words.checkpoints]
    return [*ours, *(PolicyChoice(endpoint=url, model=model) for url, model in told)]


def _endpoint(said: str, model: str | None) -> tuple[str, str | None]:
    url, equals, named = said.partition("=")
    if equals and not named:
        raise RecipeError("--endpoint: expected URL or URL=MODEL, got no model behind the =")
    # Before it is an override or a name, which are repeated.
    if (problem := address_problem(url, variable=KEY_VARIABLE)) is not None:
        raise RecipeError(f"--endpoint: expected http://HOST:PORT/v1 or https://HOST/v1, got {problem}")
    return url, named or model


def _overrides(words: EvaluationWords) -> list[str]:
    said = [] if words.limit is None else [f"evaluation.limit={words.limit}"]
    said += [] if words.samples is None else [f"evaluation.samples_per_task={words.samples}"]
    if words.temperature is not None:
        said.append(f"evaluation.temperature={_temperature(words.temperature)}")
    return said + _only(words.tasks)


def _temperature(said: str) -> str:
    """A number of a recipe: 0 is spelled ``greedy`` there."""
    if said == "greedy":
        return said
    try:
        degrees = float(said)
    except ValueError as err:
        raise RecipeError(f"--temperature: expected a number or greedy, got {shown(said)}") from err
    return "greedy" if degrees == 0 else repr(degrees)


def _only(tasks: Sequence[str]) -> list[str]:
    """Filters of tasks as overrides. Numbers of several words are put together, as are categories and splits."""
    kinds: dict[str, list[str]] = {"ids": [], "categories": [], "splits": []}
    for said in tasks:
        name, equals, value = said.partition("=")
        kind = {"": "ids", "category": "categories", "split": "splits"}.get(name if equals else "")
        if kind is None or not (value or not equals):
            raise RecipeError(f"--tasks {shown(said)}: expected task numbers (3,5-9), category=NAME or split=NAME, got {shown(said)}")
        kinds[kind].append(value if equals else said)
    ids = [f"evaluation.only.ids={json.dumps(','.join(kinds['ids']))}"] if kinds["ids"] else []
    return ids + [f"evaluation.only.{kind}={json.dumps(kinds[kind])}" for kind in ("categories", "splits") if kinds[kind]]
