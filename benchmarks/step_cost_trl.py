"""The GRPO step of TRL beside ours: 64 completions of 32 tokens over a vocabulary of 49,152, and the loss of both on the same completions.

    OMP_NUM_THREADS=1 python -m benchmarks.step_cost_trl

Needs trl, accelerate and datasets, which no stack has. Both train the same network from the same weights (hidden size 256, two layers), draw
at temperature 1 without a reference model, and make one update a step, on one thread; a line is the least of several steps, in CPU seconds. For the
comparison TRL's own batch is scored again by both, against probabilities shifted at random, so that ratios are not 1 and some are clipped.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from torch import Tensor
from transformers import PreTrainedTokenizerFast, PrinterCallback, Qwen2ForCausalLM, TrainerCallback

from agentgym_cli.episode.types import Trajectory
from agentgym_cli.learn.batch import Example, pad
from agentgym_cli.learn.gather import by_episode
from agentgym_cli.learn.losses import policy_loss
from agentgym_cli.learn.update import action_scores
from benchmarks.step_cost import GROUP, GROUPS, Setting, measure, model_of

SETTING = Setting(hidden=256, vocabulary=49_152, turns=1, read=16, sampled=32)
CLIP = 0.2


class Clock(TrainerCallback):
    """CPU seconds of each step."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def on_step_begin(self, *_: object, **__: object) -> None:
        """Begin."""
        self.seconds.append(-time.process_time())

    def on_step_end(self, *_: object, **__: object) -> None:
        """End."""
        self.seconds[-1] += time.process_time()


class Kept:
    """A trainer's way to compute its loss, and the last batch that it was given."""

    def __init__(self, compute: Any) -> None:
        self._compute = compute
        self.batch: dict[str, Any] = {}

    def __call__(self, model: Any, inputs: dict[str, Any]) -> Any:
        """Compute the loss."""
        self.batch = inputs
        return self._compute(model, inputs)


def tokenizer_of(vocabulary: int) -> PreTrainedTokenizerFast:
    """A word for every token id."""
    words = {f"w{number}": number for number in range(vocabulary)}
    made = Tokenizer(WordLevel(words, unk_token="w0"))
    made.pre_tokenizer = WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=made, eos_token="w1", pad_token="w0")  # type: ignore[no-untyped-call]


def paid(completion_ids: Sequence[Sequence[int]], **_: object) -> list[float]:
    """A reward that differs within a group."""
    return [float(sum(ids) % 3) for ids in completion_ids]


def trainer_of(model: Qwen2ForCausalLM, folder: Path, *, steps: int, average: str) -> Any:
    """TRL's trainer of the same step."""
    trl, datasets = importlib.import_module("trl"), importlib.import_module("datasets")
    prompts = [{"prompt": " ".join(f"w{2 + (17 * row + place) % 1000}" for place in range(SETTING.read))} for row in range(GROUPS * (steps + 1))]
    settings = trl.GRPOConfig(
        output_dir=str(folder),
        per_device_train_batch_size=GROUPS * GROUP,
        num_generations=GROUP,
        max_completion_length=SETTING.sampled,
        max_steps=steps,
        learning_rate=1e-4,
        temperature=1.0,
        beta=0.0,
        epsilon=CLIP,
        loss_type=average,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        report_to="none",
        logging_strategy="no",
        save_strategy="no",
        disable_tqdm=True,
    )
    rows = datasets.Dataset.from_list(prompts)
    trainer = trl.GRPOTrainer(model=model, reward_funcs=paid, args=settings, train_dataset=rows, processing_class=tokenizer_of(SETTING.vocabulary))
    trainer.remove_callback(PrinterCallback)
    return trainer


