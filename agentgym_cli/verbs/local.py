"""Learning on the local engine, phase by phase: warm start, evaluation, reinforcement. Loads torch; knows no screen and no store."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from agentgym_cli.episode.policies.oracle import OraclePolicy
from agentgym_cli.episode.policies.sampler import TorchDecoder
from agentgym_cli.episode.policies.wave import WavePolicy
from agentgym_cli.episode.runner import EpisodeResult
from agentgym_cli.episode.tokens import TurnTokens
from agentgym_cli.episode.types import Task, Trajectory
from agentgym_cli.errors import TrainerError
from agentgym_cli.learn.checkpoint import load_checkpoint, save_checkpoint
from agentgym_cli.learn.demonstrations import demonstration
from agentgym_cli.learn.experience import Member
from agentgym_cli.learn.local import OnlineTrainer
from agentgym_cli.learn.lora import Adapted
from agentgym_cli.learn.model import WEIGHTS, build_model, load_weights
from agentgym_cli.learn.rewards import RewardKind, member_of
from agentgym_cli.learn.runtime import settle
from agentgym_cli.learn.schedules import stage_at, steps_after, tasks_at
from agentgym_cli.learn.step_metrics import StepMetrics
from agentgym_cli.learn.supervised import SupervisedTrainer
from agentgym_cli.recipe.schema.learning import TrainSpec, WarmStartSpec
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.recipe.schema.world import RewardSpec
from agentgym_cli.verbs.folders import Checkpoint, checkpoint_folder, forget_checkpoints
from agentgym_cli.verbs.play import Stage, Tally
from agentgym_cli.verbs.recorder import Recorder
from agentgym_cli.verbs.schedules import demonstration_schedule, evaluation_schedule, training_schedule

GREEDY = 0.0


class LocalEngine:
    """One model, its tokenizer and its decoder: what all phases of a run share."""

    def __init__(self, run: Run, *, model_folder: Path, tokens: TurnTokens, system_prompt: str) -> None:
        """Raises PolicyError when model, tokenizer and budgets do not fit each other."""
        device = settle(run.engine)
        self.run = run
        self.tokens = tokens
        self.system_prompt = system_prompt
        seed = run.seed if run.policy.own_model.weights == "seed" else None
        context = run.budgets.context_tokens
        self.model = build_model(
            model_folder,
            seed=seed,
            vocabulary=self.tokens.vocabulary,
            context=context,
            device=device,
            recompute=run.engine.activation_checkpointing,
        )
        lora = None if run.train is None else run.train.lora
        self.adapted = None if lora is None else Adapted(self.model, lora, seed=run.seed)
        sampled = self.model if self.adapted is None else self.adapted.merge()
        self.decoder = TorchDecoder(sampled, slots=run.engine.slots, context=context, stop_ids=self.tokens.stop_ids)

    def take_weights(self, folder: Path, step: int) -> None:
        """Take the weights of a checkpoint. Raises PolicyError when they are not this model's."""
        load_weights(self.model, folder / WEIGHTS)
        self.load(step)

    def load(self, step: int) -> None:
        """Sample from the weights as they are now, which are those of ``step``."""
        if self.adapted is not None:
            self.adapted.merge()
        self.decoder.load(step)

    @property
    def parameters(self) -> int:
        """Trainable numbers of the model."""
        return sum(parameter.numel() for parameter in self.model.parameters())

    def policy(self, temperature: float | Literal["greedy"] | None) -> WavePolicy:
        """The policy at a sampling temperature; None is the recipe's."""
        degrees = GREEDY if temperature == "greedy" else temperature or self.run.policy.sampling.temperature
        return WavePolicy(
            self.decoder, tokens=self.tokens, system_prompt=self.system_prompt, budgets=self.run.budgets, temperature=degrees, name="local"
        )


