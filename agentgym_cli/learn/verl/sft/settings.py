"""A frozen run as the configuration of verl's supervised trainer: every key that is set, from which field of the recipe. Pure; imports no verl."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from agentgym_cli.learn.verl.asked import AskedOfRun, Value
from agentgym_cli.learn.verl.settings import Setting, markdown, own_settings
from agentgym_cli.learn.verl.sft.keys import IMITATING
from agentgym_cli.learn.verl.tables import OFFLOADED
from agentgym_cli.recipe.schema.run import Run

BETAS = (0.9, 0.99)
"""Of AdamW, as on the local engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SftLaunch:
    """What a launch knows beside the run."""

    name: str
    """Of the run."""
    model: str
    """Folder of the model's files, or what verl fetches."""
    demonstrations: str
    updates: str
    """Files of both."""
    checkpoints: str
    resume_from: str | None
    """Folder of the checkpoint that the run goes on from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked(AskedOfRun):
    """What the values below are made of."""

    launch: SftLaunch


Row = tuple[str, str, Callable[[_Asked], Value]]
_ROWS: tuple[Row, ...] = (
    ("trainer.total_training_steps", "train.steps", lambda a: a.train.steps),
    ("trainer.total_epochs", "the rows are all updates", lambda _: 1),
    ("trainer.save_freq", "train.checkpoint_every", lambda a: a.train.checkpoint_every),
    ("trainer.test_freq", "evaluations play episodes", lambda _: -1),
    ("trainer.nnodes", "cluster.nodes", lambda a: a.cluster.nodes),
    ("trainer.n_gpus_per_node", "cluster.gpus_per_node", lambda a: max(1, a.cluster.gpus_per_node)),
    ("trainer.device", "cluster.gpus_per_node", lambda a: "cpu" if a.rehearsal else "cuda"),
    ("trainer.project_name", "this program", lambda _: "agentgym"),
    ("trainer.experiment_name", "the run's name", lambda a: a.launch.name),
    ("trainer.logger", "metrics go to the store", lambda _: ("console",)),
    ("trainer.default_local_dir", "the run's folder", lambda a: a.launch.checkpoints),
    ("trainer.resume_mode", "the checkpoint that was found", lambda a: "disable" if a.launch.resume_from is None else "resume_path"),
    ("trainer.resume_from_path", "the checkpoint that was found", lambda a: a.launch.resume_from),
    ("data.train_files", "train.algorithm.demonstrations", lambda a: (a.launch.demonstrations, a.launch.updates)),
    ("data.val_files", "evaluations play episodes", lambda _: None),
    ("data.custom_cls.path", "demonstrations come as tokens", lambda _: "pkg://agentgym_cli.learn.verl.sft.dataset"),
    ("data.custom_cls.name", "demonstrations come as tokens", lambda _: "DemonstratedRows"),
    ("data.train_batch_size", "train.tasks_per_step", lambda a: a.train.tasks_per_step),
    ("data.pad_mode", "demonstrations come as tokens", lambda _: "no_padding"),
    ("data.num_workers", "demonstrations come as tokens", lambda _: 0),
    ("data.use_dynamic_bsz", "passes are filled by tokens", lambda _: True),
    ("data.max_token_len_per_gpu", "budgets.context_tokens: no demonstration is longer", lambda a: a.run.budgets.context_tokens),
    ("model.path", "policy.model.path", lambda a: a.launch.model),
    ("model.enable_gradient_checkpointing", "memory, but for a rehearsal", lambda a: not a.rehearsal),
    ("model.use_remove_padding", "flash attention, but for a rehearsal", lambda a: not a.rehearsal),
    ("engine.strategy", "FSDP", lambda _: "fsdp2"),
    ("engine.seed", "seed", lambda a: a.run.seed),
    *((f"engine.{name}", "cluster.offload", lambda a, among=among: a.cluster.offload in among) for name, among in OFFLOADED.items()),
    ("optim.lr", "train.learning_rate", lambda a: a.train.learning_rate),
    ("optim.betas", "those of the local engine", lambda _: BETAS),
    ("optim.weight_decay", "train.weight_decay", lambda a: a.train.weight_decay),
    # Of verl's schedules only this one can begin above 0: step s has min(1, s / (warmup_steps + 1)) of the rate, as on the local engine.
    ("optim.lr_scheduler_type", "train.warmup_steps", lambda _: "cosine"),
    ("optim.lr_warmup_steps", "train.warmup_steps", lambda a: a.train.warmup_steps + 1),
    ("optim.zero_indexed_step", "train.warmup_steps", lambda _: False),
    ("optim.min_lr_ratio", "train.warmup_steps", lambda _: 1.0),
    ("optim.clip_grad", "train.max_gradient_norm", lambda a: a.train.max_gradient_norm),
)
_REHEARSAL: tuple[Row, ...] = (
    ("model.override_config.attn_implementation", "no flash attention on a CPU", lambda _: "sdpa"),
    *((f"engine.mixed_precision.{name}_dtype", "a CPU computes in float32", lambda _: "fp32") for name in ("param", "reduce", "buffer")),
    ("engine.use_torch_compile", "compiling takes longer than the rehearsal", lambda _: False),
)


def sft_settings(run: Run, launch: SftLaunch) -> tuple[Setting, ...]:
    """Every key of verl's that a run sets; what the recipe says in verl's own words is last, so that it wins. Raises RecipeError."""
    asked = _Asked(run=run, launch=launch)
    rows = (*_ROWS, *(_REHEARSAL if asked.rehearsal else ()))
    found = {key: Setting(key=key, value=value(asked), source=source) for key, source, value in rows}
    for own in own_settings(asked.cluster, IMITATING):
        # Hydra takes a key that is added, and not listed in the reference, once only.
        found.pop(own.key, None)
        found[own.key] = own
    return tuple(found.values())


def sft_table() -> Iterator[tuple[str, str]]:
    """Every key that can be set, and the field it is from, in order; for the docs and for tests."""
    for key, source, _ in (*_ROWS, *_REHEARSAL):
        yield key, source


def sft_markdown() -> str:
    """The table as Markdown: each field and the keys that it sets."""
    return markdown(sft_table())
