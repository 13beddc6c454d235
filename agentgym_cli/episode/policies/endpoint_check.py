"""The check of an LLM server before a run: is it one, has it the model, does it answer, and which extras does it know?"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from agentgym_cli.env.pointer import Json
from agentgym_cli.episode.clock import EpisodeClock
from agentgym_cli.episode.policies.endpoint_call import FIRST_PAUSE_SECONDS, LlmServer, Patience, Refused
from agentgym_cli.episode.policies.endpoint_counts import believed
from agentgym_cli.episode.policies.endpoint_reply import Api, Said, read_said
from agentgym_cli.episode.policies.endpoint_transcript import NO_IDS, Wanted
from agentgym_cli.episode.policies.failures import PolicyProtocol
from agentgym_cli.episode.policies.protocol import ContextFull
from agentgym_cli.episode.tokens import TurnTokens
from agentgym_cli.errors import PolicyError
from agentgym_cli.recipe.schema.policy import EndpointSpec, SamplingSpec
from agentgym_cli.recipe.schema.world import BudgetsSpec
from agentgym_cli.recipe.wording import alike, listed, shown

MODELS_SECONDS = 15.0
"""Deadline of the list of models, which no server computes."""
TOKEN_SECONDS = 60.0
"""Most that one token may take, whatever a call of the run may."""
WARM_SECONDS = 30.0
"""How long a server that is still loading its model is waited for."""
GREETING = "Hello"
_ADDRESS_HINT = "the address of most servers ends in /v1, e.g. http://127.0.0.1:8000/v1"
_LONGEST_LIST_PAUSE = 4.0
_SEED_BITS = 2**31 - 1
"""Of an attempt's seed, as many as every server takes."""
_LIMIT, _OTHER_LIMIT = "max_tokens", "max_completion_tokens"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How a server is asked in a run."""

    model: str
    api: Api
    constant: Mapping[str, Json]
    """Fields of every request."""
    send_seed: bool
    limit: str = _LIMIT
    """Field that bounds a response."""
    token_ids: bool
    """Ask for token ids."""
    drawn: bool
    """Whether the server's log-probabilities are of the distribution drawn from."""
    context: int | None = None
    """Tokens of the model's context as the server says it; None where it does not."""
    vocabulary: int | None = None
    """Every id is below it; None where no tokenizer is at hand."""
    counts: bool = False
    """Whether the server says how many tokens a request took."""

    @property
    def path(self) -> str:
        """Behind the base address."""
        return "/chat/completions" if self.api == "chat" else "/completions"

    def fields(self, room: int, seed: int) -> dict[str, Json]:
        """All of a request but its messages or prompt."""
        return {**self.constant, self.limit: room, **({"seed": seed & _SEED_BITS} if self.send_seed else {})}


