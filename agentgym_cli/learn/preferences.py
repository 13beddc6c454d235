"""Direct preference optimization (DPO), arXiv 2305.18290, equation 7, over pairs of whole episodes of one task:

    L = - mean over pairs of log sigmoid(m)
    m = b * ((log p(chosen) - log p_ref(chosen)) - (log p(rejected) - log p_ref(rejected)))

where log p adds up the log-probabilities of an episode's action tokens: what the world said is never scored, and an episode's length is not divided
out. Normalised over the pairs of one update, at temperature 1. Assumes both episodes of a pair to be of one task and one protocol; the reference is
the policy before the first step and is asked once for each pair.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from agentgym_cli.episode.policies.sampler import CausalModel
from agentgym_cli.errors import TrainerError
from agentgym_cli.learn.batch import PIECE_TOKENS, Batch, Example, pad
from agentgym_cli.learn.pairs import Pair
from agentgym_cli.learn.update import Precision, action_scores, device_of, update

Reference = tuple[float, float]
"""Log-probability of a pair's chosen and rejected episode under the reference, nats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferenceMetrics:
    """What one update did; means over its pairs, before the update."""

    loss: float
    gradient_norm: float
    """Before clipping."""
    margin: float
    """``m`` above."""
    accuracy: float
    """Share of pairs whose margin is above 0."""
    chosen_logp: float
    """Log-probability of an episode's action tokens together, nats."""
    rejected_logp: float
    pairs: int
    action_tokens: int


def preference_loss(chosen: Tensor, rejected: Tensor, reference: Tensor, beta: float) -> tuple[Tensor, Tensor]:
    """Loss and margin of each pair, shape (P,).

    Args:
        chosen, rejected: log-probability of each episode's action tokens together, nats, shape (P,).
        reference: the same under the reference, shape (P, 2), chosen first.
        beta: above 0.
    """
    margin = beta * ((chosen - reference[:, 0]) - (rejected - reference[:, 1]))
    return -F.logsigmoid(margin), margin


@torch.no_grad()
def reference_logps(
    model: CausalModel, pairs: Sequence[Pair], *, pass_tokens: int = PIECE_TOKENS, precision: Precision = "float32"
) -> list[Reference]:
    """What the reference says of each pair."""
    found: list[Reference] = []
    for part in _parts(pairs, pass_tokens):
        chosen, rejected = _episode_logps(model, _batch(part).to(device_of(model)), precision)
        found += list(zip(chosen.tolist(), rejected.tolist(), strict=True))
    return found


class PreferenceTrainer:
    """Teaches ``model`` to prefer the chosen episode of each pair."""

    def __init__(
        self,
        model: CausalModel,
        *,
        optimizer: torch.optim.Optimizer,
        beta: float,
        max_gradient_norm: float,
        pass_tokens: int = PIECE_TOKENS,
        precision: Precision = "float32",
    ) -> None:
        self._model = model
        self._pass_tokens, self._precision = pass_tokens, precision
        self.optimizer = optimizer
        self._beta = beta
        self._max_gradient_norm = max_gradient_norm

    def preference_step(self, pairs: Sequence[tuple[Pair, Reference]], *, step: int, learning_rate: float) -> PreferenceMetrics:
        """One update, averaged over ``pairs``. Raises TrainerError when there are none or a number is not finite."""
        where = f"step {step}"
        if not pairs:
            raise TrainerError(f"{where}: expected pairs, got none")
        margins: list[Tensor] = []
        sums = torch.zeros(2)
        batches = [_batch(part) for part in _parts([pair for pair, _ in pairs], self._pass_tokens)]
        known = torch.tensor([reference for _, reference in pairs])

        def loss_of(batch: Batch) -> Tensor:
            chosen, rejected = _episode_logps(self._model, batch, self._precision)
            first = sum(map(len, margins))
            loss, margin = preference_loss(chosen, rejected, known[first : first + len(chosen)].to(chosen.device), self._beta)
            margins.append(margin.detach().cpu())
            sums.add_(torch.stack([chosen.detach().sum(), rejected.detach().sum()]).cpu())
            return loss.sum() / len(pairs)

        made = update(
            self._model,
            self.optimizer,
            batches,
            loss_of,
            learning_rate=learning_rate,
            max_gradient_norm=self._max_gradient_norm,
            where=where,
        )
        every = torch.cat(margins)
        return PreferenceMetrics(
            loss=made.loss,
            gradient_norm=made.gradient_norm,
            margin=float(every.mean()),
            accuracy=float((every > 0).float().mean()),
            chosen_logp=float(sums[0]) / len(pairs),
            rejected_logp=float(sums[1]) / len(pairs),
            pairs=len(pairs),
            action_tokens=sum(batch.action_tokens for batch in batches),
        )


def _parts(pairs: Sequence[Pair], pass_tokens: int) -> list[list[Pair]]:
    """Pairs in the order given, cut so that one forward pass has at most ``pass_tokens`` padded tokens, or one pair."""
    parts: list[list[Pair]] = []
    longest = 0
    for pair in pairs:
        longest = max(longest, pair.length)
        if not parts or 2 * longest * (len(parts[-1]) + 1) > pass_tokens:
            parts.append([])
            longest = pair.length
        parts[-1].append(pair)
    return parts


def _batch(pairs: Sequence[Pair]) -> Batch:
    """Rows 2p and 2p + 1 are the chosen and the rejected episode of pair p."""
    return pad([Example(trajectory=side, advantage=0.0) for pair in pairs for side in (pair.chosen, pair.rejected)])


def _episode_logps(model: CausalModel, batch: Batch, precision: Precision) -> tuple[Tensor, Tensor]:
    """Log-probability of each chosen and each rejected episode, shape (P,)."""
    each = action_scores(model, batch, temperature=1.0, precision=precision).logp.sum(-1)
    return each[0::2], each[1::2]


def cached_reference(
    path: Path, model: CausalModel, pairs: Sequence[Pair], *, pass_tokens: int = PIECE_TOKENS, precision: Precision = "float32"
) -> list[Reference]:
    """What the reference says of ``pairs``: from ``path`` where that is of these pairs, else asked of ``model`` and kept there.

    Call it while ``model`` has the reference's weights. Raises TrainerError when the file cannot be written.
    """
    digest = _digest(pairs)
    known = _read(path, digest, len(pairs))
    if known is not None:
        return known
    found = reference_logps(model, pairs, pass_tokens=pass_tokens, precision=precision)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        aside.write_text(json.dumps({"pairs": digest, "logps": found}), encoding="utf-8")
        aside.replace(path)
    except OSError as err:
        aside.unlink(missing_ok=True)
        raise TrainerError(f"{path}: cannot write the reference: {err.strerror or err}", "free some space, then resume the run") from err
    return found


def _digest(pairs: Sequence[Pair]) -> str:
    whole = hashlib.sha256()
    for pair in pairs:
        whole.update(json.dumps([[side.token_ids, side.action_mask] for side in (pair.chosen, pair.rejected)]).encode())
    return whole.hexdigest()


def _read(path: Path, digest: str, count: int) -> list[Reference] | None:
    """Nothing where there is no such file, or it is of other pairs."""
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        if said["pairs"] != digest or len(said["logps"]) != count:
            return None
        return [(float(chosen), float(rejected)) for chosen, rejected in said["logps"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None
