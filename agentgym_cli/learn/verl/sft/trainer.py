"""verl's supervised trainer, which takes demonstrations in our order, says where it is, and whose each checkpoint is. torchrun starts it."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any

import hydra
import torch
from verl.trainer.sft_trainer import SFTTrainer
from verl.utils import tensordict_utils
from verl.utils.device import get_device_id
from verl.utils.distributed import destroy_global_process_group, initialize_global_process_group

from agentgym_cli.learn.verl.numbers import numbers
from agentgym_cli.learn.verl.setup import DIGEST_FILE
from agentgym_cli.learn.verl.sft.keys import REFERENCE
from agentgym_cli.learn.verl.sft.setup import SETUP_FILE, SftSetup, read_sft_setup
from agentgym_cli.store.desk import say_once

UPDATE, CHECKPOINT = "update", "checkpoint"
TIMES = ("mfu", "perf/")
"""How verl begins the names of numbers that no two runs have in common."""


class ToldSftTrainer(SFTTrainer):
    """What ``verl.trainer.sft_trainer`` runs, told through the file that the launcher wrote."""

    training_client: Any
    ckpt_handler: Any

    def __init__(self, config: Any) -> None:
        self._desk = Desk(read_sft_setup(Path(SETUP_FILE)))
        super().__init__(config)
        self.training_client.step = int(self.resume_global_step)
        self._desk.mark(UPDATE, self.training_client.step + 1)

    def _build_engine(self) -> None:
        super()._build_engine()
        self.training_client = ToldClient(self.training_client, self._desk)

    def _build_dataloader(self) -> None:
        """verl's, whose sampler shuffles: the rows have an order, and each process takes every so manieth of a batch."""
        super()._build_dataloader()
        self.train_sampler.shuffle = False

    def _build_ckpt_handler(self) -> None:
        super()._build_ckpt_handler()
        self.ckpt_handler = ToldCheckpoints(self.ckpt_handler, self._desk)


class Desk:
    """What the first process says to the launcher; the others are silent."""

    def __init__(self, setup: SftSetup) -> None:
        self._setup = setup
        self._speaks = torch.distributed.get_rank() == 0

    @property
    def speaks(self) -> bool:
        """Whether this process is the first."""
        return self._speaks

    @property
    def digest(self) -> str:
        """Of the frozen run."""
        return self._setup.digest

    def mark(self, phase: str, step: int) -> None:
        """A phase begins."""
        self.say("mark", phase=phase, step=step)

    def say(self, do: str, **fields: Any) -> None:
        """Hand something in, which is on the disk when this returns."""
        if self._speaks:
            say_once(self._setup.desk, do, **fields)


class ToldClient:
    """verl's worker, whose updates are measured and judged."""

    def __init__(self, client: Any, desk: Desk) -> None:
        self._client, self._desk = client, desk
        self.step = 0
        """Updates made so far."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def train_batch(self, data: Any) -> Any:
        """One update. What it measured is handed in before its checkpoint is written.

        Raises:
            ArithmeticError: loss or gradient is not finite, where verl itself leaves the update out and goes on; no checkpoint of it is written.
        """
        engine, began = self._client.engine, time.monotonic()
        counted = torch.tensor([int(data["loss_mask"].sum()), len(data)], device=get_device_id())
        torch.distributed.all_reduce(counted, group=engine.get_data_parallel_group())
        rate = float(engine.optimizer.param_groups[0]["lr"])
        output = self._client.train_batch(data=data)
        self.step += 1
        if output is None:
            return output
        found = dict(tensordict_utils.get(output, "metrics"))
        tokens, rows = counted.tolist()
        every = sum(tensordict_utils.get(data, "global_token_num"))
        own = {"learning_rate": rate, "action_tokens": tokens, "demonstrations": rows, "global_tokens": every}
        values = {name: value for name, value in found.items() if not name.startswith(TIMES)}
        self._desk.say("metrics", step=self.step, values=numbers({**values, **own}))
        if not (math.isfinite(found["loss"]) and math.isfinite(found["grad_norm"])):
            raise ArithmeticError(f"step {self.step}: loss {found['loss']} and gradient norm {found['grad_norm']}")
        times = {name: value for name, value in found.items() if name.startswith(TIMES)}
        self._desk.say("times", step=self.step, values=numbers({**times, "step_seconds": time.monotonic() - began}))
        self._desk.mark(UPDATE, self.step + 1)
        return output


class ToldCheckpoints:
    """verl's checkpoints, each with the run's digest beside it, written last."""

    def __init__(self, handler: Any, desk: Desk) -> None:
        self._handler, self._desk = handler, desk

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handler, name)

    def save_checkpoint(self, step: int) -> None:
        """See verl, whose processes leave this together once all have written."""
        self._desk.mark(CHECKPOINT, step)
        self._handler.save_checkpoint(step=step)
        if self._desk.speaks:
            folder = Path(self._handler.default_local_dir) / f"global_step_{step}"
            document = {"digest": self._desk.digest, "step": step, "ranks": torch.distributed.get_world_size(), "shards": "."}
            aside = folder / f".{DIGEST_FILE}"
            aside.write_text(json.dumps(document, sort_keys=True) + "\n", encoding="utf-8")
            aside.replace(folder / DIGEST_FILE)
            self._desk.say("checkpoint", step=step, path=str(folder))
        self._desk.mark(UPDATE, step + 1)


@hydra.main(config_path="pkg://verl.trainer.config", config_name=REFERENCE, version_base=None)
def main(config: Any) -> None:
    """As verl's own ``run_sft``, with our trainer."""
    initialize_global_process_group()
    ToldSftTrainer(config).fit()
    destroy_global_process_group()


if __name__ == "__main__":
    main()
