"""verl's trainers, which play the schedule step by step and say in which phase they are, what each step measured, what a checkpoint belongs to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import torch
import transfer_queue as tq
from verl.trainer.ppo.checkpoint_callback import CheckpointCallback
from verl.trainer.ppo.v1.trainer_base import register_trainer
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils import tensordict_utils
from verl.utils.dataset.rl_dataset import collate_fn

from agentgym_cli.learn.verl import estimator
from agentgym_cli.learn.verl.ages import Ages, Runs, ages, versions_of
from agentgym_cli.learn.verl.asked import ASYNC, LOOP
from agentgym_cli.learn.verl.numbers import numbers
from agentgym_cli.learn.verl.setup import DIGEST_FILE, Setup, setup_of_loops
from agentgym_cli.recipe.frozen_file import read_frozen
from agentgym_cli.recipe.schema.algorithms import OnlineSpec
from agentgym_cli.store.desk import say_once

TIMES = ("timing_s/", "timing_per_token_ms/", "perf/")
"""How verl begins the names of times and rates; they are whole only once the step is over."""


def _setup(config: Any) -> Setup:
    return setup_of_loops(Path(config.actor_rollout_ref.rollout.agent.agent_loop_config_path))


class ToldTrainer(PPOTrainerSync):
    """The trainer that ``trainer.v1.trainer_mode`` names where nothing is played ahead; for verl itself its mode is ``sync``."""

    def __init__(self, config: Any) -> None:
        self._setup_told = _setup(config)
        config.trainer.v1.trainer_mode = "sync"
        super().__init__(config)
        run = read_frozen(Path(self._setup_told.frozen)).run
        train, cluster = run.train, run.cluster
        assert train is not None and cluster is not None and isinstance(train.algorithm, OnlineSpec), "the launcher starts nothing else"
        self._ahead = cluster.max_staleness
        estimator.register(train.algorithm)

    def on_init_end(self) -> None:
        """The first weights go to the servers."""
        self._mark("first weights")
        super().on_init_end()

    def on_train_begin(self) -> None:
        """The steps that are played ahead of the first one begin."""
        super().on_train_begin()
        for step in range(self.global_steps, self.global_steps + self._ahead):
            self._play(step)

    def prepare_step(self) -> dict[str, Any]:
        """Begin to play the step, or the last of those that are played ahead of it: every step is played once."""
        self._play(self.global_steps + self._ahead)
        return {}

    def on_step_begin(self) -> None:
        """A step's episodes are played."""
        self._mark("episodes")
        super().on_step_begin()

    def on_sample_end(self) -> None:
        """The episodes are over, the update begins."""
        super().on_sample_end()
        self._mark("update")

    def on_step_end(self) -> None:
        """New weights go to the servers."""
        self._mark("weights to servers")
        super().on_step_end()
        self._mark("metrics")

    def on_validate_begin(self) -> None:
        """An evaluation begins."""
        self._mark("evaluation")
        super().on_validate_begin()

    def on_validate_end(self) -> None:
        """And is over."""
        super().on_validate_end()
        self._mark("evaluation over")

    def _save_checkpoint(self) -> None:
        self._mark("checkpoint")
        super()._save_checkpoint()

    def _validate(self) -> dict[str, float]:
        """Play an evaluation. Its numbers are in the store, by our accounting; verl's own would need a trajectory of every episode, failed or not."""
        played = 0
        for rows in self.val_dataloader:
            count = self._submit(rows, "val", self.global_steps)
            done, _ = self.replay_buffer.sample(global_steps=self.global_steps, partition_id="val", batch_size=count)
            played += len(done.keys)
            if done.keys:
                tq.kv_clear(keys=done.keys, partition_id=done.partition_id)
        return {"agentgym/evaluated": float(played)}

    def _balance_batch(self, batch: Any, metrics: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """verl fills a batch up with copies of its first trajectory, and has no word for one that has none: whoever keeps count ends the run."""
        if not batch.keys:
            say_once(self._setup_told.desk, "empty", step=int(self.global_steps))
            raise RuntimeError(f"step {self.global_steps}: expected a trajectory, got none")
        return super()._balance_batch(batch, metrics, *args, **kwargs)

    def _play(self, step: int) -> None:
        """Hand the rows of a scheduled step to the agent loops; the schedule ends with the last step."""
        if step <= self.total_training_steps:
            size = int(self.config.data.train_batch_size)
            self._submit(collate_fn([self.train_dataset[place] for place in range((step - 1) * size, step * size)]), "train", step)

    def _submit(self, rows: dict[str, Any], partition: str, step: int) -> int:
        """Have rows played, and return how many there are."""
        count = len(rows["raw_prompt"])
        rows["uid"] = np.array([str(uuid4()) for _ in range(count)], dtype=object)
        batch = tensordict_utils.get_tensordict(rows)
        tensordict_utils.assign_non_tensor_data(batch, "global_steps", step)
        if partition == "val":
            tensordict_utils.assign_non_tensor_data(batch, "validate", True)
        tags = [{"is_prompt": True, "status": "pending", "global_steps": step}] * count
        tq.kv_batch_put(keys=list(batch["uid"]), partition_id=partition, tags=tags)
        self.agent_loop_manager.generate_sequences(batch)
        return count

    def _compute_old_log_prob(self, batch: Any, metrics: dict[str, Any]) -> Any:
        batch = super()._compute_old_log_prob(batch, metrics=metrics)
        fields = ["old_log_probs", "rollout_log_probs", "response_mask"]
        data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=[*fields, "extra_fields"])
        sampled = [getattr(each, "data", each)["policy_versions"] for each in data["extra_fields"]]
        old, rollout, mask = (data[name].to_padded_tensor(0.0) for name in fields)
        newest = _sampled_by(self.global_steps - 1, mask.bool(), sampled)
        apart = (old - rollout).abs()[newest]
        # Where verl is told to take the sampler's for the trainer's (bypass_mode), nothing is compared.
        compared = apart.numel() and not self.config.algorithm.rollout_correction.bypass_mode
        metrics["agentgym/logp_difference_max"] = float(apart.max()) if compared else None
        real = [runs for runs, tag in zip(sampled, batch.tags, strict=True) if not tag.get("is_padding", False)]
        if (found := ages(real, newest=self.global_steps - 1)) is not None:
            self._refuse_older(found)
            metrics |= {"agentgym/policy_age_max": found.oldest, "agentgym/policy_age_mean": found.mean}
        return batch

    def _refuse_older(self, found: Ages) -> None:
        """A server that did not get its weights would be the only cause: what is played ahead is never older."""
        if found.oldest > self._ahead:
            said = f"expected tokens of weights at most {self._ahead} updates old, as cluster.max_staleness says, got some that are {found.oldest}"
            say_once(self._setup_told.desk, "stop", message=f"step {self.global_steps}: {said}", interrupted=False)
            raise RuntimeError(said)

    def step(self, metrics: dict[str, Any], timing_raw: dict[str, float]) -> Any:
        """One step. What it measured is handed in before its checkpoint is written: a resume from that one does not measure it again."""
        batch = super().step(metrics, timing_raw)
        found, times = dict(metrics), {**timing_raw, "step": sum(timing_raw.values())}
        super()._compute_metrics(batch, found, times, global_steps=self.global_steps, epoch=0)
        padded = sum(bool(tag.get("is_padding", False)) for tag in batch.tags)
        found |= {"agentgym/trajectories": len(batch.tags) - padded, "agentgym/padding": padded}
        self._hand_in("metrics", {name: value for name, value in found.items() if not name.startswith(TIMES)})
        return batch

    def _compute_metrics(self, batch: Any, metrics: dict[str, Any], timing_raw: dict[str, float], global_steps: int, epoch: int) -> None:
        super()._compute_metrics(batch, metrics, timing_raw, global_steps=global_steps, epoch=epoch)
        self._hand_in("times", {name: value for name, value in metrics.items() if name.startswith(TIMES)})

    def _hand_in(self, what: str, values: dict[str, Any]) -> None:
        say_once(self._setup_told.desk, what, step=int(self.global_steps), values=numbers(values))

    def _mark(self, phase: str) -> None:
        say_once(self._setup_told.desk, "mark", phase=phase, step=int(self.global_steps))


