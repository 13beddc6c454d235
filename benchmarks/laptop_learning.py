"""The laptop recipe's learning without servers: warm start, evaluation, learning, evaluation, in one process on one thread.

    OMP_NUM_THREADS=1 python benchmarks/laptop_learning.py --seeds 1 2 3
    OMP_NUM_THREADS=1 python benchmarks/laptop_learning.py --save /tmp/warm.pt train.steps=1
    OMP_NUM_THREADS=1 python benchmarks/laptop_learning.py --load /tmp/warm.pt --eval-every 10 train.learning_rate=3e-4 train.parameters=all

Calls the pure TextCraft world directly, so that a choice of numbers costs no HTTP; overrides are those of ``agentgym train``. Prints success before
and after with Wilson 95% intervals (and by depth), and wall and CPU seconds. The numbers that count are those of paradigms.py, through the servers.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import torch
from transformers import LlamaForCausalLM, Qwen2ForCausalLM

from agentgym_cli.episode.policies.protocol import SlotRequest
from agentgym_cli.episode.policies.sampler import TorchDecoder
from agentgym_cli.episode.seeds import episode_seed
from agentgym_cli.episode.tokens import TrajectoryBuilder, TurnTokens
from agentgym_cli.episode.types import Trajectory
from agentgym_cli.learn.experience import Member
from agentgym_cli.learn.local import OnlineTrainer
from agentgym_cli.learn.model import build_model
from agentgym_cli.learn.schedules import horizon_at, tasks_at
from agentgym_cli.learn.step_metrics import StepMetrics
from agentgym_cli.learn.supervised import SupervisedTrainer
from agentgym_cli.recipe.data import find_data
from agentgym_cli.recipe.resolve import resolve
from agentgym_cli.recipe.schema.learning import TrainSpec
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.recipe.tasks import TaskLists, TaskRow, select_tasks
from agentgym_envs.textcraft.book import shipped_book
from agentgym_envs.textcraft.world import TextCraft

RECIPES = Path(__file__).parents[1] / "recipes"


@dataclass(frozen=True, slots=True)
class Played:
    """One finished episode."""

    row: TaskRow
    reward: float
    trajectory: Trajectory | None


@dataclass(frozen=True, slots=True)
class Bench:
    """What an experiment runs in."""

    run: Run
    spec: TrainSpec
    world: TextCraft
    layout: TurnTokens
    lists: TaskLists
    model: Qwen2ForCausalLM | LlamaForCausalLM
    decoder: TorchDecoder


@dataclass(slots=True)
class _Slot:
    """An episode in flight."""

    number: int
    row: TaskRow
    seed: int
    tokens: TrajectoryBuilder
    pending: tuple[int, ...]
    fresh: bool = True
    turns: int = 0
    reward: float = 0.0
    done: bool = False


def open_bench(recipe: str, overrides: Sequence[str]) -> Bench:
    """The laptop profile of ``recipe`` resolved, its model made from its seed, and its world."""
    resolved = resolve(str(RECIPES / f"{recipe}.yaml"), ["profile=laptop", *overrides])
    run = resolved.run
    assert run.train is not None and run.prompt.turn_format != "template", "the laptop's recipe"
    folder = find_data(run.policy.own_model.path, beside=resolved.folders)
    layout = TurnTokens.from_file(folder / "tokenizer.json", run.prompt.turn_format)
    model = build_model(folder, seed=run.seed, vocabulary=layout.vocabulary, context=run.budgets.context_tokens)
    return Bench(
        run=run,
        spec=run.train,
        world=TextCraft(book=shipped_book("laptop")),
        layout=layout,
        lists=select_tasks(run.tasks, env=run.env.dialect, beside=resolved.folders),
        model=model,
        decoder=TorchDecoder(model, slots=run.engine.slots, context=run.budgets.context_tokens, stop_ids=layout.stop_ids),
    )


def play(bench: Bench, rows: Sequence[TaskRow], *, name: str, horizon: int) -> list[Played]:
    """One episode for each of ``rows``, in waves of the decoder's slots."""
    played: list[Played] = []
    for first in range(0, len(rows), bench.decoder.slots):
        wave = rows[first : first + bench.decoder.slots]
        seeds = [episode_seed(bench.run.seed, f"{name}/{first + place}", 1) for place in range(len(wave))]
        played += _wave(bench, wave, seeds, horizon)
    return played


def _wave(bench: Bench, rows: Sequence[TaskRow], seeds: Sequence[int], horizon: int) -> list[Played]:
    sessions = [bench.world.open() for _ in rows]
    slots = []
    for number, (row, seed) in enumerate(zip(rows, seeds, strict=True)):
        prompt = bench.layout.initial("", sessions[number].reset(row.index).observation)
        slots.append(_Slot(number=number, row=row, seed=seed, tokens=TrajectoryBuilder(), pending=prompt))
    most, temperature = bench.run.budgets.response_tokens, bench.run.policy.sampling.temperature
    active = list(slots)
    while active:
        requests = [
            SlotRequest(slot=slot.number, new_tokens=slot.pending, fresh=slot.fresh, seed=slot.seed, max_new=most, temperature=temperature)
            for slot in active
        ]
        for slot, reply in zip(active, bench.decoder.decode(requests), strict=True):
            slot.tokens.add_context(slot.pending)
            slot.tokens.add_sampled(reply.token_ids, reply.logprobs)
            step = sessions[slot.number].step(bench.layout.decode_action(reply.token_ids).strip())
            slot.fresh, slot.turns, slot.reward = False, slot.turns + 1, float(step.reward)
            slot.pending = bench.layout.next(step.observation, stop_sampled=reply.stopped)
            full = len(slot.tokens) + len(slot.pending) + most > bench.decoder.context
            slot.done = step.done or slot.turns >= horizon or full
        active = [slot for slot in active if not slot.done]
    version = bench.decoder.policy_version
    return [Played(row=slot.row, reward=slot.reward, trajectory=slot.tokens.build(policy_version=version)) for slot in slots]


