"""How experience becomes a better policy: horizon schedule, warm start, training, evaluation."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from agentgym_cli.recipe.schema.algorithms import AlgorithmSpec
from agentgym_cli.recipe.schema.base import Count, Name, NonNegative, Positive, Share, section
from agentgym_cli.recipe.schema.world import Category

TaskIds = Annotated[
    str, Field(max_length=100_000, pattern=r"^([A-Za-z][A-Za-z0-9_]*_)?\d{1,9}(-\d{1,9})?(,([A-Za-z][A-Za-z0-9_]*_)?\d{1,9}(-\d{1,9})?)*$")
]


LinearLayer = Literal["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
"""What every block of the models that the local engine loads has, by its name in transformers."""


@section
class FixedHorizon:
    """One horizon for the whole run."""

    kind: Literal["fixed"] = "fixed"
    turns: Count
    """Most turns of every training episode."""


@section
class StagesHorizon:
    """ScalingInter-RL as released: a list of horizons, each held for a number of steps; the last stays."""

    kind: Literal["stages"] = "stages"
    turns: Annotated[tuple[Count, ...], Field(min_length=1)]
    """Turn limit of each stage, in turns; it never falls."""
    steps: Annotated[tuple[Count, ...], Field(min_length=1)]
    """Length of each stage in steps; one number stands for all; the last stage is open-ended."""


@section
class IncrementHorizon:
    """ScalingInter-RL as in the paper: the horizon grows by ``increment`` every ``every`` steps up to ``cap``."""

    kind: Literal["increment"] = "increment"
    start: Count
    """Horizon of the first steps, in turns."""
    increment: Count
    """Turns added each time."""
    every: Count
    """Steps between two additions."""
    cap: Count
    """Largest horizon, in turns."""


HorizonSpec = Annotated[FixedHorizon | StagesHorizon | IncrementHorizon, Field(discriminator="kind")]


@section
class WarmStartSpec:
    """Supervised learning on oracle demonstrations before any reinforcement; reported as a phase of its own."""

    steps: Count
    """Optimizer updates."""
    demonstrations: Count
    """Distinct demonstrations collected first, from tasks of the training split in drawing order."""
    demonstrations_per_step: Count
    """Demonstrations in one update."""
    learning_rate: Positive
    """Of AdamW, constant."""
    max_turns: Count
    """Longest demonstration used, in turns; longer ones are left out and counted."""


@section
class LoraSpec:
    """Low-rank adapters (arXiv 2106.09685): the model stays as it is, and a product of two thin matrices beside each target is trained."""

    rank: Count
    """How many numbers an adapter makes of a token's hidden state before it makes the layer's output of them."""
    alpha: Positive
    """Their product is multiplied by ``alpha / rank``."""
    targets: Annotated[tuple[LinearLayer, ...], Field(min_length=1)] = ("q_proj", "v_proj")
    """Names of the linear layers that get adapters, in every block."""


@section
class TrainSpec:
    """Learning: reinforcement from episodes as they are played, or from stored data."""

    steps: Count
    """Optimizer steps; exactly this many are made."""
    tasks_per_step: Count
    """Tasks drawn for one step; each gives one group. With ``sft`` and ``agentevol`` demonstrations, with ``dpo`` pairs."""
    learning_rate: Positive
    """Of AdamW, constant after the warm-up."""
    warmup_steps: NonNegative = 0
    """Steps over which the learning rate rises in equal parts; an optimizer that knows nothing yet takes its largest steps first."""
    parameters: Literal["all", "gains"] = "all"
    """``gains`` trains only the gain vectors of the norms and the biases (LN tuning, arXiv 2312.11420; BitFit, arXiv 2106.10199): few enough
    that the noise of a small batch of episodes does not wash out what a small model knows."""
    lora: LoraSpec | None = None
    """Adapters that are trained, by a warm start too, in place of ``parameters``; None trains the model itself."""
    algorithm: AlgorithmSpec
    updates_per_step: Count = 1
    """Minibatches that one step's trajectories are split into, one optimizer update each."""
    passes_per_step: Count = 1
    """Times that one step's trajectories are gone through, each time in other minibatches."""
    importance_cap: Annotated[float, Field(ge=1)] | None = None
    """Truncated importance correction for a sampler that is not quite the trainer: each token's loss is multiplied by the trainer's probability over
    the sampler's before the step, at most this much, and ratios are taken to the trainer's. None takes ratios to the sampler's, on verl to the
    trainer's, without a weight."""
    max_gradient_norm: Positive = 1.0
    """Gradients are scaled down to this norm, in one optimizer update."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    """Of AdamW."""
    checkpoint_every: Count = 25
    """Steps between checkpoints; the last step always has one."""
    keep_checkpoints: Count | None = None
    """Newest checkpoints that are kept on the disk; an older one is removed once a newer one is complete. None keeps all. The local engine also keeps
    that of step 0. Outside the digest."""
    max_action_induced_share: Share = 0.2
    """Share of action-induced infra errors in a step above which the run stops."""


@section
class ChosenTasks:
    """Which tasks of the evaluation splits are run; whatever is given has to hold. The others are reported as not scheduled by choice."""

    ids: TaskIds | None = None
    """Task numbers, e.g. ``3,5-9`` or ``textcraft_3,5-9``; None takes all."""
    categories: Annotated[tuple[Category, ...], Field(min_length=1)] | None = None
    """Categories of the manifest; None takes all."""
    splits: Annotated[tuple[Name, ...], Field(min_length=1)] | None = None
    """Evaluation splits; None takes all."""


@section
class EvaluationSpec:
    """How the policy is judged."""

    protocol: Literal["own", "agenteval", "agentgym-rl", "agentgym2"] = "own"
    """Published procedure that the numbers claim to follow. Where they do not, the departures are a warning that is printed and stored: ``agenteval``
    (AgentGym) and ``agentgym-rl`` fix turns, samples and the number of tasks for each environment; what ``agentgym2`` does is not public, so
    nothing is comparable with it. ``own`` claims nothing."""
    policy: Literal["checkpoint", "endpoint", "oracle", "random"] = "checkpoint"
    """Who acts in ``agentgym eval`` where its command line names nobody. ``checkpoint`` is the model of ``policy.model`` on engine verl, and has to
    be named there on engine local; ``endpoint`` is ``policy.endpoint``."""
    samples_per_task: Count = 1
    """Episodes of each task."""
    temperature: Positive | Literal["greedy"] | None = None
    """None uses the policy's sampling temperature; ``greedy`` takes the most likely token."""
    horizon: Count
    """Turn limit of evaluation episodes, independent of training's schedule."""
    only: ChosenTasks | None = None
    """None runs every task."""
    limit: Count | None = None
    """Most tasks per split, of those that ``only`` chooses; the rest are reported as not scheduled by choice. None runs all."""
    every: Count | None = None
    """Steps between evaluations in the middle of training; None evaluates before the first step and after the last only."""
