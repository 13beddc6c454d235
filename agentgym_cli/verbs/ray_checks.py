"""Whether a Ray cluster that runs already can carry a launch, asked before the launch. Each failure names the field."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym_cli.errors import TrainerError
from agentgym_cli.learn.verl.ray_nodes import RayNode, ask_ray
from agentgym_cli.recipe.schema.computing import ClusterSpec
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.verbs.verl_place import rehearses, variables_of

CPUS_PER_GPU = 3
"""That verl reserves beside each GPU (``ResourcePoolManager.max_colocate_count`` of single_controller/ray/base.py)."""
CPUS_BESIDE = {True: 4, False: 11}
"""Its driver, the queue's controller and storage units (one in a rehearsal, eight by themselves), and one that an actor needs to be placed."""


def require_ray(run: Run) -> None:
    """Ask the cluster that a run names, if it names one. Raises TrainerError."""
    cluster = run.cluster
    if cluster is not None and cluster.ray_address is not None:
        require_room(cluster, ask_ray(cluster.ray_address, variables=variables_of(run)), rehearsal=rehearses(run))


def require_room(cluster: ClusterSpec, nodes: Sequence[RayNode], *, rehearsal: bool) -> None:
    """Refuse a cluster with too little that is free: Ray would wait for it without end. Raises TrainerError."""
    each = max(1, cluster.gpus_per_node)
    had = ", ".join(f"{node.address}: {node.gpus:g} of {node.all_gpus:g} GPUs and {node.cpus:g} CPUs free" for node in nodes)
    # A large machine may stand for several.
    places = sum(int(min(node.gpus // each, node.cpus // (CPUS_PER_GPU * each))) for node in nodes)
    if places < cluster.nodes:
        raise TrainerError(
            f"cluster.gpus_per_node: expected room in the Ray cluster for {cluster.nodes} times {each} GPUs and {CPUS_PER_GPU * each} CPUs, "
            f"got room for {places} ({had})",
            "ray start --num-gpus=N counts logical GPUs for a rehearsal" if rehearsal else "ray status shows who has them; or lower cluster.nodes",
        )
    needed = CPUS_PER_GPU * cluster.gpus + CPUS_BESIDE[rehearsal]
    if (free := sum(node.cpus for node in nodes)) < needed:
        raise TrainerError(
            f"cluster.ray_address: expected {needed} CPUs free in the Ray cluster, as Ray counts them, got {free:g} ({had})",
            f"ray start ... --num-cpus=N, {needed} together, or wait until others end",
        )
