"""The endpoint of a run: checked before the run has a folder, what it says kept with the run, its policy open while episodes are played."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

from agentgym_cli.env.caller import HttpCaller
from agentgym_cli.env.pointer import Json
from agentgym_cli.episode.policies.build import reach_endpoint
from agentgym_cli.episode.policies.endpoint import EndpointPolicy
from agentgym_cli.episode.policies.endpoint_call import LlmServer
from agentgym_cli.episode.policies.endpoint_check import GREETING, TOKEN_SECONDS, Manner, Qualified, manner_of, models_of, qualify, refuse_uncounted
from agentgym_cli.episode.policies.endpoint_pace import Gate
from agentgym_cli.episode.tokens import TurnTokens
from agentgym_cli.errors import PolicyError, RecipeError
from agentgym_cli.recipe.data import find_data
from agentgym_cli.recipe.layers import read_chain
from agentgym_cli.recipe.schema.policy import EndpointSpec
from agentgym_cli.recipe.wording import listed, shown
from agentgym_cli.verbs.interrupts import run_interruptible
from agentgym_cli.verbs.prepare import Prepared
from agentgym_cli.verbs.progress import Progress
from agentgym_cli.verbs.recorder import Recorder
from agentgym_cli.verbs.request import PolicyChoice, Request
from agentgym_cli.verbs.turns import turn_tokens

ENDPOINT_PROFILE = "endpoint"
"""The profile that a recipe made for a served model has."""


def with_endpoint(request: Request) -> Request:
    """A request whose words about an endpoint are overrides of its recipe. A run that is frozen already takes them in ``moved``.

    Raises:
        PolicyError: no model is named, and the server does not have exactly one.
        RecipeError: another policy is named beside the endpoint.
    """
    choice = request.policy
    if choice is None or (choice.endpoint is None and choice.model is None) or request.resume or request.target.endswith(".json"):
        return request
    if choice.kind not in (None, "endpoint") or choice.checkpoint is not None or choice.script is not None:
        raise RecipeError("--endpoint: expected no other policy beside it, got one", "agentgym eval RECIPE --endpoint URL=MODEL")
    model = choice.model or run_interruptible(_only_model(str(choice.endpoint)), "nothing was started")
    said = [f"policy.endpoint.url={json.dumps(choice.endpoint)}"] if choice.endpoint is not None else []
    overrides = [*request.overrides, *_profile(request), *said, f"policy.endpoint.model={json.dumps(model)}", "evaluation.policy=endpoint"]
    return replace(request, overrides=overrides, policy=replace(choice, kind="endpoint", model=model))


def _profile(request: Request) -> list[str]:
    """A recipe's profile for endpoints is taken where it has one and nobody names another."""
    if any(override.startswith("profile=") for override in request.overrides):
        return []
    sections = [file.data.get("profiles") for file in read_chain(find_data(request.target, where="recipe"))]
    return [f"profile={ENDPOINT_PROFILE}"] if any(isinstance(each, dict) and ENDPOINT_PROFILE in each for each in sections) else []


def moved(prepared: Prepared, choice: PolicyChoice) -> Prepared:
    """A run that was frozen before, with the address that its endpoint has now. Raises RecipeError for another model, or where it asks nobody."""
    if choice.endpoint is None and choice.model is None:
        return prepared
    spec, run = prepared.run.policy.endpoint, prepared.run
    if spec is None or choice.model not in (None, spec.model):
        got = "nobody over HTTP" if spec is None else f"the model {shown(spec.model)}"
        raise RecipeError(f"--endpoint: expected what the run was frozen with, which asks {got}, got another", "start a new run from the recipe")
    spec = replace(spec, url=choice.endpoint or spec.url)
    run = replace(run, policy=replace(run.policy, endpoint=spec))
    return replace(prepared, run=run, frozen=replace(prepared.frozen, run=run))


