"""Twice the GPUs: what the recipe would then be, never what its rules forbid."""

from __future__ import annotations

import pytest

from agentgym_cli.verbs.capacity import CapacityAnswer, Question, estimate_capacity

TEXTCRAFT = "recipes/textcraft_grpo.yaml"


def asked(*overrides: str, gpu: str = "h100-80g", gpus: int | None = None) -> CapacityAnswer:
    return estimate_capacity(Question(recipe=TEXTCRAFT, overrides=overrides, gpu=gpu, gpus=gpus))


def test_twice_the_gpus_save_what_the_alternative_takes_less() -> None:
    # One GPU plays 40 of 256 episodes at once, two play 80.
    found = asked("profile=gpu1")
    twice = next(each for each in found.alternatives if each.name == "2 x h100-80g")
    assert found.twice_gpus is not None
    assert found.twice_gpus.seconds == pytest.approx(found.main.step.total - twice.estimate.step.total)
    assert found.twice_gpus.keys == ("cluster.gpus_per_node",)


def test_full_machines_are_doubled_by_their_number() -> None:
    found = asked(gpus=8).twice_gpus
    assert found is not None and found.keys == ("cluster.nodes",)


def test_gpus_that_cannot_share_an_update_are_not_advised() -> None:
    # 32 tasks x 8 episodes in 4 updates are 64 episodes each: no share for every one of 128 GPUs.
    assert asked(gpus=64).twice_gpus is None
    assert asked(gpus=32).twice_gpus is not None


def test_one_process_has_no_more_gpus() -> None:
    assert asked("profile=laptop").twice_gpus is None


def test_what_plays_ahead_says_that_it_is_not_counted() -> None:
    assert [note for note in asked("cluster.max_staleness=2").notes if note.startswith("cluster.max_staleness")]
    assert not [note for note in asked().notes if "staleness" in note]
