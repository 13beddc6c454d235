"""What a person asked a verb to do, before any file was read."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.addresses import address_problem
from agentgym_cli.recipe.rules import KEY_VARIABLE
from agentgym_cli.recipe.wording import listed, shown

_FILTERS = {"category": "categories", "split": "splits"}
_NUMBERS = re.compile(r"([A-Za-z][A-Za-z0-9_]*_)?(?P<first>[0-9]{1,9})(-(?P<last>[0-9]{1,9}))?")
_TASKS_HINT = "agentgym eval RECIPE --tasks 3,5-9 --tasks category=NAME --tasks split=NAME"
_NAMED = 5
"""Most mistakes that a message names."""


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
    request = replace(request, overrides=[*request.overrides, *_overrides(request, words)])
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


def _overrides(request: Request, words: EvaluationWords) -> list[str]:
    """What the words come to. Raises RecipeError, which names all that is wrong with them."""
    typed = {"--tasks": bool(words.tasks), "--limit": words.limit, "--samples": words.samples, "--temperature": words.temperature}
    given = [option for option, said in typed.items() if said not in (None, False)]
    if given and (request.resume or request.target.endswith(".json")):
        raise RecipeError(
            f"{listed(given)}: expected a recipe with {'it' if len(given) == 1 else 'them'}, got {shown(request.target)}, where that is frozen",
            "start a run of the recipe with it, or leave it out",
        )
    temperature, wrong = _temperature(words.temperature)
    problems = [*wrong, *(problem for said in words.tasks if (problem := _filter_problem(said)) is not None)]
    if problems:
        raise RecipeError("; ".join(problems[:_NAMED]), _TASKS_HINT if words.tasks else "--temperature 0.7, or 0 for greedy")
    said = [] if words.limit is None else [f"evaluation.limit={words.limit}"]
    said += [] if words.samples is None else [f"evaluation.samples_per_task={words.samples}"]
    return [*said, *temperature, *_only(words.tasks)]


def _temperature(said: str | None) -> tuple[list[str], list[str]]:
    """An override, or what is wrong. 0 is spelled ``greedy`` in a recipe."""
    if said is None:
        return [], []
    if said == "greedy":
        return ["evaluation.temperature=greedy"], []
    try:
        degrees = float(said)
    except ValueError:
        degrees = -1.0
    if not 0 <= degrees < inf:
        return [], [f"--temperature: expected a number of at least 0 or greedy, got {shown(said)}"]
    return [f"evaluation.temperature={'greedy' if degrees == 0 else repr(degrees)}"], []


def _filter_problem(said: str) -> str | None:
    """What is wrong with a filter of tasks, before anybody knows which tasks there are; None where nothing is."""
    name, equals, value = said.partition("=")
    if equals:
        return None if name in _FILTERS and value else f"--tasks {shown(said)}: expected category=NAME or split=NAME, got {shown(said)}"
    for part in said.split(","):
        found = _NUMBERS.fullmatch(part)
        if found is None:
            return f"--tasks {shown(said)}: expected task numbers (3,5-9), category=NAME or split=NAME, got {shown(part) if part else 'nothing'}"
        if found["last"] is not None and int(found["last"]) < int(found["first"]):
            return f"--tasks {shown(said)}: expected a range that rises, got {part}, which goes backwards"
    return None


def _only(tasks: Sequence[str]) -> list[str]:
    """Filters of tasks as overrides. Numbers of several words are put together, as are categories and splits."""
    kinds: dict[str, list[str]] = {"ids": [], "categories": [], "splits": []}
    for said in tasks:
        name, equals, value = said.partition("=")
        kinds[_FILTERS[name] if equals else "ids"].append(value if equals else said)
    ids = [f"evaluation.only.ids={json.dumps(','.join(kinds['ids']))}"] if kinds["ids"] else []
    return ids + [f"evaluation.only.{kind}={json.dumps(kinds[kind])}" for kind in ("categories", "splits") if kinds[kind]]
