"""Every key of verl's that a run sets, which field of the recipe it is from, and its value: one row each, by section. Pure; imports no verl."""

from __future__ import annotations

from collections.abc import Callable

from agentgym_cli.learn.verl.asked import ASYNC, LOOP, NO_DUAL_CLIP, PADDING_ROW, Asked, Value
from agentgym_cli.recipe.schema.algorithms import GrpoSpec, OnlineSpec, PpoSpec

Row = tuple[str, str, Callable[[Asked], Value]]
_KL_LOSS = {"k1": "kl", "k2": "mse", "k3": "low_var_kl"}
_PRECISION = {"param_dtype": "fp32", "reduce_dtype": "fp32", "buffer_dtype": "fp32"}


OFFLOADED = {"param_offload": ("all",), "optimizer_offload": ("optimizer", "all"), "offload_policy": ("streamed",)}
"""verl's keys of what lies in the machine's memory, each with the values of ``cluster.offload`` that set it. The last alone is about updates too:
with the others all of a network is on the GPU while it is at work."""


def _offloaded(section: str) -> tuple[Row, ...]:
    return tuple((f"{section}.{name}", "cluster.offload", lambda a, among=among: a.cluster.offload in among) for name, among in OFFLOADED.items())


_TRAINER: tuple[Row, ...] = (
    ("trainer.v1.trainer_mode", "cluster.max_staleness", lambda a: ASYNC if a.cluster.max_staleness else LOOP),
    ("trainer.v1.sampler.custom_sampler.path", "a step learns from what is scheduled for it", lambda _: "pkg://agentgym_cli.learn.verl.buffer"),
    ("trainer.v1.sampler.custom_sampler.name", "a step learns from what is scheduled for it", lambda _: "StepBuffer"),
    ("trainer.total_training_steps", "train.steps", lambda a: a.train.steps),
    ("trainer.total_epochs", "the rows are the whole schedule", lambda _: 1),
    ("trainer.save_freq", "train.checkpoint_every", lambda a: a.train.checkpoint_every),
    ("trainer.test_freq", "evaluation.every, the last step included", lambda a: a.run.evaluation.every or a.train.steps),
    ("trainer.val_before_train", "an evaluation comes first", lambda a: a.launch.evaluate_first),
    ("trainer.val_only", "nothing but an evaluation is left", lambda a: a.launch.evaluate_only),
    ("trainer.nnodes", "cluster.nodes", lambda a: a.cluster.nodes),
    ("trainer.n_gpus_per_node", "cluster.gpus_per_node", lambda a: max(1, a.cluster.gpus_per_node)),
    ("trainer.device", "cluster.gpus_per_node", lambda a: "cpu" if a.rehearsal else "cuda"),
    ("trainer.project_name", "this program", lambda _: "agentgym"),
    ("trainer.experiment_name", "the run's name", lambda a: a.launch.name),
    ("trainer.logger", "metrics go to the store", lambda _: ("console",)),
    ("trainer.default_local_dir", "the run's folder", lambda a: a.launch.checkpoints),
    ("trainer.resume_mode", "the checkpoint that was found", lambda a: "disable" if a.launch.resume_from is None else "resume_path"),
    ("trainer.resume_from_path", "the checkpoint that was found", lambda a: a.launch.resume_from),
    ("trainer.checkpoint_callback_class", "a digest beside each checkpoint", lambda _: "agentgym_cli.learn.verl.trainer.CheckpointDigest"),
)
_DATA: tuple[Row, ...] = (
    ("data.train_files", "the schedule", lambda a: a.launch.train_rows),
    ("data.val_files", "tasks.evaluation", lambda a: a.launch.evaluation_rows),
    ("data.custom_cls.path", "the schedule", lambda _: "pkg://agentgym_cli.learn.verl.dataset"),
    ("data.custom_cls.name", "the schedule", lambda _: "ScheduledRows"),
    ("data.train_batch_size", "train.tasks_per_step", lambda a: a.train.tasks_per_step),
    ("data.shuffle", "the schedule has an order", lambda _: False),
    ("data.validation_shuffle", "the schedule has an order", lambda _: False),
    ("data.dataloader_num_workers", "rows are small", lambda _: 0),
    ("data.seed", "seed", lambda a: a.run.seed),
    ("data.max_prompt_length", "budgets.context_tokens", lambda a: a.run.budgets.context_tokens),
    ("data.max_response_length", "budgets.context_tokens", lambda a: a.run.budgets.context_tokens),
)
_ACTOR: tuple[Row, ...] = (
    ("actor_rollout_ref.model.path", "policy.model.path", lambda a: a.launch.model),
    ("actor_rollout_ref.model.enable_gradient_checkpointing", "memory, but for a rehearsal", lambda a: not a.rehearsal),
    ("actor_rollout_ref.model.use_remove_padding", "flash attention, but for a rehearsal", lambda a: not a.rehearsal),
    ("actor_rollout_ref.actor.strategy", "FSDP", lambda _: "fsdp2"),
    ("actor_rollout_ref.actor.optim.lr", "train.learning_rate", lambda a: a.train.learning_rate),
    ("actor_rollout_ref.actor.optim.weight_decay", "train.weight_decay", lambda a: a.train.weight_decay),
    # Of verl's schedules only this one can begin above 0: step s has min(1, s / (warmup_steps + 1)) of the rate, as on the local engine.
    ("actor_rollout_ref.actor.optim.lr_scheduler_type", "train.warmup_steps", lambda _: "cosine"),
    ("actor_rollout_ref.actor.optim.lr_warmup_steps", "train.warmup_steps", lambda a: a.train.warmup_steps + 1),
    ("actor_rollout_ref.actor.optim.zero_indexed_step", "train.warmup_steps", lambda _: False),
    ("actor_rollout_ref.actor.optim.min_lr_ratio", "train.warmup_steps", lambda _: 1.0),
    ("actor_rollout_ref.actor.optim.clip_grad", "train.max_gradient_norm", lambda a: a.train.max_gradient_norm),
    ("actor_rollout_ref.actor.grad_clip", "train.max_gradient_norm", lambda a: a.train.max_gradient_norm),
    ("actor_rollout_ref.actor.ppo_mini_batch_size", "train.tasks_per_step / train.updates_per_step", lambda a: a.mini_batch),
    ("actor_rollout_ref.actor.ppo_epochs", "train.passes_per_step", lambda a: a.train.passes_per_step),
    ("actor_rollout_ref.actor.shuffle", "the schedule has an order", lambda _: False),
    ("actor_rollout_ref.actor.data_loader_seed", "seed", lambda a: a.run.seed),
    ("actor_rollout_ref.actor.clip_ratio", "train.algorithm.clip", lambda a: a.algorithm.clip),
    ("actor_rollout_ref.actor.clip_ratio_low", "train.algorithm.clip", lambda a: a.algorithm.clip),
    ("actor_rollout_ref.actor.clip_ratio_high", "train.algorithm.clip_high", lambda a: a.algorithm.clip_high or a.algorithm.clip),
    ("actor_rollout_ref.actor.clip_ratio_c", "the formulas here have no third clip", lambda _: NO_DUAL_CLIP),
    (
        "actor_rollout_ref.actor.loss_agg_mode",
        "train.algorithm.average",
        lambda a: "token-mean" if a.algorithm.average == "token" else "seq-mean-token-mean",
    ),
    ("actor_rollout_ref.actor.entropy_coeff", "train.algorithm.entropy_coefficient", lambda a: a.algorithm.entropy_coefficient),
    ("actor_rollout_ref.actor.calculate_entropy", "it is recorded at every step", lambda _: True),
    ("actor_rollout_ref.actor.use_kl_loss", "train.algorithm.kl_place", lambda a: a.algorithm.kl_coefficient > 0 and a.algorithm.kl_place == "loss"),
    ("actor_rollout_ref.actor.kl_loss_coef", "train.algorithm.kl_coefficient", lambda a: a.algorithm.kl_coefficient),
    ("actor_rollout_ref.actor.kl_loss_type", "train.algorithm.kl_estimate", lambda a: _KL_LOSS[a.algorithm.kl_estimate]),
    ("actor_rollout_ref.actor.use_dynamic_bsz", "passes are filled by tokens", lambda _: True),
    ("actor_rollout_ref.actor.ppo_max_token_len_per_gpu", "budgets.context_tokens: no trajectory is longer", lambda a: _pass_tokens(a)),
    *_offloaded("actor_rollout_ref.actor.fsdp_config"),
    ("actor_rollout_ref.ref.fsdp_config.param_offload", "the reference is asked once a step", lambda a: not a.rehearsal),
)
_ADAPTERS: tuple[Row, ...] = (
    ("actor_rollout_ref.model.lora_rank", "train.lora", lambda a: a.lora.rank),
    ("actor_rollout_ref.model.lora_alpha", "train.lora", lambda a: int(a.lora.alpha)),
    ("actor_rollout_ref.model.target_modules", "train.lora", lambda a: a.lora.targets),
    ("actor_rollout_ref.rollout.load_format", "only adapters are sent to vLLM, which reads the model itself", lambda _: "safetensors"),
)
_ROLLOUT: tuple[Row, ...] = (
    ("actor_rollout_ref.rollout.name", "the sampler", lambda _: "vllm"),
    ("actor_rollout_ref.rollout.n", "train.algorithm.group_size", lambda a: a.algorithm.group_size),
    ("actor_rollout_ref.rollout.temperature", "policy.sampling.temperature", lambda a: a.run.policy.sampling.temperature),
    ("actor_rollout_ref.rollout.top_p", "policy.sampling.top_p", lambda a: a.run.policy.sampling.top_p),
    ("actor_rollout_ref.rollout.top_k", "policy.sampling.top_k", lambda a: a.run.policy.sampling.top_k or -1),
    ("actor_rollout_ref.rollout.seed", "seed", lambda a: a.run.seed),
    ("actor_rollout_ref.rollout.calculate_log_probs", "they are part of a trajectory", lambda _: True),
    ("actor_rollout_ref.rollout.tensor_model_parallel_size", "cluster.tensor_parallel", lambda a: a.cluster.tensor_parallel),
    ("actor_rollout_ref.rollout.max_model_len", "budgets.context_tokens", lambda a: a.run.budgets.context_tokens),
    ("actor_rollout_ref.rollout.max_num_seqs", "engine.slots", lambda a: a.run.engine.slots),
    ("actor_rollout_ref.rollout.agent.default_agent_loop", "our episode loop", lambda _: LOOP),
    ("actor_rollout_ref.rollout.agent.agent_loop_config_path", "our episode loop", lambda a: a.launch.loops),
    ("actor_rollout_ref.rollout.agent.num_workers", "one for each GPU, or one in a rehearsal", lambda a: a.cluster.gpus),
    ("actor_rollout_ref.rollout.val_kwargs.n", "evaluation.samples_per_task", lambda a: a.run.evaluation.samples_per_task),
    ("actor_rollout_ref.rollout.val_kwargs.temperature", "evaluation.temperature", lambda a: _evaluation_temperature(a)),
    ("actor_rollout_ref.rollout.val_kwargs.do_sample", "evaluation.temperature", lambda a: _evaluation_temperature(a) > 0),
    ("actor_rollout_ref.rollout.val_kwargs.top_p", "policy.sampling.top_p", lambda a: a.run.policy.sampling.top_p),
    ("actor_rollout_ref.rollout.val_kwargs.top_k", "policy.sampling.top_k", lambda a: a.run.policy.sampling.top_k or -1),
)
_ALGORITHM: tuple[Row, ...] = (
    ("algorithm.adv_estimator", "train.algorithm.kind", lambda a: "gae" if isinstance(a.algorithm, PpoSpec) else LOOP),
    ("algorithm.gamma", "train.algorithm.discount", lambda a: _of(a.algorithm, "discount", 1.0)),
    ("algorithm.lam", "train.algorithm.gae_lambda", lambda a: _of(a.algorithm, "gae_lambda", 1.0)),
    (
        "algorithm.norm_adv_by_std_in_grpo",
        "train.algorithm.normalize_std",
        lambda a: a.algorithm.normalize_std if isinstance(a.algorithm, GrpoSpec) else False,
    ),
    (
        "algorithm.use_kl_in_reward",
        "train.algorithm.kl_place",
        lambda a: a.algorithm.kl_coefficient > 0 and a.algorithm.kl_place == "reward",
    ),
    ("algorithm.kl_penalty", "train.algorithm.kl_estimate", lambda a: _KL_LOSS[a.algorithm.kl_estimate]),
    ("algorithm.kl_ctrl.kl_coef", "train.algorithm.kl_coefficient", lambda a: a.algorithm.kl_coefficient),
    (
        "algorithm.rollout_correction.rollout_is",
        "train.importance_cap",
        lambda a: None if a.train.importance_cap is None else "token",
    ),
    ("algorithm.rollout_correction.rollout_is_threshold", "train.importance_cap", lambda a: a.train.importance_cap or 2.0),
    ("critic.enable", "train.algorithm.kind", lambda a: isinstance(a.algorithm, PpoSpec)),
    ("reward.num_workers", "our loop brings the reward", lambda _: 1),
    ("ray_kwargs.ray_init.address", "cluster.ray_address, else a Ray of the run's own", lambda a: a.cluster.ray_address or "local"),
)
_CRITIC: tuple[Row, ...] = (
    ("critic.model.path", "policy.model.path", lambda a: a.launch.model),
    ("critic.strategy", "FSDP", lambda _: "fsdp2"),
    ("critic.optim.lr", "train.algorithm.critic_learning_rate", lambda a: _of(a.algorithm, "critic_learning_rate", 0.0)),
    ("critic.optim.weight_decay", "train.algorithm.critic_weight_decay", lambda a: _of(a.algorithm, "critic_weight_decay", 0.0)),
    ("critic.optim.clip_grad", "train.algorithm.critic_max_gradient_norm", lambda a: _of(a.algorithm, "critic_max_gradient_norm", 1.0)),
    ("critic.grad_clip", "train.algorithm.critic_max_gradient_norm", lambda a: _of(a.algorithm, "critic_max_gradient_norm", 1.0)),
    ("critic.cliprange_value", "train.algorithm.value_clip", lambda a: _of(a.algorithm, "value_clip", None) or NO_DUAL_CLIP),
    ("critic.ppo_max_token_len_per_gpu", "as the actor's", lambda a: _pass_tokens(a)),
    # This one, which is no key of the reference, is what verl's trainer bounds a critic's passes by, forward and back; it is 32,768 by itself.
    ("critic.ppo_infer_max_token_len_per_gpu", "as the actor's", lambda a: _pass_tokens(a)),
    *_offloaded("critic.fsdp"),
    ("critic.model.use_remove_padding", "flash attention, but for a rehearsal", lambda a: not a.rehearsal),
    ("critic.model.enable_gradient_checkpointing", "memory, but for a rehearsal", lambda a: not a.rehearsal),
    ("trainer.critic_warmup", "train.algorithm.critic_warmup_steps", lambda a: _first_of_policy(a.algorithm)),
)
_REHEARSAL: tuple[Row, ...] = (
    ("actor_rollout_ref.model.override_config.attn_implementation", "no flash attention on a CPU", lambda _: "sdpa"),
    *(
        (f"actor_rollout_ref.actor.fsdp_config.mixed_precision.{name}", "a CPU computes in float32", lambda _, kind=kind: kind)
        for name, kind in _PRECISION.items()
    ),
    ("actor_rollout_ref.actor.use_torch_compile", "compiling takes longer than the rehearsal", lambda _: False),
    ("actor_rollout_ref.actor.fsdp_config.use_torch_compile", "compiling takes longer than the rehearsal", lambda _: False),
    ("actor_rollout_ref.ref.use_torch_compile", "compiling takes longer than the rehearsal", lambda _: False),
    ("actor_rollout_ref.rollout.dtype", "a CPU computes in float32", lambda _: "float32"),
    ("actor_rollout_ref.rollout.enforce_eager", "no CUDA graphs on a CPU", lambda _: True),
    ("actor_rollout_ref.rollout.free_cache_engine", "vLLM sleeps on CUDA only", lambda _: False),
    ("actor_rollout_ref.rollout.enable_sleep_mode", "vLLM sleeps on CUDA only", lambda _: False),
    ("actor_rollout_ref.rollout.gpu_memory_utilization", "a CPU's cache has a variable of its own", lambda _: 0.1),
    ("actor_rollout_ref.rollout.max_num_batched_tokens", "budgets.context_tokens", lambda a: a.run.budgets.context_tokens),
    ("actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes", "shared memory is small", lambda _: 16),
    ("transfer_queue.backend.SimpleStorage.num_data_storage_units", "fewer processes", lambda _: 1),
)
_REHEARSED_RAY: tuple[Row, ...] = (
    ("ray_kwargs.ray_init.num_cpus", "logical: Ray counts more than there are", lambda a: 8 * a.cluster.gpus),
    ("ray_kwargs.ray_init.num_gpus", "logical: a CPU stands for a GPU", lambda a: a.cluster.gpus),
    ("ray_kwargs.ray_init.include_dashboard", "fewer processes", lambda _: False),
    ("ray_kwargs.ray_init.object_store_memory", "shared memory is small", lambda _: 500_000_000),
)
"""A Ray of the run's own in a rehearsal: a cluster that runs already has what it has, and Ray refuses to be told."""
_REHEARSED_CRITIC: tuple[Row, ...] = (("critic.model.override_config.attn_implementation", "no flash attention on a CPU", lambda _: "sdpa"),)
EVERY: tuple[Row, ...] = (*_TRAINER, *_DATA, *_ACTOR, *_ADAPTERS, *_ROLLOUT, *_ALGORITHM, *_CRITIC, *_REHEARSAL, *_REHEARSED_RAY, *_REHEARSED_CRITIC)
"""All rows that there are, in order."""


