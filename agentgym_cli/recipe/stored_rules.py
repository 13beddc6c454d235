"""Rules of learning from stored data and of adapters. Sentences as in ``rules.py``; reads no file."""

from __future__ import annotations

from collections.abc import Iterator

from agentgym_cli.recipe.schema.algorithms import AgentEvolSpec, DpoSpec, SftSpec
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.recipe.yaml import KeyPath


def plays_training_tasks(run: Run) -> bool:
    """Whether a run plays tasks of the training split; False where all that it learns from is stored, or it learns nothing."""
    if run.warm_start is not None or run.train is None:
        return run.warm_start is not None
    algorithm = run.train.algorithm
    if isinstance(algorithm, SftSpec):
        return any(source.kind == "oracle" for source in algorithm.demonstrations)
    if isinstance(algorithm, DpoSpec):
        return any(source.kind == "explore" for source in algorithm.pairs)
    return True


def asks_oracle(run: Run) -> bool:
    """Whether a run collects demonstrations of the world's oracle."""
    algorithm = None if run.train is None else run.train.algorithm
    shown = algorithm.demonstrations if isinstance(algorithm, SftSpec | AgentEvolSpec) else ()
    return run.warm_start is not None or any(source.kind == "oracle" for source in shown)


def stored_rules(run: Run) -> Iterator[tuple[KeyPath, str]]:
    """Learning from stored data makes one update a step, and asks the oracle once; adapters are trained alone."""
    train = run.train
    if train is None:
        return
    if isinstance(train.algorithm, SftSpec | DpoSpec | AgentEvolSpec):
        for key, value in (("updates_per_step", train.updates_per_step), ("passes_per_step", train.passes_per_step)):
            if value != 1:
                yield ("train", key), f"expected 1 with algorithm {train.algorithm.kind}, whose step is one update, got {value}"
    yield from _once(run)
    if train.lora is not None and train.parameters != "all":
        yield ("train", "parameters"), f"expected all beside train.lora, which trains its adapters alone, got {train.parameters}"


def _once(run: Run) -> Iterator[tuple[KeyPath, str]]:
    """A task is played once in a phase."""
    algorithm = None if run.train is None else run.train.algorithm
    key, kind = ("pairs", "explore") if isinstance(algorithm, DpoSpec) else ("demonstrations", "oracle")
    sources = getattr(algorithm, key, ())
    played = [number for number, source in enumerate(sources) if source.kind == kind]
    if len(played) > 1:
        yield ("train", "algorithm", key, played[1]), f"expected one source of kind {kind}, got another"
