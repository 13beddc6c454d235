"""One optimizer update: scores of action tokens, gradients in pieces, clipping, and the check that numbers are numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from agentgym_cli.episode.policies.sampler import CausalModel
from agentgym_cli.errors import TrainerError
from agentgym_cli.learn.batch import Batch
from agentgym_cli.learn.model import adapter_names

Precision = Literal["float32", "bfloat16"]
"""Of the products inside a network; weights, probabilities and losses are float32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionScores:
    """What a model says of a batch's action tokens; shapes (B, T), float32, nats, 0 where ``action_mask`` is False."""

    logp: Tensor
    entropy: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """What one optimizer update did."""

    loss: float
    gradient_norm: float
    """Before clipping."""


def make_optimizer(
    model: nn.Module, *, weight_decay: float, parameters: Literal["all", "gains"] = "all", head: nn.Module | None = None
) -> torch.optim.AdamW:
    """AdamW over all parameters, or over the vectors among them (gains of the norms, biases), the rest frozen; each update gives its rate.

    Of a model with adapters these are all that is trained, beside ``head``, a part of it that always is.
    """
    adapters = adapter_names(model)
    always = set() if head is None else {id(parameter) for parameter in head.parameters()}
    for name, parameter in model.named_parameters():
        wanted = name in adapters if adapters else parameters == "all" or parameter.dim() == 1
        parameter.requires_grad_(wanted or id(parameter) in always)
        parameter.grad = None
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return torch.optim.AdamW(trained, lr=0.0, betas=(0.9, 0.99), weight_decay=weight_decay, fused=True)


def device_of(model: nn.Module) -> torch.device:
    """Where a network's weights are."""
    return next(model.parameters()).device


def hidden_before(body: nn.Module, batch: Batch, *, precision: Precision = "float32") -> Tensor:
    """What a network knows when each action token is sampled: hidden states one place before, (action tokens, hidden), row by row.

    Causal attention and padding on the right: no token sees padding.
    """
    with torch.autocast(batch.token_ids.device.type, dtype=torch.bfloat16, enabled=precision == "bfloat16"):
        hidden: Tensor = body(input_ids=batch.token_ids, use_cache=False).last_hidden_state
    found = hidden[:, :-1][batch.action_mask[:, 1:]]
    return found if precision == "float32" else found.float()


def action_scores(model: CausalModel, batch: Batch, *, temperature: float, precision: Precision = "float32") -> ActionScores:
    """Log-probability and entropy of each action token under the distribution it is sampled from, temperature applied."""
    logits = F.linear(hidden_before(model.model, batch, precision=precision), model.lm_head.weight) / temperature
    each = torch.log_softmax(logits, dim=-1)
    taken = each.gather(-1, batch.token_ids[batch.action_mask][:, None])[:, 0]
    blank = torch.zeros(batch.token_ids.shape, device=batch.token_ids.device)
    return ActionScores(
        logp=blank.masked_scatter(batch.action_mask, taken),
        entropy=blank.masked_scatter(batch.action_mask, -(each.exp() * each).sum(-1)),
    )


def update(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Sequence[Batch],
    loss_of: Callable[[Batch], Tensor],
    *,
    learning_rate: float,
    max_gradient_norm: float,
    where: str,
) -> Update:
    """Add up the gradients of ``loss_of`` over ``batches`` and make one update.

    Raises TrainerError naming ``where`` when the loss or a gradient is not finite; the weights are then as before.
    """
    optimizer.zero_grad(set_to_none=True)
    total, device = 0.0, device_of(model)
    for batch in batches:
        loss = loss_of(batch.to(device))
        loss.backward()  # type: ignore[no-untyped-call]
        total += loss.item()
    norm = float(torch.nn.utils.clip_grad_norm_(model.parameters(), max_gradient_norm))
    if not (math.isfinite(total) and math.isfinite(norm)):
        optimizer.zero_grad(set_to_none=True)
        raise TrainerError(f"{where}: expected a finite loss and gradient, got loss {total} and gradient norm {norm}", hint="lower the learning rate")
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
    optimizer.step()
    return Update(loss=total, gradient_norm=norm)