def rows_of(asked: Asked) -> list[Row]:
    """The rows that a run needs; of two with the same key the later one counts."""
    critic = isinstance(asked.algorithm, PpoSpec)
    rows: list[Row] = [*_TRAINER, *_DATA, *_ACTOR, *_ROLLOUT, *_ALGORITHM]
    rows += _ADAPTERS if asked.train.lora is not None else ()
    rows += _CRITIC if critic else ()
    rows += _REHEARSAL if asked.rehearsal else ()
    rows += _REHEARSED_RAY if asked.rehearsal and asked.cluster.ray_address is None else ()
    rows += _REHEARSED_CRITIC if critic and asked.rehearsal else ()
    return rows


def _of(algorithm: OnlineSpec, name: str, otherwise: float | None) -> float | None:
    found: float | None = getattr(algorithm, name, otherwise)
    return found


def _first_of_policy(algorithm: OnlineSpec) -> int:
    """verl updates the policy from the step on that its setting names."""
    return algorithm.critic_warmup_steps + 1 if isinstance(algorithm, PpoSpec) and algorithm.critic_warmup_steps else 0


def _pass_tokens(asked: Asked) -> int:
    """Tokens of one pass on one GPU: no trajectory is longer than one context, and the memory model counts one."""
    return max(PADDING_ROW, asked.run.budgets.context_tokens)


def _evaluation_temperature(asked: Asked) -> float:
    wanted = asked.run.evaluation.temperature
    return 0.0 if wanted == "greedy" else wanted or asked.run.policy.sampling.temperature
