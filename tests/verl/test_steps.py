"""Whose episodes a step learns from, and which of their tokens are of the newest weights, with verl's own classes and no launch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from agentgym_cli.learn.verl.ages import Ages

pytestmark = [pytest.mark.verl, pytest.mark.filterwarnings("ignore")]
replay: Any = pytest.importorskip("verl.trainer.ppo.v1.replay_buffer")
buffer: Any = pytest.importorskip("agentgym_cli.learn.verl.buffer")
trainer: Any = pytest.importorskip("agentgym_cli.learn.verl.trainer")


def prompt(step: int, status: str) -> dict[str, Any]:
    return {"is_prompt": True, "status": status, "global_steps": step}


class Queue:
    """What the buffer asks verl's queue for: the states of groups, one after the other, and what it clears."""

    def __init__(self, *states: dict[str, dict[str, Any]]) -> None:
        self._states = list(states)
        self.cleared: list[str] = []

    def kv_list(self) -> dict[str, dict[str, dict[str, Any]]]:
        return {"train": self._states.pop(0) if len(self._states) > 1 else self._states[0]}

    def kv_clear(self, keys: list[str], partition_id: str) -> None:
        self.cleared += keys


def sampled(monkeypatch: pytest.MonkeyPatch, queue: Queue, *, step: int) -> Any:
    monkeypatch.setattr(replay, "tq", queue)
    made = buffer.StepBuffer(
        trainer_mode="sync", trainer_config={}, max_off_policy_threshold=1, max_off_policy_strategy="drop", sampler_kwargs={}, poll_interval=0.0
    )
    batch, _ = made.sample(global_steps=step, partition_id="train", batch_size=2)
    return batch


def test_a_step_waits_for_its_own_groups_while_those_of_the_next_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = {"c": prompt(2, "finished"), "d": prompt(2, "finished"), "c_0_0": {"status": "success"}, "d_0_0": {"status": "success"}}
    waiting = {"a": prompt(1, "finished"), "b": prompt(1, "running"), "a_0_0": {"status": "success"}, **ahead}
    # A group whose episodes failed is over too.
    over = {**waiting, "b": prompt(1, "failure"), "b_1_0": {"status": "success"}}
    queue = Queue(waiting, waiting, over)
    assert sampled(monkeypatch, queue, step=1).keys == ["a_0_0", "b_1_0"]
    assert sorted(queue.cleared) == ["a", "b"]
    assert sampled(monkeypatch, Queue(ahead), step=2).keys == ["c_0_0", "d_0_0"]


class Played:
    """What a trainer hands to the agent loops: which steps, and in which of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, steps: int, ahead: int) -> None:
        self.submitted: list[tuple[int, int, list[int]]] = []
        self._trainer = object.__new__(trainer.AsyncTrainer)
        self._trainer.__dict__ |= {
            "_ahead": ahead,
            "config": SimpleNamespace(data=SimpleNamespace(train_batch_size=2)),
            "train_dataset": range(2 * steps),
            "total_training_steps": steps,
        }
        monkeypatch.setattr(trainer, "collate_fn", list)
        monkeypatch.setattr(self._trainer, "_submit", self._submit)

    def _submit(self, rows: list[int], partition: str, step: int) -> int:
        self.submitted.append((self._trainer.global_steps, step, rows))
        return len(rows)

    def train(self, first: int) -> list[tuple[int, int, list[int]]]:
        """From step ``first`` to the last, as verl goes through them."""
        self.submitted.clear()
        self._trainer.global_steps = first
        self._trainer.on_train_begin()
        for step in range(first, self._trainer.total_training_steps + 1):
            self._trainer.global_steps = step
            self._trainer.prepare_step()
        return list(self.submitted)


@pytest.mark.parametrize("ahead", [0, 1, 3, 9])
def test_promise_01_every_step_of_the_schedule_is_played_once_and_never_earlier_than_allowed(monkeypatch: pytest.MonkeyPatch, ahead: int) -> None:
    played = Played(monkeypatch, steps=5, ahead=ahead)
    submitted = played.train(1)
    assert [(step, rows) for _, step, rows in submitted] == [(1, [0, 1]), (2, [2, 3]), (3, [4, 5]), (4, [6, 7]), (5, [8, 9])]
    # Weights of step now - 1 and later sample what step - 1 learns from: never more than the bound apart.
    assert max(step - now for now, step, _ in submitted) == min(ahead, 4)


def test_promise_10_a_resume_plays_what_no_update_has_learned_from(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch, steps=5, ahead=2)
    assert played.train(1)[-1][:2] == (3, 5)
    # Behind the checkpoint of step 3 nothing of steps 4 and 5 counts, though both had begun.
    assert played.train(4) == [(4, 4, [6, 7]), (4, 5, [8, 9])]


@pytest.mark.parametrize(("ahead", "oldest"), [(0, 1), (2, 3)])
def test_a_batch_of_weights_that_are_too_old_ends_the_run_and_says_why(monkeypatch: pytest.MonkeyPatch, ahead: int, oldest: int) -> None:
    said: list[dict[str, Any]] = []
    monkeypatch.setattr(trainer, "say_once", lambda desk, do, **fields: said.append({"do": do, **fields}))
    made = object.__new__(trainer.ToldTrainer)
    made.__dict__ |= {"_ahead": ahead, "_setup_told": SimpleNamespace(desk=None), "global_steps": 5}
    made._refuse_older(Ages(oldest=ahead, mean=0.0))
    assert said == []
    with pytest.raises(RuntimeError, match=f"at most {ahead} updates old"):
        made._refuse_older(Ages(oldest=oldest, mean=0.5))
    assert said == [
        {
            "do": "stop",
            "interrupted": False,
            "message": f"step 5: expected tokens of weights at most {ahead} updates old, as cluster.max_staleness says, got some that are {oldest}",
        }
    ]


def test_tokens_of_the_newest_weights_are_told_from_older_ones_and_from_the_worlds() -> None:
    mask = torch.tensor([[True, True, False, True, True], [True, False, False, False, False], [False] * 5])
    # The third row is verl's padding, which has the versions of the row that it was made from.
    found = trainer._sampled_by(3, mask, [((2, 1), (3, 2), (4, 1)), ((2, 1),), ((3, 4),)])
    assert found.tolist() == [[False, True, False, True, False], [False] * 5, [False] * 5]
