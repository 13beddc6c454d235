"""The laptop recipe's learning without servers: warm start, evaluation, GRPO, evaluation, in one process on one thread.

    OMP_NUM_THREADS=1 python benchmarks/laptop_learning.py --seeds 1 2 3

Calls the pure TextCraft world directly and prints a table of success before and after with Wilson 95% intervals, wall and CPU seconds.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import torch

from agentgym_cli.episode.policies.protocol import SlotRequest
from agentgym_cli.episode.policies.sampler import TorchDecoder
from agentgym_cli.episode.seeds import episode_seed
from agentgym_cli.episode.tokens import TrajectoryBuilder, TurnTokens
from agentgym_cli.episode.types import Trajectory
from agentgym_cli.learn.grpo import Member
from agentgym_cli.learn.local import GrpoTrainer, StepMetrics
from agentgym_cli.learn.model import build_model
from agentgym_cli.learn.schedules import horizon_at, tasks_at
from agentgym_cli.learn.supervised import SupervisedTrainer
from agentgym_cli.recipe.resolve import resolve
from agentgym_cli.recipe.schema.learning import GrpoSpec, StagesHorizon, TrainSpec
from agentgym_envs.textcraft.book import shipped_book
from agentgym_envs.textcraft.world import TextCraft

RECIPES = Path(__file__).parents[1] / "recipes"
RESPONSE_TOKENS = 24


@dataclass(frozen=True, slots=True)
class Row:
    """One task of the list."""

    index: int
    split: str
    category: str


@dataclass(frozen=True, slots=True)
class Played:
    """One finished episode."""

    row: Row
    reward: float
    turns: int
    trajectory: Trajectory | None


@dataclass(frozen=True, slots=True)
class Bench:
    """What an experiment runs in."""

    world: TextCraft
    layout: TurnTokens
    context: int
    rows: tuple[Row, ...]

    def split(self, name: str) -> list[Row]:
        """Tasks of a split, in the list's order."""
        return [row for row in self.rows if row.split == name]


@dataclass(slots=True)
class _Slot:
    """An episode in flight."""

    number: int
    row: Row
    seed: int
    tokens: TrajectoryBuilder
    pending: tuple[int, ...]
    fresh: bool = True
    turns: int = 0
    reward: float = 0.0
    done: bool = False


def play(bench: Bench, decoder: TorchDecoder, rows: Sequence[Row], *, name: str, seed: int, horizon: int, temperature: float) -> list[Played]:
    """One episode for each of ``rows``, in waves of the decoder's slots."""
    played: list[Played] = []
    for first in range(0, len(rows), decoder.slots):
        wave = rows[first : first + decoder.slots]
        seeds = [episode_seed(seed, f"{name}/{first + place}", 1) for place in range(len(wave))]
        played += _wave(bench, decoder, wave, seeds, horizon=horizon, temperature=temperature)
    return played


def _wave(bench: Bench, decoder: TorchDecoder, rows: Sequence[Row], seeds: Sequence[int], *, horizon: int, temperature: float) -> list[Played]:
    sessions = [bench.world.open() for _ in rows]
    slots = []
    for number, (row, seed) in enumerate(zip(rows, seeds, strict=True)):
        prompt = bench.layout.initial("", sessions[number].reset(row.index))
        slots.append(_Slot(number=number, row=row, seed=seed, tokens=TrajectoryBuilder(), pending=prompt))
    active = list(slots)
    while active:
        requests = [
            SlotRequest(slot=slot.number, new_tokens=slot.pending, fresh=slot.fresh, seed=slot.seed, max_new=RESPONSE_TOKENS, temperature=temperature)
            for slot in active
        ]
        for slot, reply in zip(active, decoder.decode(requests), strict=True):
            slot.tokens.add_context(slot.pending)
            slot.tokens.add_sampled(reply.token_ids, reply.logprobs)
            step = sessions[slot.number].step(bench.layout.decode_action(reply.token_ids).strip())
            slot.fresh, slot.turns, slot.reward = False, slot.turns + 1, float(step.reward)
            slot.pending = bench.layout.next(step.observation, stop_sampled=reply.stopped)
            full = len(slot.tokens) + len(slot.pending) + RESPONSE_TOKENS > bench.context
            slot.done = step.done or slot.turns >= horizon or full
        active = [slot for slot in active if not slot.done]
    return [
        Played(row=slot.row, reward=slot.reward, turns=slot.turns, trajectory=slot.tokens.build(policy_version=decoder.policy_version))
        for slot in slots
    ]


