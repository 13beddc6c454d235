"""Checkpoints: weights, optimizer, what else learns beside the policy, step, generator and the run's digest, written aside and renamed.

Read without pickle.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from agentgym_cli.episode.policies.sampler import CausalModel
from agentgym_cli.errors import TrainerError
from agentgym_cli.learn.model import WEIGHTS, adapter_names, load_weights

OPTIMIZER = "optimizer.safetensors"
STATE = "state.json"
FORMAT = 1
_GENERATOR = "generator"
_HINT_DISK = "free some space, then resume the run"
Learner = tuple[nn.Module, torch.optim.Optimizer]
"""A network that learns beside the policy, and its own optimizer."""
NOTHING: Mapping[str, Learner] = {}


def save_checkpoint(
    folder: Path,
    *,
    model: CausalModel,
    optimizer: torch.optim.Optimizer,
    step: int,
    digest: str,
    beside: Mapping[str, Learner] = NOTHING,
) -> str:
    """Write a checkpoint so that ``folder`` is either wholly there or not at all; one that is there is replaced.

    Args:
        step: optimizer steps behind the weights. The data position is a pure function of it (schedules.tasks_at), so it needs no state.
        digest: of the frozen run; a resume with another one is refused.
        beside: by name, e.g. the critic; each gets two files of that name.

    Returns:
        SHA-256 of the weights file.

    Raises:
        TrainerError: it cannot be written.
    """
    weights = save(_weights(model))
    aside = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        _write(aside / WEIGHTS, weights)
        _write(aside / OPTIMIZER, save({**_moments(optimizer), _GENERATOR: torch.get_rng_state()}))
        for name, (network, own) in beside.items():
            _write(aside / f"{name}.safetensors", save({key: value.detach().contiguous() for key, value in network.state_dict().items()}))
            _write(aside / f"{name}_{OPTIMIZER}", save(_moments(own)))
        _write(aside / STATE, json.dumps({"format": FORMAT, "step": step, "digest": digest}, sort_keys=True).encode())
        _put_in_place(aside, folder)
    except OSError as err:
        shutil.rmtree(aside, ignore_errors=True)
        raise TrainerError(f"{folder}: cannot write the checkpoint: {err.strerror or err}", hint=_HINT_DISK) from err
    return hashlib.sha256(weights).hexdigest()


def load_checkpoint(
    folder: Path, *, model: CausalModel, optimizer: torch.optim.Optimizer, digest: str, beside: Mapping[str, Learner] = NOTHING
) -> int:
    """Put a checkpoint's weights, optimizer state and generator in place; returns its step.

    Raises:
        TrainerError: it is of another run (both digests are named), of another format, or its optimizer is not this one.
        PolicyError: its weights are not this model's.
    """
    state = _read_state(folder)
    if state.get("digest") != digest:
        got = str(state.get("digest"))[:12]
        raise TrainerError(
            f"{folder}: expected a checkpoint of the run with digest {digest[:12]}, got one of {got}", hint="resume the run that it belongs to"
        )
    load_weights(model, folder / WEIGHTS)
    tensors = _read_tensors(folder / OPTIMIZER)
    generator = tensors.pop(_GENERATOR, None)
    if generator is None:
        raise TrainerError(f"{folder / OPTIMIZER}: expected the generator's state, got none")
    _restore_moments(optimizer, tensors, folder / OPTIMIZER)
    for name, (network, own) in beside.items():
        _restore_network(network, folder / f"{name}.safetensors")
        _restore_moments(own, _read_tensors(folder / f"{name}_{OPTIMIZER}"), folder / f"{name}_{OPTIMIZER}")
    torch.set_rng_state(generator)
    step = state.get("step")
    if type(step) is not int:
        raise TrainerError(f"{folder / STATE}: step: expected a whole number, got {step!r}")
    return step


def _weights(model: CausalModel) -> dict[str, Tensor]:
    """Tensors of the model, a tied head left out; of a model with adapters theirs alone, the others being those of its folder."""
    adapters = adapter_names(model)
    tied = {"lm_head.weight"} if model.config.tie_word_embeddings else set()
    kept = {name: tensor for name, tensor in model.state_dict().items() if (name in adapters if adapters else name not in tied)}
    return {name: tensor.detach().contiguous() for name, tensor in kept.items()}


def _moments(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    state = optimizer.state_dict()["state"]
    return {f"{place}.{name}": value.contiguous() for place, values in state.items() for name, value in values.items()}


def _restore_moments(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor], path: Path) -> None:
    whole = optimizer.state_dict()
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        place, _, name = key.partition(".")
        if not (place.isdecimal() and int(place) < len(parameters)) or (tensor.dim() and tensor.shape != parameters[int(place)].shape):
            raise TrainerError(f"{path}: expected the state of this optimizer, got {key} of shape {tuple(tensor.shape)}")
        state.setdefault(int(place), {})[name] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": whole["param_groups"]})


def _restore_network(network: nn.Module, path: Path) -> None:
    try:
        network.load_state_dict(_read_tensors(path))
    except RuntimeError as err:
        raise TrainerError(f"{path}: expected the tensors of this run's network, got {str(err)[:300]}") from err


def _read_state(folder: Path) -> dict[str, object]:
    try:
        state = json.loads((folder / STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as err:
        raise TrainerError(f"{folder / STATE}: expected a checkpoint's state, got {type(err).__name__}: {err}") from err
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise TrainerError(f"{folder / STATE}: expected format {FORMAT} of a checkpoint, got another")
    return state


def _read_tensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (OSError, ValueError, SafetensorError) as err:
        raise TrainerError(f"{path}: expected tensors, got {type(err).__name__}: {str(err)[:200]}") from err


def _write(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _put_in_place(aside: Path, folder: Path) -> None:
    replaced = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    if folder.exists():
        folder.rename(replaced)
    aside.rename(folder)
    _sync_folder(folder.parent)
    shutil.rmtree(replaced, ignore_errors=True)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
