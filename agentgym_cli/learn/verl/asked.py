"""What verl's settings are made of: a frozen run, and what a launch knows beside it. Pure; imports no verl."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agentgym_cli.recipe.schema.algorithms import OnlineSpec
from agentgym_cli.recipe.schema.computing import ClusterSpec
from agentgym_cli.recipe.schema.learning import LoraSpec, TrainSpec
from agentgym_cli.recipe.schema.run import Run


class Verbatim(str):
    """A value as a person wrote it, in Hydra's own grammar."""

    __slots__ = ()


Scalar = str | int | float | bool | None
Value = Scalar | tuple[Scalar, ...]
LOOP = "agentgym"
"""What our agent loop, trainer and advantages are registered under."""
PADDING_ROW = 128
"""Tokens of a row with which verl fills a batch up in place of an episode that failed (its ``SYNTHETIC_PADDING_SEQ_LEN``); a pass must hold it."""
ASYNC = "agentgym_async"
"""What our asynchronous trainer is registered under."""
NO_DUAL_CLIP = 1e9
"""verl's third clip, of negative advantages from below (arXiv 1912.09729), which the formulas here do not have, moved out of reach."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What a launch knows beside the run."""

    name: str
    """Of the run."""
    model: str
    """Folder of the model's files, or what verl fetches."""
    train_rows: str
    evaluation_rows: str
    loops: str
    """File that names our agent loop and what it is given."""
    checkpoints: str
    resume_from: str | None
    """Folder of the checkpoint that the run goes on from."""
    evaluate_first: bool
    """An evaluation comes before the first step that is made now."""
    evaluate_only: bool
    """Nothing but that evaluation is left to do."""
    variables: Mapping[str, str]
    """Environment variables of every worker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedOfRun:
    """A run that one of verl's trainers is told about."""

    run: Run

    @property
    def cluster(self) -> ClusterSpec:
        assert self.run.cluster is not None, "engine verl has a section cluster"
        return self.run.cluster

    @property
    def train(self) -> TrainSpec:
        assert self.run.train is not None, "only runs that train are launched"
        return self.run.train

    @property
    def rehearsal(self) -> bool:
        return self.cluster.gpus_per_node == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(AskedOfRun):
    """What the values of the trainer that reinforces are made of."""

    launch: Launch

    @property
    def algorithm(self) -> OnlineSpec:
        algorithm = self.train.algorithm
        assert isinstance(algorithm, OnlineSpec), "what learns from stored data is refused for this engine"
        return algorithm

    @property
    def lora(self) -> LoraSpec:
        assert self.train.lora is not None, "only adapters have these rows"
        return self.train.lora

    @property
    def mini_batch(self) -> int:
        """Tasks of one update."""
        return self.train.tasks_per_step // self.train.updates_per_step
