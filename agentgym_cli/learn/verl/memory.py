"""What of verl's own keys in a recipe changes the memory that a run needs: those that an estimate reads, and those that it does not. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from agentgym_cli.errors import RecipeError
from agentgym_cli.learn.verl.keys import REINFORCING, Keys
from agentgym_cli.learn.verl.settings import own_settings
from agentgym_cli.recipe.schema.computing import ClusterSpec, Offload
from agentgym_cli.recipe.wording import shown

_ACTOR, _CRITIC, _ROLLOUT, _MODEL = "actor_rollout_ref.actor", "critic", "actor_rollout_ref.rollout", "actor_rollout_ref.model"
SHARE = f"{_ROLLOUT}.gpu_memory_utilization"
FUSED = f"{_MODEL}.use_fused_kernels"
_BATCHED = f"{_ROLLOUT}.max_num_batched_tokens"
_PARALLEL = f"{_ROLLOUT}.tensor_model_parallel_size"
_PASS = (f"{_ACTOR}.ppo_max_token_len_per_gpu", f"{_CRITIC}.ppo_infer_max_token_len_per_gpu", "data.max_token_len_per_gpu")
_CHECKPOINTING = "enable_gradient_checkpointing"
_OFFLOAD = tuple(
    ("actor_rollout_ref.actor.fsdp_config." + name, "engine." + name) for name in ("offload_policy", "param_offload", "optimizer_offload")
)
_MODELS = (_MODEL, "model")
READ = (
    *(SHARE, _BATCHED, _PARALLEL, *_PASS, *(key for keys in _OFFLOAD for key in keys)),
    *(f"{place}.{name}" for place in _MODELS for name in ("use_fused_kernels", _CHECKPOINTING)),
)
"""Keys whose values an estimate takes. A critic is counted as the policy is."""
_OF_NETWORKS = ("checkpoint", "clip_ratio", "cliprange", "entropy_coeff", "grad_clip", "kl_loss", "loss_agg", "optim.", "policy_loss", "ppo_")
_OF_ROLLOUT = ("agent", "calculate_log_probs", "do_sample", "ignore_eos", "seed", "temperature", "top_", "trace", "val_kwargs")
_HARMLESS = (
    *("actor_rollout_ref.ref.fsdp_config.param_offload", "algorithm", "data", "global_profiler", "reward", "trainer", "transfer_queue"),
    *("checkpoint", "optim."),
    *(f"{place}.{name}" for place in (_ACTOR, _CRITIC) for name in _OF_NETWORKS),
    *(f"{_ROLLOUT}.{name}" for name in _OF_ROLLOUT),
)
"""Beginnings of keys that change no memory of a GPU that is worth a word. ``ppo_`` are sizes of batches: those of a pass are read."""
T = TypeVar("T", int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryKeys:
    """What a launch tells verl of memory: as it is set from the recipe's fields, or in verl's own words."""

    share: float
    """Of a GPU that the sampler takes in all."""
    batched_tokens: int
    """Tokens that the sampler reads at once."""
    tensor_parallel: int
    pass_tokens: int | None
    """Most tokens of a pass forward and back; None for one context."""
    fused_head: bool
    """Logits are computed in pieces."""
    checkpointing: bool
    offload: Offload
    read: tuple[str, ...]
    """Keys of the recipe whose values are taken."""
    unread: tuple[str, ...]
    """Keys of the recipe that may change memory, and are not."""


def memory_keys(cluster: ClusterSpec, keys: Keys = REINFORCING) -> MemoryKeys:
    """What a cluster says to the trainer that has these keys. Raises RecipeError for one that it does not have, and for a value not of its kind."""
    said = {each.key: str(each.value) for each in own_settings(cluster, keys)}
    passes = [_number(said, key, 0, int) for key in _PASS if key in said]
    return MemoryKeys(
        # 0.5, 8,192 and False are verl's own, which a launch leaves as they are.
        share=_share(said),
        batched_tokens=_number(said, _BATCHED, 8192, int),
        tensor_parallel=_number(said, _PARALLEL, cluster.tensor_parallel, int),
        pass_tokens=max(passes) if passes else None,
        fused_head=_flag(said, FUSED, _flag(said, "model.use_fused_kernels", False)),
        checkpointing=all(_flag(said, f"{place}.{_CHECKPOINTING}", True) for place in _MODELS),
        offload=_offload(said, cluster),
        read=tuple(key for key in said if key in READ),
        unread=tuple(key for key in said if key not in READ and not key.startswith(_HARMLESS)),
    )


def _share(said: Mapping[str, str]) -> float:
    found = _number(said, SHARE, 0.5, float)
    if not 0 < found <= 1:
        raise RecipeError(f"cluster.verl: expected {SHARE} above 0 and at most 1, got {found}", f"verl.{SHARE}=0.5")
    return found


def _offload(said: Mapping[str, str], cluster: ClusterSpec) -> Offload:
    """By three keys of the policy's, each of which wins over ``cluster.offload``."""
    of = cluster.offload
    set_by_it = (of == "streamed", of == "all", of in ("optimizer", "all"))
    streamed, weights, moments = (
        _flag(said, actor, _flag(said, imitating, otherwise)) for (actor, imitating), otherwise in zip(_OFFLOAD, set_by_it, strict=True)
    )
    if streamed:
        return "streamed"
    # Weights that are away without their moments are counted as if nothing were.
    return "all" if weights and moments else "optimizer" if moments else "none"


def _flag(said: Mapping[str, str], key: str, otherwise: bool) -> bool:
    text = said.get(key, str(otherwise)).lower()
    if text not in ("true", "false"):
        raise RecipeError(f"cluster.verl: expected {key} to be true or false, got {shown(text)}", f"verl.{key}=true")
    return text == "true"


def _number(said: Mapping[str, str], key: str, otherwise: T, kind: type[T]) -> T:
    try:
        found = kind(said[key]) if key in said else otherwise
    except ValueError as err:
        raise RecipeError(f"cluster.verl: expected {key} to be a number, got {shown(said[key])}", "write it as 8192 or 0.5") from err
    if not found > 0 and key in said:
        raise RecipeError(f"cluster.verl: expected {key} above 0, got {found}", "docs/capacity.md says what is counted")
    return found
