"""The rows of a schedule as the data set that verl reads, in the order of the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset

from agentgym_cli.learn.verl.rows import read_rows


class ScheduledRows(Dataset[dict[str, Any]]):
    """What ``data.custom_cls`` names. verl makes it with the path, its tokenizer and its settings; only the path is used."""

    def __init__(self, data_files: str, tokenizer: object = None, processor: object = None, config: object = None, max_samples: int = -1) -> None:
        self._rows = read_rows(Path(str(data_files)))

    def __len__(self) -> int:
        """Rows of the whole schedule."""
        return len(self._rows)

    def __getitem__(self, place: int) -> dict[str, Any]:
        """One row, with the columns that verl asks for; our loop lays out the prompt itself."""
        row = self._rows[place]
        return {
            "raw_prompt": [{"role": "user", "content": row.task.id}],
            "dummy_tensor": torch.zeros(1, dtype=torch.uint8),
            "index": place,
            "data_source": row.task.split,
            "reward_model": {"style": "rule", "ground_truth": ""},
            "extra_info": {"index": place, "split": row.phase},
            "place": place,
            "rows": row.phase,
        }
