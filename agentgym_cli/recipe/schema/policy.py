"""Who acts: the model and how it samples."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from agentgym_cli.recipe.schema.base import Positive, section


@section
class ModelSpec:
    """A model folder and where its weights come from."""

    path: Annotated[str, Field(min_length=1)]
    """Folder with config.json and tokenizer.json (beside the recipe or shipped), or a hub name for engines that fetch."""
    revision: str | None = None
    """Pinned revision of a hub model; None for a folder."""
    weights: Literal["seed", "files"] = "files"
    """``seed`` makes them from the run's seed; ``files`` loads safetensors."""


@section
class PolicySpec:
    """The policy that is trained or evaluated."""

    model: ModelSpec
    temperature: Positive = 1.0
    """Sampling temperature, in training and, unless the evaluation says otherwise, in evaluation."""
