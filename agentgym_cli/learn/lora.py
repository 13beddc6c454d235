"""Low-rank adapters, arXiv 2106.09685: y = W x + (alpha / rank) * B A x, where A and B are trained and W is not. Owns peft; knows no run.

B begins as 0, so that an adapted model begins as the model. What samples and what is exported has them merged: W + (alpha / rank) * B A.
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Protocol, cast

import torch
from torch import Tensor, nn

from agentgym_cli.episode.policies.sampler import CausalModel
from agentgym_cli.errors import LockError
from agentgym_cli.recipe.schema.learning import LoraSpec

_NAME = "default"
"""What peft calls the only adapter of a model."""


class _AdaptedLayer(Protocol):
    """What peft puts in the place of a linear layer."""

    base_layer: nn.Linear

    def get_delta_weight(self, name: str) -> Tensor:
        """(alpha / rank) * B A, in the shape of the layer's weight."""
        ...


class Adapted:
    """A model whose ``targets`` have adapters, put in place, and a second model that has them merged and shares every other weight with it."""

    def __init__(self, model: CausalModel, spec: LoraSpec, *, seed: int) -> None:
        """Adapters are drawn from ``seed``. Raises LockError when peft is not installed."""
        self.merged = _sharing_copy(model, spec.targets)
        peft = _peft()
        settings = peft.LoraConfig(r=spec.rank, lora_alpha=spec.alpha, target_modules=_paths(model, spec.targets), lora_dropout=0.0, bias="none")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            peft.inject_adapter_in_model(settings, model, adapter_name=_NAME)
        targets = dict(self.merged.named_modules())
        self._layers = [(layer, cast(nn.Linear, targets[path])) for path, layer in _adapted_layers(model)]

    @torch.no_grad()
    def merge(self) -> CausalModel:
        """Bring ``merged`` up to the adapters as they are, and return it."""
        for layer, target in self._layers:
            target.weight.copy_(layer.base_layer.weight + layer.get_delta_weight(_NAME))
        return self.merged


def _peft() -> ModuleType:
    """Loaded only where a recipe asks for adapters."""
    try:
        return importlib.import_module("peft")
    except ImportError as err:
        raise LockError("train.lora: expected the package peft, got none", "pip install 'agentgym-cli[local]'") from err


def _linear_layers(model: CausalModel) -> Mapping[str, nn.Linear]:
    """By path; the head is none of them, since training reads its weight itself."""
    return {path: module for path, module in model.named_modules() if isinstance(module, nn.Linear) and path.startswith("model.layers.")}


def _paths(model: CausalModel, targets: tuple[str, ...]) -> list[str]:
    return [path for path in _linear_layers(model) if path.rpartition(".")[2] in targets]


def _sharing_copy(model: CausalModel, targets: tuple[str, ...]) -> CausalModel:
    """A copy of the network in which only the weights of ``targets`` are its own."""
    own = {id(_linear_layers(model)[path].weight) for path in _paths(model, targets)}
    shared: dict[int, object] = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers()) if id(tensor) not in own}
    return copy.deepcopy(model, shared)


def _adapted_layers(model: CausalModel) -> Iterator[tuple[str, _AdaptedLayer]]:
    for path, module in model.named_modules():
        if hasattr(module, "base_layer") and hasattr(module, "get_delta_weight"):
            yield path, cast(_AdaptedLayer, module)
