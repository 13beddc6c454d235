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
        "data.apply_chat_template_kwargs": None,
        "data.balance_dp_token": None,
        "data.custom_cls.name": None,
        "data.custom_cls.path": None,
        "data.enable_thinking_default": None,
        "data.enable_thinking_key": None,
        "data.ignore_input_ids_mismatch": None,
        "data.max_length": "budgets.context_tokens",
        "data.messages_key": None,
        "data.pad_mode": None,
        "data.tools_key": None,
        "data.train_batch_size": "train.tasks_per_step",
        "data.train_files": "train.algorithm.demonstrations",
        "data.train_max_samples": None,
        "data.truncation": None,
        "data.use_shm": None,
        "data.val_files": "tasks.evaluation",
        "data.val_max_samples": None,
        "engine.forward_only": None,
        "model.custom_chat_template": "policy.model.chat_template",
        "optim.total_training_steps": "train.steps",
        "trainer.balance_batch": None,
        "trainer.default_local_dir": "store.runs_dir",
        "trainer.device": None,
        "trainer.max_ckpt_to_keep": "train.keep_checkpoints",
        "trainer.n_gpus_per_node": "cluster.gpus_per_node",
        "trainer.nnodes": "cluster.nodes",
        "trainer.resume_from_path": None,
        "trainer.resume_mode": None,
        "trainer.save_freq": "train.checkpoint_every",
        "trainer.seed": "seed",
        "trainer.test_freq": None,
        "trainer.total_epochs": None,
        "trainer.total_training_steps": "train.steps",
    },
)
"""The trainer that imitates demonstrations. Beside what order, records and checkpoints hang on, what nobody reads: demonstrations come as tokens."""
