"""What each engine can do, as one table. A recipe that asks an engine for what it lacks is refused before anything starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from agentgym_cli.recipe.schema.algorithms import GrpoSpec
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.recipe.wording import listed
from agentgym_cli.recipe.yaml import KeyPath

ENGINES = ("local", "verl")


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """Something that a recipe can ask of its engine."""

    name: str
    """In words that follow ``engine local has no``."""
    key: KeyPath
    """Where a recipe asks for it."""
    asked: Callable[[Run], bool]
    engines: tuple[str, ...]
    """Engines that have it."""
    instead: str | None = None
    """How an engine that lacks it gets there all the same."""


def _algorithm(kind: str) -> Callable[[Run], bool]:
    return lambda run: run.train is not None and run.train.algorithm.kind == kind


def _samples(run: Run) -> bool:
    """False where only a server samples."""
    return run.train is not None or run.evaluation.policy != "endpoint"


_KIND = ("train", "algorithm", "kind")
FEATURES = (
    Feature(name="algorithm grpo", key=_KIND, asked=_algorithm("grpo"), engines=("local", "verl")),
    Feature(name="algorithm rloo", key=_KIND, asked=_algorithm("rloo"), engines=("local", "verl")),
    Feature(name="algorithm reinforce_plus_plus", key=_KIND, asked=_algorithm("reinforce_plus_plus"), engines=("local", "verl")),
    Feature(name="algorithm ppo", key=_KIND, asked=_algorithm("ppo"), engines=("local", "verl")),
    Feature(name="algorithm sft", key=_KIND, asked=_algorithm("sft"), engines=("local", "verl")),
    Feature(name="algorithm dpo", key=_KIND, asked=_algorithm("dpo"), engines=("local",)),
    Feature(name="algorithm agentevol", key=_KIND, asked=_algorithm("agentevol"), engines=("local",)),
    Feature(
        name="low-rank adapters",
        key=("train", "lora"),
        asked=lambda run: run.train is not None and run.train.lora is not None,
        engines=("local", "verl"),
    ),
    Feature(
        name="low-rank adapters in sft",
        key=("train", "lora"),
        asked=lambda run: run.train is not None and run.train.lora is not None and _algorithm("sft")(run),
        engines=("local",),
    ),
    Feature(
        name="evaluation in the middle of sft",
        key=("evaluation", "every"),
        asked=lambda run: run.evaluation.every is not None and _algorithm("sft")(run),
        engines=("local",),
    ),
    Feature(
        name="warm start",
        key=("warm_start",),
        asked=lambda run: run.warm_start is not None,
        engines=("local",),
        instead="train with algorithm sft, export the run, and start from its folder: policy.model.path=DIR",
    ),
    Feature(
        name="training of gains alone",
        key=("train", "parameters"),
        asked=lambda run: run.train is not None and run.train.parameters == "gains",
        engines=("local",),
    ),
    Feature(
        name="several passes over a step's trajectories",
        key=("train", "passes_per_step"),
        asked=lambda run: run.train is not None and run.train.passes_per_step > 1,
        engines=("local", "verl"),
    ),
    Feature(
        name="leaving out groups without spread",
        key=("train", "algorithm", "filter_zero_variance"),
        asked=lambda run: run.train is not None and isinstance(run.train.algorithm, GrpoSpec) and run.train.algorithm.filter_zero_variance,
        engines=("local",),
    ),
    Feature(
        name="rewards on turns",
        key=("reward", "credit"),
        asked=lambda run: run.reward.credit == "turn",
        engines=("local",),
    ),
    Feature(
        name="a CUDA device for one process",
        key=("engine", "device"),
        asked=lambda run: run.engine.device == "cuda",
        engines=("local",),
    ),
    Feature(
        name="the choice of precision",
        key=("engine", "precision"),
        asked=lambda run: run.engine.precision != "float32",
        engines=("local",),
    ),
    Feature(
        name="the choice of activation checkpointing",
        key=("engine", "activation_checkpointing"),
        asked=lambda run: run.engine.activation_checkpointing,
        engines=("local",),
    ),
    Feature(
        name="weights made from a seed",
        key=("policy", "model", "weights"),
        asked=lambda run: run.policy.model is not None and run.policy.model.weights == "seed",
        engines=("local",),
    ),
    Feature(
        name="sampling by top_p",
        key=("policy", "sampling", "top_p"),
        asked=lambda run: _samples(run) and run.policy.sampling.top_p < 1,
        engines=("verl",),
    ),
    Feature(
        name="sampling by top_k",
        key=("policy", "sampling", "top_k"),
        asked=lambda run: _samples(run) and run.policy.sampling.top_k > 0,
        engines=("verl",),
    ),
    Feature(
        name="chat templates",
        key=("policy", "model", "chat_template"),
        asked=lambda run: run.policy.model is not None and run.policy.model.chat_template is not None,
        engines=("local", "verl"),
    ),
    Feature(name="turn format words", key=("prompt", "turn_format"), asked=lambda run: run.prompt.turn_format == "words", engines=("local",)),
    Feature(
        name="asynchronous training",
        key=("cluster", "max_staleness"),
        asked=lambda run: run.cluster is not None and run.cluster.max_staleness > 0,
        engines=("verl",),
    ),
    Feature(name="cluster", key=("cluster",), asked=lambda run: run.cluster is not None, engines=("verl",)),
)


def lacking(run: Run) -> Iterator[tuple[KeyPath, str]]:
    """Every feature that the run asks for and its engine lacks: where, and ``expected ..., got ...``."""
    engine = run.engine.kind
    for feature in FEATURES:
        if engine not in feature.engines and feature.asked(run):
            otherwise = f"; or {feature.instead}" if feature.instead else ""
            yield feature.key, f"expected what engine {engine} can do, got {_value(run, feature)}; engine {listed(feature.engines)} can{otherwise}"


def _value(run: Run, feature: Feature) -> str:
    value: object = run
    for part in feature.key:
        value = getattr(value, str(part))
    return f"{value}" if isinstance(value, str | int | float) else feature.name


def table() -> str:
    """Markdown: one row for each feature, one column for each engine."""
    lines = [f"| a recipe may ask for | where | {' | '.join(ENGINES)} |", f"|---|---|{'---|' * len(ENGINES)}"]
    for feature in FEATURES:
        has = " | ".join("yes" if engine in feature.engines else "no" for engine in ENGINES)
        lines.append(f"| {feature.name} | `{'.'.join(map(str, feature.key))}` | {has} |")
    return "\n".join(lines) + "\n"
