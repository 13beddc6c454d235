"""Who acts: the model and how it samples."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from agentgym_cli.recipe.schema.base import NonNegative, Positive, section


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
    """File with a chat template (Jinja); None is the tokenizer's own, or ``prompt.turn_format`` for the local engine."""


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
class PolicySpec:
    """The policy that is trained or evaluated."""

    model: ModelSpec
    sampling: SamplingSpec = SamplingSpec()