async def warm_start(engine: LocalEngine, spec: WarmStartSpec, tasks: Sequence[Task], stage: Stage) -> None:
    """Collect oracle demonstrations through the environment, then learn them; every update's loss is recorded."""
    run = engine.run
    schedule = demonstration_schedule(tasks, seed=run.seed, count=spec.demonstrations, horizon=spec.max_turns)
    oracle = OraclePolicy(action_format=run.prompt.action_format, env_call_seconds=max(run.budgets.env_call_seconds, stage.rules.oracle_seconds))
    results, _ = await stage.play(schedule, oracle, announce="demonstrate")
    shown = _demonstrations(engine, results)
    stage.recorder.metrics("warm_start", 0, {"demonstrations": len(shown), "demonstrations_left_out": len(results) - len(shown)})
    trainer = SupervisedTrainer(engine.model, learning_rate=spec.learning_rate, pass_tokens=run.engine.pass_tokens, precision=run.engine.precision)
    stage.progress.begin("warm start", spec.steps, "step")
    for step in range(1, spec.steps + 1):
        began = time.monotonic()
        learned = trainer.supervised_step(tasks_at(shown, run.seed, step, spec.demonstrations_per_step), step=step)
        seconds = time.monotonic() - began
        stage.recorder.metrics(
            "warm_start", step, {"loss": learned.loss, "gradient_norm": learned.gradient_norm, "action_tokens": learned.action_tokens}
        )
        stage.recorder.metrics("warm_start", step, {"time/step_seconds": seconds})
        stage.progress.advance(step, {"loss": learned.loss, "tokens/s": round(learned.action_tokens / seconds)})
        await stage.breathe()
    stage.progress.end()


def _demonstrations(engine: LocalEngine, results: Sequence[EpisodeResult]) -> list[Trajectory]:
    prompt, form = engine.system_prompt, engine.run.prompt.action_format
    found = [demonstration(result.final, engine.tokens, system_prompt=prompt, action_format=form) for result in results]
    shown = [trajectory for trajectory in found if trajectory is not None and len(trajectory.token_ids) <= engine.decoder.context]
    if not shown:
        raise TrainerError(
            f"warm start: expected demonstrations that succeed within {engine.run.budgets.context_tokens} tokens, got none of {len(results)}",
            "serve the world with its oracle route, or raise warm_start.max_turns",
        )
    return shown


async def evaluate(engine: LocalEngine, splits: Mapping[str, Sequence[Task]], stage: Stage, *, phase: str, step: int) -> None:
    """Judge the model as it is on every split, at the evaluation's temperature and horizon."""
    spec = engine.run.evaluation
    engine.load(step)
    schedule = evaluation_schedule(splits, phase=phase, step=step, samples=spec.samples_per_task, horizon=spec.horizon, limit=spec.limit)
    await stage.play(schedule, engine.policy(spec.temperature), announce=phase.replace("_", " "))


