"""Who acts: the model and how it samples."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.schema.base import Count, NonNegative, Positive, section


@section
class ModelSpec:
    """A model folder and where its weights come from."""

    path: Annotated[str, Field(min_length=1)]
    """Folder with config.json and tokenizer.json (beside the recipe or shipped), or a hub name for engines that fetch."""
    revision: Annotated[str, Field(min_length=1)] | None = None
    """Pinned revision of a hub model; None for a folder. A hub name without one is a warning: the digest does not cover its weights."""
    weights: Literal["seed", "files"] = "files"
    """``seed`` makes them from the run's seed; ``files`` loads safetensors."""
    tokenizer: Annotated[str, Field(min_length=1)] | None = None
    """Folder with tokenizer.json (or hub name, for engines that fetch); None is the model's own."""
    chat_template: Annotated[str, Field(min_length=1)] | None = None
    """File with a chat template (Jinja); None is the tokenizer's own. The local engine uses one with ``prompt.turn_format`` ``template``."""


@section
class SamplingSpec:
    """How a token is drawn. The log-probabilities that learning uses are of the distribution drawn from."""

    temperature: Positive = 1.0
    """In training and, unless the evaluation says otherwise, in evaluation."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of the probability that is drawn from, the likeliest tokens first; 1 keeps all."""
    top_k: NonNegative = 0
    """How many of the likeliest tokens are drawn from; 0 keeps all."""


@section
class EndpointSpec:
    """A server that speaks OpenAI's protocol. It acts in ``agentgym eval`` where ``evaluation.policy`` is ``endpoint``; training never asks it."""

    url: Annotated[str, Field(min_length=1)]
    """Base address, which most servers end in ``/v1``. Outside the digest: an address changes no result."""
    model: Annotated[str, Field(max_length=300, pattern=r"^[^\x00-\x1f\x7f-\x9f]+$")]
    """The model as the server calls it; what the server says of it is stored beside the digest."""
    api: Literal["chat", "completions"] = "chat"
    """``chat`` sends messages, and the server lays them out by its own template; ``completions`` sends token ids, laid out here with the
    tokenizer of ``policy.model``, so that the trajectory is exactly what was read and sampled."""
    key_variable: Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$")] | None = None
    """Environment variable that holds the key, sent as a bearer token; None sends none. The value is never stored. Outside the digest."""
    stop: tuple[Annotated[str, Field(min_length=1, max_length=200)], ...] = ()
    """Texts that end a response, beside the model's own end."""
    send_seed: bool = True
    """Send each attempt's own seed, so that a server which honours it draws alike again; False where a server refuses one."""
    return_token_ids: Literal["auto", "required", "off"] = "auto"
    """Ask for token ids, as vLLM gives them, and keep them as the trajectory. ``auto`` goes on without them where there are none, and says so;
    ``required`` ends the run before its first episode."""
    logprobs: Literal["raw", "processed", "off"] = "raw"
    """What the server's log-probabilities are of: the distribution at temperature 1 (``raw``, vLLM's default), or the one drawn from
    (``processed``, vLLM with ``--logprobs-mode processed_logprobs``). A trajectory is kept only where they are of the one drawn from, or greedy."""
    max_in_flight: Count | None = None
    """Most requests that the server has at once; None is bounded by ``engine.slots`` alone. Outside the digest."""
    requests_per_minute: Annotated[float, Field(gt=0)] | None = None
    """Most requests to the server in a minute, evenly spread; None has no limit. Outside the digest."""
    tokens_per_minute: Annotated[float, Field(gt=0)] | None = None
    """Most tokens a minute, read and sampled; None has no limit. Outside the digest."""
    retry_seconds: Annotated[float, Field(ge=0)] = 120.0
    """How long one policy call goes on asking a server that is busy, broken or away (429, 5xx, no connection), in seconds; at most nine tenths of
    ``budgets.policy_call_seconds``. Then the attempt is an infra error."""
    price_per_million_input: Annotated[float, Field(ge=0)] | None = None
    """Price of a million tokens read, in any currency; None where it is not known."""
    price_per_million_output: Annotated[float, Field(ge=0)] | None = None
    """Price of a million tokens sampled, in the same currency; None where it is not known."""


@section
class PolicySpec:
    """The policy that is trained or evaluated."""

    model: ModelSpec | None = None
    """None where only an endpoint acts: in a recipe without ``train`` whose ``evaluation.policy`` needs no weights."""
    endpoint: EndpointSpec | None = None
    """None where nobody is asked over HTTP."""
    sampling: SamplingSpec = SamplingSpec()

    @property
    def own_model(self) -> ModelSpec:
        """The model whose files are at hand. Raises RecipeError where there is none."""
        if self.model is None:
            raise RecipeError("policy.model: expected a model, got null: this needs its files", "name its folder: policy.model.path=FOLDER")
        return self.model
