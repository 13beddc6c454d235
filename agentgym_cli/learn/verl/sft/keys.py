"""The keys of verl's configuration of its supervised trainer."""

from __future__ import annotations

from pathlib import Path

from agentgym_cli.learn.verl.keys import VERSION, Keys

REFERENCE = "sft_trainer_engine"
"""Name of the configuration in verl's package, ``trainer/config``."""
IMITATING = Keys(
    file=Path(__file__).parent / f"keys-sft-{VERSION}.txt",
    open=("engine.mixed_precision", "model.override_config"),
    reserved={
        "data.custom_cls.name": None,
        "data.custom_cls.path": None,
        "data.pad_mode": None,
        "data.train_batch_size": "train.tasks_per_step",
        "data.train_files": "train.algorithm.demonstrations",
        "data.val_files": "tasks.evaluation",
        "engine.forward_only": None,
        "model.path": "policy.model.path",
        "optim.total_training_steps": "train.steps",
        "trainer.default_local_dir": "store.runs_dir",
        "trainer.device": None,
        "trainer.max_ckpt_to_keep": "train.keep_checkpoints",
        "trainer.n_gpus_per_node": "cluster.gpus_per_node",
        "trainer.nnodes": "cluster.nodes",
        "trainer.resume_from_path": None,
        "trainer.resume_mode": None,
        "trainer.save_freq": "train.checkpoint_every",
        "trainer.test_freq": None,
        "trainer.total_epochs": None,
        "trainer.total_training_steps": "train.steps",
    },
    unread=(
        "data.apply_chat_template_kwargs",
        "data.balance_dp_token",
        "data.enable_thinking_default",
        "data.enable_thinking_key",
        "data.ignore_input_ids_mismatch",
        "data.max_length",
        "data.messages_key",
        "data.tools_key",
        "data.train_max_samples",
        "data.truncation",
        "data.use_shm",
        "data.val_max_samples",
        "model.custom_chat_template",
        "trainer.balance_batch",
        "trainer.seed",
    ),
)
"""The trainer that imitates demonstrations, which come to it as tokens: what lays out or cuts conversations is read by nobody."""
