"""A merged model against the tokens that a run sampled with the same weights: log-probabilities of both, side by side. Loads transformers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM
from transformers.utils import logging

from agentgym_cli.errors import TrainerError

MOST_TOKENS = 16_384
"""Of all trajectories that are scored, shortest first; one longer is scored alone."""
LARGEST_MEAN = 0.1
"""Nats: rounding weights to bfloat16 gives about a tenth of it, other weights far more."""
_ROWS = 512
"""Tokens whose distributions are computed at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A trajectory as it was recorded."""

    token_ids: tuple[int, ...]
    action_mask: tuple[bool, ...]
    logprobs: tuple[float, ...]
    """In nats, of the distribution drawn from, which keeps every token."""
    temperature: float
    """1.0 for greedy ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Apart:
    """How far the model is from what was recorded."""

    episodes: int
    tokens: int
    """Action tokens that were compared."""
    largest: float
    """Nats."""
    mean: float
    """Of the absolute differences, in nats."""

    def sentence(self) -> str:
        """For a person."""
        of = f"{self.episodes} episode{'' if self.episodes == 1 else 's'}"
        return f"at most {self.largest:.4f} nats from those sampled, {self.mean:.4f} on average, over {self.tokens:,} tokens of {of}"


def compare(folder: Path, trajectories: Sequence[Kept]) -> Apart | None:
    """Score recorded action tokens by the model in ``folder``, in float32; None where there are none.

    Raises:
        TrainerError: the folder does not load, or its mean difference is that of other weights.
    """
    chosen = _chosen(trajectories)
    if not chosen:
        return None
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
    except (OSError, ValueError, KeyError, RuntimeError) as err:
        raise TrainerError(f"{folder}: expected a model that transformers loads, got {type(err).__name__}: {str(err)[:300]}") from err
    finally:
        logging.enable_progress_bar()  # type: ignore[no-untyped-call]
    apart = torch.cat([_differences(model, each) for each in chosen])
    found = Apart(episodes=len(chosen), tokens=len(apart), largest=float(apart.max()), mean=float(apart.mean()))
    if not found.mean <= LARGEST_MEAN:
        raise TrainerError(
            f"{folder}: expected the merged model to give the log-probabilities that were sampled, "
            f"within {LARGEST_MEAN:g} nats on average, got {found.sentence()}",
            "the shards may be of other weights than the run's records; name another checkpoint: --step N",
        )
    return found


def _chosen(trajectories: Sequence[Kept]) -> list[Kept]:
    chosen: list[Kept] = []
    for each in sorted((each for each in trajectories if any(each.action_mask)), key=lambda each: len(each.token_ids)):
        if chosen and sum(len(before.token_ids) for before in chosen) + len(each.token_ids) > MOST_TOKENS:
            break
        chosen.append(each)
    return chosen


@torch.no_grad()
def _differences(model: Any, kept: Kept) -> torch.Tensor:
    """|model - recorded| of every action token, (A,)."""
    places = torch.tensor([place for place, acted in enumerate(kept.action_mask) if acted])
    ids = torch.tensor(kept.token_ids)
    hidden = model.base_model(ids[None]).last_hidden_state[0, places - 1]
    recorded = torch.tensor(kept.logprobs)[places]
    parts = []
    for rows, taken, said in zip(*(torch.split(each, _ROWS) for each in (hidden, ids[places], recorded)), strict=True):
        logp = torch.log_softmax(model.get_output_embeddings()(rows).float() / kept.temperature, dim=-1)
        parts.append((logp.gather(1, taken[:, None])[:, 0] - said).abs())
    return torch.cat(parts)