class Keeper:
    """The trainer of a run and its checkpoints."""

    def __init__(self, engine: LocalEngine, spec: TrainSpec, run_folder: Path, *, digest: str, recorder: Recorder) -> None:
        self.engine, self.spec = engine, spec
        self._run_folder, self._digest, self._recorder = run_folder, digest, recorder
        self._trainer: OnlineTrainer | None = None

    @property
    def trainer(self) -> OnlineTrainer:
        """The trainer; exists once the run was started or restored."""
        assert self._trainer is not None, "start or restore first"
        return self._trainer

    def start(self) -> None:
        """Begin reinforcement from the model as it is, and keep it as step 0."""
        self._trainer = self._new_trainer()
        self.keep(0)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint; the KL reference is step 0's weights. Raises TrainerError for another run's checkpoint."""
        load_weights(self.engine.model, checkpoint_folder(self._run_folder, 0) / WEIGHTS)
        self._trainer = self._new_trainer()
        load_checkpoint(
            checkpoint.folder, model=self.engine.model, optimizer=self._trainer.optimizer, digest=self._digest, beside=self._trainer.beside
        )

    def keep(self, step: int) -> None:
        """Write the checkpoint of a step and record it, once the records of the steps behind it are on the disk."""
        self._recorder.sync()
        folder = checkpoint_folder(self._run_folder, step)
        trainer = self.trainer
        weights = save_checkpoint(folder, model=self.engine.model, optimizer=trainer.optimizer, step=step, digest=self._digest, beside=trainer.beside)
        self._recorder.checkpoint(step, str(folder.relative_to(self._run_folder)), weights)
        forget_checkpoints(self._run_folder, keep=self.spec.keep_checkpoints)

    def _new_trainer(self) -> OnlineTrainer:
        run = self.engine.run
        return OnlineTrainer(
            self.engine.model,
            self.spec,
            temperature=run.policy.sampling.temperature,
            seed=run.seed,
            pass_tokens=run.engine.pass_tokens,
            precision=run.engine.precision,
        )


async def reinforce(keeper: Keeper, tasks: Sequence[Task], splits: Mapping[str, Sequence[Task]], stage: Stage, *, after: int) -> None:
    """Steps ``after`` + 1 to the last: schedule, play, update, record; exactly as many as the recipe says, with evaluations where it wants them."""
    engine, spec = keeper.engine, keeper.spec
    stage.progress.begin("train", spec.steps, "step", done=after)
    policy = engine.policy(None)
    for step, horizon in steps_after(engine.run.horizon, after=after, steps=spec.steps):
        await evaluate_if_due(engine, splits, stage, done=step - 1)
        began = time.monotonic()
        engine.load(step - 1)
        drawn = tasks_at(tasks, engine.run.seed, step, spec.tasks_per_step)
        schedule = training_schedule(drawn, step=step, group_size=spec.algorithm.group_size, horizon=horizon)
        results, tally = await stage.play(schedule, policy, announce=None)
        refuse_provoked_errors(results, spec.max_action_induced_share, step)
        played = time.monotonic() - began
        learned = keeper.trainer.step(_groups(results, spec.algorithm.group_size, engine.run.reward, stage.rules.reward_kind), step=step)
        speed = tally.action_tokens / played
        stage.recorder.metrics("train", step, _metrics(step, horizon, stage_at(engine.run.horizon, step), tally, learned))
        stage.recorder.metrics("train", step, _times(played, time.monotonic() - began, speed))
        if step % spec.checkpoint_every == 0 or step == spec.steps:
            keeper.keep(step)
        stage.progress.advance(step, {"horizon": horizon, "reward": tally.reward_mean, **tally.cells(), "tokens/s": round(speed)})
        stage.recorder.load_if_due()
        await stage.breathe()
    stage.progress.end()


async def evaluate_if_due(engine: LocalEngine, splits: Mapping[str, Sequence[Task]], stage: Stage, *, done: int) -> None:
    """The evaluation after step ``done``; on a resume it is asked for again, and plays only what is not recorded."""
    every = engine.run.evaluation.every
    if every is not None and done > 0 and done % every == 0:
        await evaluate(engine, splits, stage, phase="eval_during", step=done)
        assert engine.run.train is not None
        stage.progress.begin("train", engine.run.train.steps, "step", done=done)


def _times(played: float, seconds: float, speed: float) -> dict[str, float | None]:
    return {"time/step_seconds": seconds, "time/play_seconds": played, "time/tokens_per_second": speed}


def refuse_provoked_errors(results: Sequence[EpisodeResult], limit: float, step: int) -> None:
    provoked = sum(result.final.action_induced for result in results)
    if provoked > limit * len(results):
        raise TrainerError(
            f"step {step}: expected at most {limit:.0%} of episodes to end in an error that their own action provokes, "
            f"got {provoked} of {len(results)}",
            "see the stop reasons in agentgym report; the world fails on these actions and should refuse them",
        )


def _groups(results: Sequence[EpisodeResult], size: int, paid: RewardSpec, kind: RewardKind) -> list[list[Member]]:
    members = [member_of(paid, result.final, kind) for result in results]
    return [members[start : start + size] for start in range(0, len(members), size)]


def _metrics(step: int, horizon: int, stage: int, tally: Tally, learned: StepMetrics) -> dict[str, float | None]:
    """Numbers of one step that two runs of the same frozen run have in common."""
    return {
        "horizon": horizon,
        "stage": stage,
        "success": tally.success,
        "reward_mean": learned.reward_mean,
        "invalid_share": tally.invalid_share,
        "truncated_share": tally.truncated_share,
        "infra_errors": tally.infra_errors,
        "turns_mean": tally.turns / tally.episodes if tally.episodes else None,
        "episodes_planned": learned.planned,
        "episodes_scored": learned.scored,
        "groups_planned": learned.groups,
        "groups_dropped": learned.groups_dropped,
        "groups_zero_variance": learned.groups_zero_variance,
        "without_action_tokens": learned.without_action_tokens,
        "action_tokens": learned.action_tokens,
        "updates": learned.updates,
        "loss": learned.loss,
        "gradient_norm": learned.gradient_norm,
        "clip_fraction": learned.clip_fraction,
        "approx_kl": learned.sampled_kl,
        "reference_kl": learned.reference_kl,
        "entropy": learned.entropy,
        "logp_difference_max": learned.logprob_difference,
        "importance_weight": learned.importance_weight,
        "critic_loss": learned.critic_loss,
        "critic_gradient_norm": learned.critic_gradient_norm,
        "explained_variance": learned.explained_variance,
        "policy_version": step - 1,
    }
