"""What the benchmark of a step draws, and how it says that costs grow."""

from __future__ import annotations

import pytest

from agentgym_cli.episode.policies.sampler import TorchDecoder
from benchmarks.step_cost import Setting, draw, model_of, power

pytestmark = pytest.mark.torch


def test_a_step_is_of_episodes_whose_every_turn_reads_and_samples() -> None:
    setting = Setting(layers=1, hidden=32, vocabulary=16, turns=2, read=3, sampled=2)
    groups = draw(TorchDecoder(model_of(setting), slots=64, context=setting.context, stop_ids=frozenset()), setting, step=1)
    assert [len(group) for group in groups] == [8] * 8
    drawn = [member.trajectory for group in groups for member in group]
    assert {None if one is None else one.action_mask for one in drawn} == {(False, False, False, True, True) * 2}
    assert [member.reward for member in groups[0]] == [0.0, 1.0] * 4


@pytest.mark.parametrize(("sizes", "seconds", "wanted"), [((2, 4, 8), (1.0, 9.0, 4.0), 1.0), ((3, 9), (2.0, 18.0), 2.0), ((1, 10), (5.0, 5.0), 0.0)])
def test_growth_is_the_power_between_the_first_and_the_last(sizes: tuple[int, ...], seconds: tuple[float, ...], wanted: float) -> None:
    assert power(sizes, seconds) == pytest.approx(wanted)
