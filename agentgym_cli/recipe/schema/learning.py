"""How experience becomes a better policy: horizon schedule, warm start, algorithm, evaluation, engine."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from agentgym_cli.recipe.schema.base import Count, Name, NonNegative, Positive, Share, section


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
    """Turn limit of each stage."""
    steps: Annotated[tuple[Count, ...], Field(min_length=1)]
    """Length of each stage in steps; one number stands for all; the last stage is open-ended."""


@section
class IncrementHorizon:
    """ScalingInter-RL as in the paper: the horizon grows by ``increment`` every ``every`` steps up to ``cap``."""

    kind: Literal["increment"] = "increment"
    start: Count
    """Horizon of the first steps."""
    increment: Count
    """Turns added each time."""
    every: Count
    """Steps between two additions."""
    cap: Count
    """Largest horizon."""


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
    """Longest demonstration used; longer ones are left out and counted."""


@section
class GrpoSpec:
    """Group relative policy optimization."""

    kind: Literal["grpo"] = "grpo"
    group_size: Annotated[int, Field(ge=2)]
    """Episodes of one task drawn together."""
    normalize_std: bool = True
    """Divide by the group's standard deviation."""
    average: Literal["episode", "token"] = "episode"
    """``episode`` weighs every episode alike, as the paper and AgentGym-RL's scripts do; ``token`` every action token, so that long episodes,
    mostly failures, weigh more."""
    clip: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """Half-width of the trust region on the probability ratio."""
    kl_coefficient: Annotated[float, Field(ge=0)] = 0.0
    """Weight of the k3 estimate of the KL divergence from the frozen warm-start policy; 0 keeps no reference."""
    entropy_coefficient: Annotated[float, Field(ge=0)] = 0.0
    """Weight of the entropy bonus over action tokens."""


@section
class TrainSpec:
    """Online reinforcement learning."""

    steps: Count
    """Optimizer steps; exactly this many are made."""
    tasks_per_step: Count
    """Tasks drawn for one step; each gives one group."""
    learning_rate: Positive
    """Of AdamW, constant after the warm-up."""
    warmup_steps: NonNegative = 0
    """Steps over which the learning rate rises in equal parts; an optimizer that knows nothing yet takes its largest steps first."""
    parameters: Literal["all", "gains"] = "all"
    """``gains`` trains only the gain vectors of the norms and the biases (LN tuning, arXiv 2312.11420; BitFit, arXiv 2106.10199): few enough
    that the noise of a small batch of episodes does not wash out what a small model knows."""
    algorithm: GrpoSpec
    updates_per_step: Count = 1
    """Minibatches that one step's trajectories are split into, one optimizer update each."""
    max_gradient_norm: Positive = 1.0
    """Gradients are scaled down to this norm, in one optimizer update."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    """Of AdamW."""
    checkpoint_every: Count = 25
    """Steps between checkpoints; the last step always has one."""
    max_action_induced_share: Share = 0.2
    """Share of action-induced infra errors in a step above which the run stops."""


@section
class EvaluationSpec:
    """How the policy is judged."""

    samples_per_task: Count = 1
    """Episodes of each task."""
    temperature: Positive | Literal["greedy"] | None = None
    """None uses the policy's sampling temperature; ``greedy`` takes the most likely token."""
    horizon: Count
    """Turn limit of evaluation episodes, independent of training's schedule."""
    limit: Count | None = None
    """Most tasks per split; the rest are reported as not scheduled by choice. None runs all."""


@section
class EngineSpec:
    """What does the computing."""

    kind: Literal["local", "verl"] = "local"
    """``local`` trains in one process, in torch; ``verl`` on Ray with vLLM."""
    stack: Name
    """Lock file (lockfiles/STACK.txt) that this profile runs in."""
    drift: Literal["error", "warn"] = "warn"
    """What a difference between the interpreter and the lock is."""
    slots: Count = 64
    """Rows of the decoding wave of the local engine; also the most episodes in flight."""
    threads: Count = 1
    """Torch threads; part of the fingerprint."""
    gpus: NonNegative = 0
    """GPUs that the profile needs on one node."""
    gpu_memory_gib: NonNegative = 0
    """Least memory of each, in GiB."""