def demonstrate(bench: Bench, row: Row) -> Trajectory:
    """The oracle's episode as tokens."""
    session = bench.world.open()
    tokens = TrajectoryBuilder()
    context = bench.layout.initial("", session.reset(row.index))
    for action in session.oracle():
        said = bench.layout.action(action)
        tokens.add_context(context)
        tokens.add_sampled(said, [0.0] * len(said))
        context = bench.layout.next(session.step(action).observation, stop_sampled=True)
    made = tokens.build(policy_version=0)
    assert made is not None
    return made


def wilson(successes: int, total: int) -> tuple[float, float]:
    """Wilson's 95% interval of a share."""
    z = 1.959963984540054
    share, scale = successes / total, 1 + z * z / total
    middle = (share + z * z / (2 * total)) / scale
    half = z / scale * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    return middle - half, middle + half


def said(played: Sequence[Played]) -> str:
    """Success with its interval, and by depth."""
    wins = sum(episode.reward > 0 for episode in played)
    low, high = wilson(wins, len(played))
    depths = sorted({episode.row.category for episode in played})
    by_depth = [[episode.reward > 0 for episode in played if episode.row.category == depth] for depth in depths]
    parts = "/".join(f"{100 * sum(won) / len(won):.0f}" for won in by_depth)
    return f"{100 * wins / len(played):5.1f}% [{100 * low:.1f}, {100 * high:.1f}] ({parts})"


class Clock:
    """Wall and CPU seconds since the last lap."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def lap(self) -> str:
        """Seconds since the last call, wall and CPU."""
        wall, cpu = time.perf_counter(), time.process_time()
        text = f"{wall - self._wall:.0f} s wall, {cpu - self._cpu:.0f} s CPU"
        self._wall, self._cpu = wall, cpu
        return text


def train_spec(args: argparse.Namespace) -> TrainSpec:
    """The recipe's train section from the arguments."""
    algorithm = GrpoSpec(
        group_size=args.group,
        normalize_std=not args.no_std,
        clip=args.clip,
        kl_coefficient=args.kl,
        entropy_coefficient=args.entropy,
        average=args.average,
    )
    return TrainSpec(
        steps=args.steps,
        tasks_per_step=args.tasks,
        learning_rate=args.lr,
        warmup_steps=args.warmup,
        parameters=args.parameters,
        algorithm=algorithm,
        updates_per_step=args.updates,
        max_gradient_norm=args.max_norm,
    )


def warm_start(bench: Bench, args: argparse.Namespace, model: torch.nn.Module, seed: int) -> None:
    """Teach demonstrations; the drawing order is that of training tasks."""
    trainer = SupervisedTrainer(model, learning_rate=args.sft_lr)  # type: ignore[arg-type]
    rows = tasks_at(bench.split("train"), seed, 1, args.demonstrations)
    demonstrations = [demonstrate(bench, row) for row in rows]
    for step in range(1, args.sft_steps + 1):
        metrics = trainer.supervised_step(tasks_at(demonstrations, seed, step, args.per_step), step=step)
        if step % 20 == 0:
            sys.stderr.write(f"  warm start {step}: loss {metrics.loss:.4f} norm {metrics.gradient_norm:.2f}\n")


def evaluate(bench: Bench, decoder: TorchDecoder, args: argparse.Namespace, seed: int, name: str) -> Iterator[tuple[str, str]]:
    """Both held-out splits."""
    for split in ("unseen_tasks", "unseen_goals"):
        rows = bench.split(split) * args.samples
        yield split, said(play(bench, decoder, rows, name=f"{name}/{split}", seed=seed, horizon=args.stages[-1], temperature=args.temperature))


def shown(metrics: StepMetrics) -> str:
    """The numbers worth reading while it runs."""
    names = ("groups_zero_variance", "action_tokens", "gradient_norm", "clip_fraction", "sampled_kl", "entropy", "logprob_difference")
    values = {each.name: getattr(metrics, each.name) for each in fields(metrics)}
    return " ".join(f"{name.replace('_', ' ')} {values[name]:.3g}" for name in names if values[name] is not None)


def grpo(bench: Bench, decoder: TorchDecoder, args: argparse.Namespace, model: torch.nn.Module, seed: int) -> None:
    """All steps of ScalingInter-RL."""
    schedule = StagesHorizon(turns=tuple(args.stages), steps=tuple(args.stage_steps))
    spec = train_spec(args)
    trainer = GrpoTrainer(model, spec, temperature=args.temperature, seed=seed)  # type: ignore[arg-type]
    spent = [0.0, 0.0]
    for step in range(1, args.steps + 1):
        begun = time.process_time()
        rows = [row for row in tasks_at(bench.split("train"), seed, step, args.tasks) for _ in range(args.group)]
        played = play(bench, decoder, rows, name=f"train/{step}", seed=seed, horizon=horizon_at(schedule, step), temperature=args.temperature)
        members = [Member(reward=episode.reward, trajectory=episode.trajectory) for episode in played]
        drawn = time.process_time()
        metrics = trainer.grpo_step([members[first : first + args.group] for first in range(0, len(members), args.group)], step=step)
        decoder.load(step)
        spent = [spent[0] + drawn - begun, spent[1] + time.process_time() - drawn]
        if step % args.show == 0:
            wins = said(played)
            sys.stderr.write(f"  step {step}: {wins} {shown(metrics)}; CPU s a step: draw {spent[0] / step:.2f} learn {spent[1] / step:.2f}\n")
        if args.eval_every and step % args.eval_every == 0:
            text = " | ".join(found for _, found in evaluate(bench, decoder, args, seed, f"during/{step}"))
            sys.stderr.write(f"  -- after step {step}: {text}\n")


