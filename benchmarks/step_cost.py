"""CPU seconds of one GRPO step against the model's size, the turns of an episode and the vocabulary. No world and no tokenizer is in it.

    OMP_NUM_THREADS=1 python -m benchmarks.step_cost

64 episodes in groups of 8: each turn reads 8 tokens and samples 8, then one update over all of them. What is drawn is noise, which costs what words
cost. Each line is the least of several steps of one process on one thread, since work beside it only adds.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from agentgym_cli.episode.policies.protocol import SlotRequest
from agentgym_cli.episode.policies.sampler import TorchDecoder
from agentgym_cli.episode.tokens import TrajectoryBuilder
from agentgym_cli.learn.experience import Member
from agentgym_cli.learn.local import OnlineTrainer
from agentgym_cli.recipe.schema.algorithms import GrpoSpec
from agentgym_cli.recipe.schema.learning import TrainSpec

GROUPS, GROUP = 8, 8
HEAD = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a step is made of."""

    layers: int = 2
    hidden: int = 128
    vocabulary: int = 128
    turns: int = 4
    read: int = 8
    """Tokens that an episode reads in a turn."""
    sampled: int = 8
    """Tokens that it samples in a turn."""

    @property
    def context(self) -> int:
        """Tokens of an episode, and the place that padding is written at."""
        return self.turns * (self.read + self.sampled) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """CPU seconds of a step."""

    drawing: float
    learning: float

    @property
    def total(self) -> float:
        """Both."""
        return self.drawing + self.learning


def model_of(setting: Setting) -> Qwen2ForCausalLM:
    """A network from a seed, its heads 32 wide and its output layer the embedding."""
    config = Qwen2Config(
        vocab_size=setting.vocabulary,
        hidden_size=setting.hidden,
        intermediate_size=2 * setting.hidden,
        num_hidden_layers=setting.layers,
        num_attention_heads=setting.hidden // HEAD,
        num_key_value_heads=1,
        max_position_embeddings=max(512, setting.context),
        tie_word_embeddings=True,
    )
    torch.manual_seed(1)
    model = Qwen2ForCausalLM(config)
    model.train(False)
    return model


def trainer_of(model: Qwen2ForCausalLM) -> OnlineTrainer:
    """GRPO with one update a step."""
    spec = TrainSpec(steps=100, tasks_per_step=GROUPS, learning_rate=1e-4, algorithm=GrpoSpec(group_size=GROUP))
    return OnlineTrainer(model, spec, temperature=1.0, seed=1)


def draw(decoder: TorchDecoder, setting: Setting, *, step: int) -> list[list[Member]]:
    """A step's episodes, every other one of them paid 1."""
    noise = random.Random(step)
    builders = [TrajectoryBuilder() for _ in range(GROUPS * GROUP)]
    for turn in range(setting.turns):
        shown = [tuple(noise.randrange(setting.vocabulary) for _ in range(setting.read)) for _ in builders]
        asked = [
            SlotRequest(slot=slot, new_tokens=tokens, fresh=turn == 0, seed=1000 * step + slot, max_new=setting.sampled, temperature=1.0)
            for slot, tokens in enumerate(shown)
        ]
        for builder, tokens, reply in zip(builders, shown, decoder.decode(asked), strict=True):
            builder.add_context(tokens)
            builder.add_sampled(reply.token_ids, reply.logprobs)
    members = [Member(reward=float(slot % 2), trajectory=builder.build(policy_version=step)) for slot, builder in enumerate(builders)]
    return [members[first : first + GROUP] for first in range(0, len(members), GROUP)]


def measure(setting: Setting, *, steps: int, model: Qwen2ForCausalLM | None = None) -> Spent:
    """The cheapest of ``steps`` steps behind one that warms up; drawing and learning apart."""
    network = model_of(setting) if model is None else model
    decoder = TorchDecoder(network, slots=GROUPS * GROUP, context=setting.context, stop_ids=frozenset())
    trainer = trainer_of(network)
    found: list[Spent] = []
    for step in range(1, steps + 2):
        begun = time.process_time()
        groups = draw(decoder, setting, step=step)
        drawn = time.process_time()
        trainer.step(groups, step=step)
        decoder.load(step)
        found.append(Spent(drawing=drawn - begun, learning=time.process_time() - drawn))
    return min(found[1:], key=lambda spent: spent.total)


def power(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """By what power of the size the seconds grow, from the first to the last."""
    return math.log(seconds[-1] / seconds[0]) / math.log(sizes[-1] / sizes[0])


def show(what: str, settings: Sequence[Setting], sizes: Sequence[float], *, steps: int) -> None:
    """One table, and how its totals grow."""
    sys.stdout.write(f"| {what} | parameters | tokens an episode | drawing s | learning s | step s |\n|---|---|---|---|---|---|\n")
    totals = []
    for setting, size in zip(settings, sizes, strict=True):
        spent = measure(setting, steps=steps)
        totals.append(spent.total)
        count = model_of(setting).num_parameters()
        cells = (f"{size:,}", f"{count:,}", f"{setting.context - 1:,}", f"{spent.drawing:.2f}", f"{spent.learning:.2f}", f"{spent.total:.2f}")
        sys.stdout.write(f"| {' | '.join(cells)} |\n")
        sys.stdout.flush()
    sys.stdout.write(f"\nfrom the first line to the last by the power {power(sizes, totals):.2f} of the {what}\n\n")


def main() -> None:
    """Measure everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=3, help="of which the least is taken")
    given = parser.parse_args()
    torch.set_num_threads(1)
    base = Setting()
    hidden, turns, vocabulary = (64, 128, 256, 512), (2, 4, 8, 16, 32), (128, 1024, 8192, 49152)
    show("hidden size", [replace(base, hidden=size) for size in hidden], hidden, steps=given.steps)
    show("turns", [replace(base, turns=size) for size in turns], turns, steps=given.steps)
    show("vocabulary", [replace(base, vocabulary=size) for size in vocabulary], vocabulary, steps=given.steps)


if __name__ == "__main__":
    main()