@dataclass(frozen=True, slots=True, kw_only=True)
class Qualified:
    """A server that a run can ask."""

    manner: Manner
    word: str
    """What it says that it serves, in one line; foreign text, bounded."""
    passed: Mapping[str, str]
    """What was checked, by name: a sentence each."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """What is not as it could be, by name: a sentence each."""


def manner_of(spec: EndpointSpec, sampling: SamplingSpec, temperature: float, *, tokens: TurnTokens | None = None) -> Manner:
    """How the recipe wants the server to be asked; ``temperature`` 0.0 is greedy, ``tokens`` lays prompts out where they are ids."""
    ids = spec.return_token_ids != "off"
    constant: dict[str, Json] = {"model": spec.model, "temperature": temperature}
    if spec.stop:
        constant["stop"] = list(spec.stop)
    if sampling.top_p < 1:
        constant["top_p"] = sampling.top_p
    if sampling.top_k > 0:
        constant["top_k"] = sampling.top_k
    if ids:
        constant |= {"return_token_ids": True, **_logprobs_field(spec)}
        if tokens is not None and tokens.stop_ids:
            constant["stop_token_ids"] = [*sorted(tokens.stop_ids)]
    as_raw = temperature == 0.0 or (temperature == 1.0 and sampling.top_p == 1.0 and sampling.top_k == 0)
    drawn = spec.logprobs == "processed" or (spec.logprobs == "raw" and as_raw)
    vocabulary = None if tokens is None else tokens.largest_id + 1
    return Manner(model=spec.model, api=spec.api, constant=constant, send_seed=spec.send_seed, token_ids=ids, drawn=drawn, vocabulary=vocabulary)


def _logprobs_field(spec: EndpointSpec) -> dict[str, Json]:
    if spec.logprobs == "off":
        return {}
    return {"logprobs": True} if spec.api == "chat" else {"logprobs": 0}


async def qualify(server: LlmServer, spec: EndpointSpec, manner: Manner, *, prompt: Mapping[str, Json], seconds: float) -> Qualified:
    """Ask for the models and for one token.

    Args:
        prompt: messages or ids of a greeting, as the run lays them out.
        seconds: deadline of a call in the run; here a minute is enough.

    Raises:
        PolicyError: no LLM server, another model, no answer, or no token ids where the recipe requires them.
    """
    entry = await _model_entry(server, spec)
    context = entry.get("max_model_len") if entry else None
    manner = replace(manner, context=context if type(context) is int and context > 0 else None)
    manner, said = await _first_token(server, manner, prompt, min(seconds, TOKEN_SECONDS))
    counted_prompt = said.prompt_tokens is not None or said.prompt_ids is not None or manner.api == "completions"
    manner = replace(manner, counts=counted_prompt and said.response_tokens is not None)
    notes = _notes(manner, said, spec)
    if spec.return_token_ids == "required" and notes:
        raise PolicyError(
            f"policy.endpoint.return_token_ids: expected what a trajectory needs, got {listed(notes.values())}",
            "serve the model with vLLM 0.10.2 or newer, or policy.endpoint.return_token_ids=auto",
        )
    keeps = manner.token_ids and "token ids" not in notes
    word = _word(spec.model, entry)
    passed = {"model": word, "answer": f"one token on {manner.path}"}
    if keeps and not notes:
        passed["token ids"] = "prompt and response ids with log-probabilities"
    return Qualified(manner=replace(manner, token_ids=keeps, drawn=manner.drawn and not notes), word=word, passed=passed, notes=notes)


async def _model_entry(server: LlmServer, spec: EndpointSpec) -> dict[str, Json] | None:
    """The model in the server's list; None where the server has no list. Raises PolicyError."""
    entries = await models_of(server)
    if entries is None:
        return None
    if spec.model not in entries:
        like = alike(spec.model, entries)
        raise PolicyError(
            f"policy.endpoint.model: expected a model that {server.url} has, got {shown(spec.model)}",
            f"it has {listed(map(shown, sorted(entries))) or 'none'}{f'; did you mean {shown(like)}?' if like else ''}",
        )
    return entries[spec.model]


async def models_of(server: LlmServer) -> dict[str, dict[str, Json]] | None:
    """What a server lists by name; None where it answers 404 or 405. Raises PolicyError for what is no LLM server."""
    try:
        body = await _listed(server)
    except Refused as refused:
        if refused.status in (404, 405):
            return None
        raise PolicyError(f"policy.endpoint: {refused.message}", "is the server running, and is the address right?") from refused
    except (PolicyProtocol, ContextFull) as err:
        raise _no_llm_server(server, str(err) or "a refusal") from err
    data = body.get("data") if isinstance(body, dict) else None
    if not isinstance(data, list):
        raise _no_llm_server(server, shown(body))
    named = [(entry.get("id"), entry) for entry in data if isinstance(entry, dict)]
    return {name: entry for name, entry in named if isinstance(name, str)}


async def _listed(server: LlmServer) -> Json:
    """The reply with the list, asked for again while the server is busy or loading."""
    clock, pause = EpisodeClock(), FIRST_PAUSE_SECONDS
    end = clock.time() + WARM_SECONDS
    while True:
        try:
            return await server.once("GET", "/models", seconds=MODELS_SECONDS)
        except Refused as refused:
            passes = refused.status == 429 or refused.status >= 500
            if not passes or clock.time() + pause > end:
                raise
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_LIST_PAUSE)


def _no_llm_server(server: LlmServer, got: str) -> PolicyError:
    return PolicyError(
        f"policy.endpoint.url: expected a server of OpenAI's protocol with a list of models at {server.url}/models, got {got}",
        _ADDRESS_HINT,
    )


