"""The demonstrations of all updates as the data set that verl reads: token ids and masks as they are, in the order of the updates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from agentgym_cli.learn.verl.sft.rows import read_demonstrations, read_updates


class DemonstratedRows(Dataset[dict[str, Any]]):
    """What ``data.custom_cls`` names. verl makes it with two paths, its tokenizer and its settings; only the paths are used."""

    def __init__(
        self, parquet_files: Sequence[str], tokenizer: object = None, config: object = None, processor: object = None, max_samples: int = -1
    ) -> None:
        demonstrations, updates = map(Path, parquet_files)
        # Four bytes a token and one for its mask: every process has all of them.
        self._shown = [
            (torch.tensor(each.token_ids, dtype=torch.int32), torch.tensor(each.action_mask, dtype=torch.bool))
            for each in read_demonstrations(demonstrations)
        ]
        self._places = [place for update in read_updates(updates) for place in update]

    def __len__(self) -> int:
        """Demonstrations of all updates, each as often as it is drawn."""
        return len(self._places)

    def __getitem__(self, place: int) -> dict[str, Tensor]:
        """One demonstration, T tokens: ``input_ids``, ``position_ids`` and ``loss_mask``, 1 where a token is learned, all int64 of shape (T,)."""
        token_ids, action_mask = self._shown[self._places[place]]
        return {"input_ids": token_ids.long(), "position_ids": torch.arange(len(token_ids)), "loss_mask": action_mask.long()}
