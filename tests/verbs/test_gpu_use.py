"""GPUs that somebody computes on are refused, whoever it is; those that a launch does not take are not looked at."""

from __future__ import annotations

import pytest

from agentgym_cli.errors import TrainerError
from agentgym_cli.verbs.gpu_use import refuse_used

# Two idle ones, one with 60 GiB of a run on it, one with a desktop.
SAID = "GPU-aa, 4, 81559\nGPU-bb, 4, 81559\nGPU-cc, 61440, 81559\nGPU-dd, 700, 81559\n"


@pytest.mark.parametrize(("count", "visible"), [(2, None), (3, "0,1,3"), (1, "GPU-dd"), (2, "GPU-b,GPU-a,GPU-c"), (2, "3,1,2")])
def test_gpus_that_nobody_uses_are_taken(count: int, visible: str | None) -> None:
    refuse_used(count, SAID, visible=visible)


@pytest.mark.parametrize(("count", "visible"), [(3, None), (4, None), (1, "2"), (2, "0,2"), (1, "GPU-cc")])
def test_one_that_is_taken_is_named_with_how_much(count: int, visible: str | None) -> None:
    with pytest.raises(TrainerError) as refused:
        refuse_used(count, SAID, visible=visible)
    assert refused.value.message == f"cluster.gpus_per_node: expected {count} GPUs that nobody uses, got GPU 2 has 60 of 80 GiB taken"


@pytest.mark.parametrize("said", ["", "No devices were found\n", "GPU-aa, [N/A], [N/A]\n"])
def test_what_is_no_number_is_no_reason(said: str) -> None:
    refuse_used(1, said, visible=None)
