"""Every online algorithm against an independent implementation: advantages and losses to 1e-10, gradients against finite differences."""

from __future__ import annotations

import pytest

from tests.learn.verification import CASES, compare

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("name", CASES)
def test_an_independent_implementation_in_float64_agrees(name: str) -> None:
    found = compare(name, seed=1)
    assert found.advantage < 1e-10
    assert found.loss < 1e-10
    assert found.gradient < 1e-7
    assert (found.critic_loss or 0.0) < 1e-10
    assert (found.critic_gradient or 0.0) < 1e-7
    assert (found.critic_loss is not None) == name.startswith("ppo")