async def _only_model(url: str) -> str:
    """The one model that a server without a key has."""
    caller = HttpCaller()
    try:
        server = LlmServer(caller, url, gate=Gate(requests_per_minute=None, tokens_per_minute=None, in_flight=None))
        models = await models_of(server)
    finally:
        await caller.aclose()
    if models is None or len(models) != 1:
        got = "no list of models" if models is None else f"{len(models)}: {listed(map(shown, sorted(models)))}"
        raise PolicyError(f"--endpoint {url}: expected a server with one model where none is named, got {got}", f"--endpoint {url}=MODEL")
    return next(iter(models))


def check_endpoint(prepared: Prepared, progress: Progress) -> Qualified:
    """Ask the recipe's endpoint for its models and for one token, and say what was found.

    Raises:
        PolicyError: nobody to ask, or a server that a run cannot use.
    """
    progress.note("endpoint", f"{endpoint_of(prepared).url} is asked for its models and one token, for up to {TOKEN_SECONDS:g} s")
    found = run_interruptible(_check(prepared), "nothing was started")
    for text in found.notes.values():
        progress.note("endpoint", text)
    return found


def endpoint_of(prepared: Prepared) -> EndpointSpec:
    """Whom the recipe asks over HTTP. Raises PolicyError where it asks nobody."""
    if prepared.run.policy.endpoint is None:
        raise PolicyError("--policy endpoint: expected a section policy.endpoint, got none", "agentgym eval RECIPE --endpoint URL=MODEL")
    return prepared.run.policy.endpoint


@asynccontextmanager
async def open_endpoint(prepared: Prepared, qualified: Qualified, recorder: Recorder, progress: Progress) -> AsyncIterator[EndpointPolicy]:
    """The policy for as long as the block runs. What the check found, and what replies turn out to lack, is recorded."""
    run, spec = prepared.run, endpoint_of(prepared)
    _record(recorder, spec, qualified.passed, "pass")
    _record(recorder, spec, qualified.notes, "known deviation")
    server, caller = reach_endpoint(spec)
    policy = EndpointPolicy(
        server,
        qualified.manner,
        system_prompt=prepared.system_prompt,
        budgets=run.budgets,
        tokens=_turn_tokens(prepared, spec),
        retry_seconds=spec.retry_seconds,
        give_up_after=run.retry.give_up_after,
        calls=run.prompt.action_format == "function_call",
    )
    try:
        yield policy
    finally:
        await caller.aclose()
        later = {name: text for name, text in policy.notes.items() if name not in qualified.notes}
        _record(recorder, spec, later, "known deviation")
        for text in later.values():
            progress.warn(f"{spec.url}: {text}")


def _record(recorder: Recorder, spec: EndpointSpec, said: Mapping[str, str], result: str) -> None:
    for name, text in said.items():
        recorder.probed(spec.url, f"endpoint: {name}", result, text, 0.0)


async def _check(prepared: Prepared) -> Qualified:
    spec, budgets = endpoint_of(prepared), prepared.run.budgets
    tokens = _turn_tokens(prepared, spec)
    server, caller = reach_endpoint(spec)
    try:
        prompt = _greeting(prepared.system_prompt, tokens)
        found = await qualify(server, spec, _manner(prepared, spec, tokens), prompt=prompt, seconds=budgets.policy_call_seconds)
        refuse_uncounted(found.manner, budgets, spec.url)
        return found
    finally:
        await caller.aclose()


def _manner(prepared: Prepared, spec: EndpointSpec, tokens: TurnTokens | None) -> Manner:
    sampling, temperature = prepared.run.policy.sampling, prepared.run.evaluation.temperature
    degrees = 0.0 if temperature == "greedy" else temperature or sampling.temperature
    return manner_of(spec, sampling, degrees, tokens=tokens)


def _greeting(system_prompt: str, tokens: TurnTokens | None) -> dict[str, Json]:
    if tokens is not None:
        return {"prompt": [*tokens.initial(system_prompt, GREETING)]}
    instructions: list[Json] = [{"role": "system", "content": system_prompt}] if system_prompt else []
    return {"messages": [*instructions, {"role": "user", "content": GREETING}]}


def _turn_tokens(prepared: Prepared, spec: EndpointSpec) -> TurnTokens | None:
    """What lays out prompts, for a server that is sent token ids."""
    if spec.api == "chat":
        return None
    return turn_tokens(prepared.run, beside=prepared.frozen.beside)