def rows_of(batch: dict[str, Any], old: Tensor | None = None) -> list[Example]:
    """TRL's batch as ours: prompts without their padding, completions up to their last token, its advantages.

    ``old`` are log-probabilities by place in the completion, (B, T); None leaves them out.
    """
    found = []
    for row, advantage in enumerate(batch["advantages"].reshape(-1).tolist()):
        prompt = batch["prompt_ids"][row][batch["prompt_mask"][row].bool()].tolist()
        sampled = batch["completion_ids"][row][batch["completion_mask"][row].bool()].tolist()
        ids = (*prompt, *sampled)
        mask = (*(False for _ in prompt), *(True for _ in sampled))
        told = Trajectory(token_ids=ids, action_mask=mask, logprobs=(0.0,) * len(ids), policy_version=0)
        found.append(Example(trajectory=told, advantage=advantage, old_logp=None if old is None else tuple(old[row, : len(sampled)].tolist())))
    return found


def our_loss(model: Qwen2ForCausalLM, examples: list[Example], *, average: str) -> float:
    """The mean over action tokens (``bnpo`` in TRL), or over episodes first (``grpo``)."""
    batch = pad(by_episode(examples) if average == "grpo" else examples)
    scores = action_scores(model, batch, temperature=1.0)
    return float(policy_loss(scores.logp, batch.old_logp, batch.advantage, batch.action_mask, CLIP).surrogate / batch.action_tokens)


def losses(model: Qwen2ForCausalLM, folder: Path, *, average: str) -> tuple[float, float, float]:
    """TRL's loss, ours, and the share of tokens whose ratio is outside of the clip, on one batch that TRL drew."""
    trainer = trainer_of(model, folder, steps=1, average=average)
    kept = Kept(trainer._compute_loss)
    trainer._compute_loss = kept
    trainer.train()
    with torch.no_grad():
        examples = rows_of(kept.batch)
        batch = pad(examples)
        scored = action_scores(model, batch, temperature=1.0).logp
        shift = 0.3 * torch.randn(kept.batch["completion_ids"].shape, generator=torch.Generator().manual_seed(1))
        old = torch.zeros_like(shift)
        for row, example in enumerate(examples):
            size = sum(example.trajectory.action_mask)
            old[row, :size] = scored[row][batch.action_mask[row]] + shift[row, :size]
        theirs = float(trainer._compute_loss(trainer.model, {**kept.batch, "old_per_token_logps": old}))
        ours = our_loss(model, rows_of(kept.batch, old), average=average)
    outside = ((-shift).exp() - 1).abs() > CLIP
    return theirs, ours, float(outside.float().mean())


def show_cost(network: Qwen2ForCausalLM, folder: Path, *, steps: int) -> None:
    """Both steps."""
    clock = Clock()
    ours = measure(SETTING, steps=steps, model=copy.deepcopy(network))
    trainer = trainer_of(copy.deepcopy(network), folder, steps=steps + 1, average="grpo")
    trainer.add_callback(clock)
    trainer.train()
    theirs, version = min(clock.seconds[1:]), importlib.import_module("trl").__version__
    sys.stdout.write(f"{network.num_parameters():,} parameters\n\n| | CPU s a step |\n|---|---|\n| TRL {version} | {theirs:.2f} |\n")
    sys.stdout.write(f"| ours | {ours.total:.2f} (drawing {ours.drawing:.2f}, learning {ours.learning:.2f}) |\n\nratio {ours.total / theirs:.2f}\n\n")


def show_losses(network: Qwen2ForCausalLM, folder: Path) -> None:
    """Both losses, for both means."""
    sys.stdout.write("| mean | TRL's loss | ours | difference | ratios outside of the clip |\n|---|---|---|---|---|\n")
    for average, name in (("grpo", "over episodes first"), ("bnpo", "over tokens")):
        theirs, ours, clipped = losses(copy.deepcopy(network), folder, average=average)
        sys.stdout.write(f"| {name} | {theirs:.8f} | {ours:.8f} | {abs(theirs - ours):.1e} | {100 * clipped:.0f}% |\n")


def main() -> None:
    """Both steps, then their losses."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=3, help="of which the least is taken")
    given = parser.parse_args()
    torch.set_num_threads(1)
    network = model_of(SETTING)
    with tempfile.TemporaryDirectory() as folder:
        show_cost(network, Path(folder), steps=given.steps)
        show_losses(network, Path(folder))


if __name__ == "__main__":
    main()