def run(args: argparse.Namespace, seed: int) -> None:
    """One seed, printed."""
    layout = TurnTokens.from_file(args.model / "tokenizer.json", "words")
    with (RECIPES / "tasks/textcraft_laptop.csv").open(encoding="utf-8") as file:
        rows = tuple(Row(int(row["index"]), row["split"], row["category"]) for row in csv.DictReader(file))
    bench = Bench(world=TextCraft(book=shipped_book("laptop")), layout=layout, context=args.context, rows=rows)
    model = build_model(args.model, seed=seed, vocabulary=layout.vocabulary, context=args.context)
    clock = Clock()
    if args.load:
        model.load_state_dict(torch.load(args.load, weights_only=True))
    else:
        warm_start(bench, args, model, seed)
    if args.save:
        torch.save(model.state_dict(), args.save)
    sys.stdout.write(f"seed {seed} warm start: {clock.lap()}\n")
    decoder = TorchDecoder(model, slots=args.slots, context=args.context, stop_ids=layout.stop_ids)
    for phase in ("before", "after"):
        for split, text in evaluate(bench, decoder, args, seed, f"eval_{phase}"):
            sys.stdout.write(f"seed {seed} {phase:6} {split}: {text}\n")
        sys.stdout.write(f"seed {seed} evaluation: {clock.lap()}\n")
        sys.stdout.flush()
        if phase == "before" and args.steps:
            grpo(bench, decoder, args, model, seed)
            sys.stdout.write(f"seed {seed} GRPO, {args.steps} steps: {clock.lap()}\n")
        if not args.steps:
            break


def arguments() -> argparse.Namespace:
    """The laptop recipe's numbers are the defaults."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--model", type=Path, default=RECIPES / "models/textcraft_laptop", help="folder with config.json and tokenizer.json")
    recipe = resolve("recipes/textcraft_grpo.yaml", ["profile=laptop"]).run
    warm, train, horizon = recipe.warm_start, recipe.train, recipe.horizon
    assert warm is not None and train is not None and isinstance(horizon, StagesHorizon)
    algorithm = train.algorithm
    parser.add_argument("--sft-steps", type=int, default=warm.steps)
    parser.add_argument("--sft-lr", type=float, default=warm.learning_rate)
    parser.add_argument("--demonstrations", type=int, default=warm.demonstrations)
    parser.add_argument("--per-step", type=int, default=warm.demonstrations_per_step)
    parser.add_argument("--steps", type=int, default=train.steps)
    parser.add_argument("--lr", type=float, default=train.learning_rate)
    parser.add_argument("--warmup", type=int, default=train.warmup_steps)
    parser.add_argument("--parameters", choices=["all", "gains"], default=train.parameters)
    parser.add_argument("--average", choices=["episode", "token"], default=algorithm.average)
    parser.add_argument("--tasks", type=int, default=train.tasks_per_step)
    parser.add_argument("--group", type=int, default=algorithm.group_size)
    parser.add_argument("--updates", type=int, default=train.updates_per_step)
    parser.add_argument("--clip", type=float, default=algorithm.clip)
    parser.add_argument("--kl", type=float, default=algorithm.kl_coefficient)
    parser.add_argument("--entropy", type=float, default=algorithm.entropy_coefficient)
    parser.add_argument("--max-norm", type=float, default=train.max_gradient_norm)
    parser.add_argument("--no-std", action="store_true")
    parser.add_argument("--temperature", type=float, default=recipe.policy.temperature)
    parser.add_argument("--stages", type=int, nargs="+", default=list(horizon.turns))
    parser.add_argument("--stage-steps", type=int, nargs="+", default=list(horizon.steps))
    parser.add_argument("--samples", type=int, default=1, help="episodes per task in evaluations")
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--show", type=int, default=10)
    parser.add_argument("--eval-every", type=int, default=0)
    parser.add_argument("--save", help="write the warm start's weights here")
    parser.add_argument("--load", help="begin from these weights")
    return parser.parse_args()


if __name__ == "__main__":
    torch.set_num_threads(1)
    given = arguments()
    for each in given.seeds:
        run(given, each)
