"""The keys of verl's configuration: those of the version that this program speaks, and those of the verl that is installed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import yaml

from agentgym_cli.recipe.wording import asked, shown

VERSION = "0.9.1"
KNOWN = Path(__file__).parent / f"keys-{VERSION}.txt"
"""One key a line, sorted: the leaves of verl's own generated reference, but for the classes (``_target_``) that verl makes of its sections."""
REFERENCE = Path("trainer/config/_generated_ppo_trainer.yaml")
"""verl's reference, inside its package."""
OPEN = (
    "actor_rollout_ref.actor.fsdp_config.mixed_precision",
    "actor_rollout_ref.model.override_config",
    "actor_rollout_ref.rollout.enable_sleep_mode",
    "actor_rollout_ref.rollout.engine_kwargs.vllm",
    "critic.model.override_config",
    "critic.ppo_infer_max_token_len_per_gpu",
    "ray_kwargs.ray_init",
)
"""Sections that take keys which the reference does not list; verl hands them on to others."""

RESERVED = {
    "actor_rollout_ref.model.path": "policy.model.path",
    "actor_rollout_ref.rollout.agent.agent_loop_config_path": None,
    "actor_rollout_ref.rollout.agent.default_agent_loop": None,
    "actor_rollout_ref.rollout.calculate_log_probs": None,
    "actor_rollout_ref.rollout.n": "train.algorithm.group_size",
    "actor_rollout_ref.rollout.name": None,
    "actor_rollout_ref.rollout.val_kwargs.n": "evaluation.samples_per_task",
    "algorithm.adv_estimator": "train.algorithm.kind",
    "algorithm.filter_groups.enable": None,
    "critic.enable": "train.algorithm.kind",
    "critic.model.path": "policy.model.path",
    "data.custom_cls.name": None,
    "data.custom_cls.path": None,
    "data.gen_batch_size": None,
    "data.shuffle": None,
    "data.train_batch_size": "train.tasks_per_step",
    "data.train_files": "tasks.train",
    "data.val_files": "tasks.evaluation",
    "ray_kwargs.ray_init.address": "cluster.ray_address",
    "skip.async_rollout.enable": None,
    "skip.rollout.enable": None,
    "skip.rollout_tq.enable": None,
    "trainer.checkpoint_callback_class": None,
    "trainer.default_local_dir": "store.runs_dir",
    "trainer.device": None,
    "trainer.max_actor_ckpt_to_keep": "train.keep_checkpoints",
    "trainer.max_critic_ckpt_to_keep": "train.keep_checkpoints",
    "trainer.n_gpus_per_node": "cluster.gpus_per_node",
    "trainer.nnodes": "cluster.nodes",
    "trainer.resume_from_path": None,
    "trainer.resume_mode": None,
    "trainer.save_freq": "train.checkpoint_every",
    "trainer.test_freq": "evaluation.every",
    "trainer.total_epochs": None,
    "trainer.total_training_steps": "train.steps",
    "trainer.use_v1": None,
    "trainer.v1.colocate_async.num_warmup_batches": "cluster.max_staleness",
    "trainer.v1.sampler.custom_sampler.name": None,
    "trainer.v1.sampler.custom_sampler.path": None,
    "trainer.v1.sampler.max_off_policy_strategy": None,
    "trainer.v1.sampler.max_off_policy_threshold": "cluster.max_staleness",
    "trainer.v1.sampler.sync_refill_failed_groups": None,
    "trainer.v1.trainer_mode": None,
    "trainer.val_before_train": None,
    "trainer.val_only": None,
}
"""Keys that schedule, records and checkpoints hang on, and the recipe's field that says the same where there is one: with another value of one of
them verl plays other episodes than those that are written down, or what it did is not found again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """What one of verl's trainers can be told."""

    file: Path
    """As ``KNOWN``."""
    open: tuple[str, ...]
    """As ``OPEN``."""
    reserved: Mapping[str, str | None]
    """As ``RESERVED``."""
    unread: tuple[str, ...] = ()
    """Keys that the trainer has and that would change nothing in a launch of ours."""

    def listed(self) -> frozenset[str]:
        """Keys that the trainer's reference has."""
        return frozenset(self.file.read_text(encoding="utf-8").split())


REINFORCING = Keys(file=KNOWN, open=OPEN, reserved=RESERVED)
"""The trainer that reinforces."""


def known_keys() -> frozenset[str]:
    """Keys of verl 0.9.1, of the trainer that reinforces."""
    return REINFORCING.listed()


def installed_keys() -> frozenset[str] | None:
    """Keys of the verl that is installed, read from its reference without importing it; None where there is none."""
    found = find_spec("verl")
    if found is None or not found.submodule_search_locations:
        return None
    text = (Path(next(iter(found.submodule_search_locations))) / REFERENCE).read_text(encoding="utf-8")
    return frozenset(key for key in _leaves(yaml.safe_load(text)) if not key.endswith("_target_"))


def unknown(key: str, keys: frozenset[str], *, sections: Sequence[str] = OPEN) -> str | None:
    """``expected ..., got ...`` for a key that verl does not have; None for one that it has or that one of the open ``sections`` takes."""
    if key in keys or in_open_section(key, sections):
        return None
    return f"expected a key of verl {VERSION}, got {shown(key)}{asked(key, sorted(keys), before='; ')}"


def in_open_section(key: str, sections: Sequence[str] = OPEN) -> bool:
    """Whether verl hands the key on without knowing it."""
    return any(key == section or key.startswith(f"{section}.") for section in sections)


def _leaves(node: object, path: str = "") -> Iterator[str]:
    if isinstance(node, Mapping) and node:
        for name, value in node.items():
            yield from _leaves(value, f"{path}.{name}" if path else str(name))
    else:
        yield path
