"""A Ray cluster with too little that is free is refused before a launch waits for it."""

from __future__ import annotations

import pytest

from agentgym_cli.errors import TrainerError
from agentgym_cli.learn.verl.ray_nodes import RayNode
from agentgym_cli.recipe.schema.computing import ClusterSpec
from agentgym_cli.verbs.ray_checks import require_room


def node(gpus: float, cpus: float, *, of: float | None = None) -> RayNode:
    return RayNode(address=f"10.0.0.{gpus:g}", cpus=cpus, gpus=gpus, all_gpus=gpus if of is None else of)


def cluster(nodes: int, gpus: int) -> ClusterSpec:
    return ClusterSpec(nodes=nodes, gpus_per_node=gpus, ray_address="10.0.0.1:6379")


# Three CPUs for each GPU, and eleven beside them: 16 x 3 + 11 = 59.
@pytest.mark.parametrize("nodes", [(node(8, 30), node(8, 29)), (node(16, 59),), (node(8, 24), node(8, 24), node(0, 11))])
def test_room_is_where_the_gpus_and_their_cpus_are(nodes: tuple[RayNode, ...]) -> None:
    require_room(cluster(2, 8), nodes, rehearsal=False)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ((), r"room in the Ray cluster for 2 times 8 GPUs and 24 CPUs, got room for 0 \(\)"),
        (
            (node(8, 64), node(7, 64, of=8)),
            r"room for 1 \(10\.0\.0\.8: 8 of 8 GPUs and 64 CPUs free, 10\.0\.0\.7: 7 of 8 GPUs and 64 CPUs free\)",
        ),
        ((node(8, 64), node(8, 23)), "got room for 1"),
        # As many GPUs, but no machine has eight.
        ((node(4, 64),) * 4, "got room for 0"),
    ],
)
def test_too_few_gpus_name_the_field_and_who_has_what(nodes: tuple[RayNode, ...], message: str) -> None:
    with pytest.raises(TrainerError, match=rf"cluster\.gpus_per_node: expected .*{message}") as refused:
        require_room(cluster(2, 8), nodes, rehearsal=False)
    assert refused.value.hint


def test_too_few_cpus_are_named_too() -> None:
    with pytest.raises(TrainerError, match=r"cluster\.ray_address: expected 59 CPUs free in the Ray cluster, as Ray counts them, got 58"):
        require_room(cluster(2, 8), (node(8, 30), node(8, 28)), rehearsal=False)


def test_a_rehearsal_of_two_machines_may_be_on_one() -> None:
    require_room(cluster(2, 0), (node(2, 10),), rehearsal=True)
    with pytest.raises(TrainerError, match="expected 10 CPUs free"):
        require_room(cluster(2, 0), (node(2, 9),), rehearsal=True)