class AsyncTrainer(ToldTrainer):
    """The same where steps are played ahead: as verl's ``colocate_async``, it stops the servers for an update and lets them go on behind it.

    For verl its mode is ``sync`` too: of episodes in flight a checkpoint has nothing, and a resume plays them again as the schedule has them.
    """

    def on_sample_end(self) -> None:
        """The servers stop. They send requests back, so that an episode knows that it waits for new weights."""
        self.checkpoint_manager.abort_replicas(reject_request=True)
        super().on_sample_end()

    def on_step_end(self) -> None:
        """The servers go on, with new weights."""
        super().on_step_end()
        self.checkpoint_manager.resume_generation_replicas()


def _sampled_by(version: int, action_mask: torch.Tensor, sampled: list[Runs]) -> torch.Tensor:
    """Which action tokens the weights of step ``version`` sampled; bool, (trajectories, tokens). verl's padding rows have no action token."""
    found = torch.zeros_like(action_mask)
    for row, runs in enumerate(sampled):
        if action_mask[row].any():
            found[row][action_mask[row]] = torch.tensor([each == version for each in versions_of(runs)])
    return found


class CheckpointDigest(CheckpointCallback):
    """Puts the run's digest beside a checkpoint that verl has written, and says so."""

    def on_save(self, trainer: Any, global_step: int, checkpoint_dir: str, async_save: bool = False, **kwargs: Any) -> None:
        """See verl."""
        setup = _setup(self.config)
        aside, place = (Path(checkpoint_dir) / name for name in (f".{DIGEST_FILE}", DIGEST_FILE))
        document = {"digest": read_frozen(Path(setup.frozen)).digest, "step": int(global_step), "ranks": int(trainer.actor_rollout_wg.world_size)}
        aside.write_text(json.dumps(document, sort_keys=True) + "\n", encoding="utf-8")
        aside.replace(place)
        say_once(setup.desk, "checkpoint", step=int(global_step), path=checkpoint_dir)


def register() -> None:
    """Make the trainers known to verl under our names."""
    register_trainer(LOOP)(ToldTrainer)
    register_trainer(ASYNC)(AsyncTrainer)