async def _first_token(server: LlmServer, manner: Manner, prompt: Mapping[str, Json], seconds: float) -> tuple[Manner, Said]:
    """One token, with as many extras as the server knows."""
    refusal: PolicyError | None = None
    for tried in _simpler(manner):
        clock = EpisodeClock()
        patience = Patience(clock=clock, until=clock.time() + min(seconds, WARM_SECONDS), seconds=seconds, seed=0)
        try:
            body = await server.ask(tried.path, {**tried.fields(1, 0), **prompt}, tokens=1, patience=patience)
            said = read_said(body, api=tried.api, calls=True, where=f"POST {server.url}{tried.path}", vocabulary=tried.vocabulary)
            return tried, believed(said, Wanted(fields={**prompt}, tokens=_ids_of(prompt)), model_context=tried.context, budget=0)
        except ContextFull:
            raise PolicyError(f"policy.endpoint: expected an answer to {GREETING!r}, got a context that is too short for it") from None
        except PolicyProtocol as err:
            raise PolicyError(f"policy.endpoint: {err.message}", err.hint or _ADDRESS_HINT) from err
        except PolicyError as err:
            refusal = refusal or err
            if _status(err) not in (400, 422):
                break
    assert refusal is not None
    hint = _ADDRESS_HINT if _status(refusal) == 404 else refusal.hint or "the server's log says more"
    raise PolicyError(f"policy.endpoint: {refusal.message}", hint) from refusal


def _ids_of(prompt: Mapping[str, Json]) -> int:
    ids = prompt.get("prompt")
    return len(ids) if isinstance(ids, list) else 0


def refuse_uncounted(manner: Manner, budgets: BudgetsSpec, url: str) -> None:
    """Raise PolicyError where the run's tokens have a limit and the server says of no request how many it took."""
    limited = [name for name, limit in (("run_tokens", budgets.run_tokens), ("run_cost", budgets.run_cost)) if limit is not None]
    if limited and not manner.counts:
        raise PolicyError(
            f"budgets.{limited[0]}: expected a server that counts the tokens of a request in its reply's usage, got none from {url}",
            f"serve the model with usage, or run without the limit: {' '.join(f'budgets.{name}=null' for name in limited)}",
        )


def _status(err: PolicyError) -> int:
    """Of the reply behind an error; 0 where there was none."""
    return err.__cause__.status if isinstance(err.__cause__, Refused) else 0


def _simpler(manner: Manner) -> list[Manner]:
    """The manner, then without what only vLLM knows, then without log-probabilities; each with the older and the newer name of the limit."""
    extras = ("return_token_ids", "stop_token_ids")
    plain = replace(manner, token_ids=False, constant={key: value for key, value in manner.constant.items() if key not in extras})
    bare = replace(plain, constant={key: value for key, value in plain.constant.items() if key != "logprobs"})
    ways = [each for number, each in enumerate((manner, plain, bare)) if number == 0 or manner.token_ids]
    return [*ways, *(replace(each, limit=_OTHER_LIMIT) for each in (ways[-1],))]


def _notes(manner: Manner, said: Said, spec: EndpointSpec) -> dict[str, str]:
    """Why this run's episodes will have no trajectories; nothing where they will, or nobody asks for them."""
    if spec.return_token_ids == "off":
        return {}
    if said.token_ids is None or said.prompt_ids is None:
        return {"token ids": NO_IDS}
    if spec.logprobs == "off" or said.logprobs is None:
        return {"log-probabilities": "no log-probabilities for the sampled tokens: this run cannot be trained on"}
    if not manner.drawn:
        return {"log-probabilities": "the server's are of temperature 1 and the run draws from another distribution: it cannot be trained on"}
    return {}


def _word(model: str, entry: Mapping[str, Json] | None) -> str:
    """A model as the server describes it."""
    if entry is None:
        return f"{model}, of a server without a list of models"
    told = {"owned by": entry.get("owned_by"), "root": entry.get("root"), "context": entry.get("max_model_len")}
    return ", ".join([model, *(f"{name} {shown(value)}" for name, value in told.items() if value not in (None, model))])