def demonstrate(bench: Bench, row: TaskRow) -> Trajectory:
    """The oracle's episode as tokens."""
    session = bench.world.open()
    tokens = TrajectoryBuilder()
    context = bench.layout.initial("", session.reset(row.index).observation)
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


def warm_start(bench: Bench) -> None:
    """Teach the demonstrations of the first tasks in drawing order."""
    run, spec = bench.run, bench.run.warm_start
    assert spec is not None
    trainer = SupervisedTrainer(bench.model, learning_rate=spec.learning_rate)
    rows = tasks_at(bench.lists.train, run.seed, 1, spec.demonstrations)
    demonstrations = [demonstrate(bench, row) for row in rows]
    for step in range(1, spec.steps + 1):
        metrics = trainer.supervised_step(tasks_at(demonstrations, run.seed, step, spec.demonstrations_per_step), step=step)
        if step % 20 == 0:
            sys.stderr.write(f"  warm start {step}: loss {metrics.loss:.4f} norm {metrics.gradient_norm:.2f}\n")


def evaluate(bench: Bench, name: str) -> Iterator[tuple[str, str]]:
    """Every evaluation split at the sampling temperature."""
    spec = bench.run.evaluation
    for split, rows in bench.lists.evaluation.items():
        each = [row for row in rows[: spec.limit] for _ in range(spec.samples_per_task)]
        yield split, said(play(bench, each, name=f"{name}/{split}", horizon=spec.horizon))


def shown(metrics: StepMetrics) -> str:
    """The numbers worth reading while it runs."""
    names = ("groups_zero_variance", "action_tokens", "gradient_norm", "clip_fraction", "sampled_kl", "entropy", "logprob_difference")
    values = {each.name: getattr(metrics, each.name) for each in fields(metrics)}
    return " ".join(f"{name.replace('_', ' ')} {values[name]:.3g}" for name in names if values[name] is not None)


def learn(bench: Bench, *, show_every: int, eval_every: int) -> None:
    """All steps, the horizon by its schedule."""
    run, spec, size = bench.run, bench.spec, bench.spec.algorithm.group_size
    trainer = OnlineTrainer(bench.model, spec, temperature=run.policy.sampling.temperature, seed=run.seed)
    spent = [0.0, 0.0]
    for step in range(1, spec.steps + 1):
        begun = time.process_time()
        rows = [row for row in tasks_at(bench.lists.train, run.seed, step, spec.tasks_per_step) for _ in range(size)]
        played = play(bench, rows, name=f"train/{step}", horizon=horizon_at(run.horizon, step))
        members = [Member(reward=episode.reward, trajectory=episode.trajectory) for episode in played]
        drawn = time.process_time()
        metrics = trainer.step([members[first : first + size] for first in range(0, len(members), size)], step=step)
        bench.decoder.load(step)
        spent = [spent[0] + drawn - begun, spent[1] + time.process_time() - drawn]
        if step % show_every == 0:
            each = f"CPU s a step: draw {spent[0] / step:.2f} learn {spent[1] / step:.2f}"
            sys.stderr.write(f"  step {step}: {said(played)} {shown(metrics)}; {each}\n")
        if eval_every and step % eval_every == 0:
            sys.stderr.write(f"  -- after step {step}: {' | '.join(text for _, text in evaluate(bench, f'during/{step}'))}\n")


def measure(args: argparse.Namespace, seed: int) -> None:
    """One seed, printed."""
    bench = open_bench(args.recipe, [f"seed={seed}", *args.overrides])
    clock = Clock()
    if args.load:
        bench.model.load_state_dict(torch.load(args.load, weights_only=True))
    else:
        warm_start(bench)
    if args.save:
        torch.save(bench.model.state_dict(), args.save)
    bench.decoder.load(0)
    sys.stdout.write(f"seed {seed} warm start: {clock.lap()}\n")
    for phase in ("before", "after"):
        if phase == "after":
            learn(bench, show_every=args.show, eval_every=args.eval_every)
            sys.stdout.write(f"seed {seed} {bench.spec.algorithm.kind}, {bench.spec.steps} steps: {clock.lap()}\n")
        for split, text in evaluate(bench, f"eval_{phase}"):
            sys.stdout.write(f"seed {seed} {phase:6} {split}: {text}\n")
        sys.stdout.write(f"seed {seed} evaluation: {clock.lap()}\n")
        sys.stdout.flush()


def main() -> None:
    """Measure every seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("overrides", nargs="*", help="key=value, as of agentgym train")
    parser.add_argument("--recipe", default="textcraft_grpo", help="one that learns online, such as textcraft_ppo")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--show", type=int, default=10, help="print every so many steps")
    parser.add_argument("--eval-every", type=int, default=0, help="evaluate every so many steps; 0 never does")
    parser.add_argument("--save", help="write the warm start's weights here")
    parser.add_argument("--load", help="begin from these weights")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for seed in args.seeds:
        measure(args, seed)


if __name__ == "__main__":
    main()
