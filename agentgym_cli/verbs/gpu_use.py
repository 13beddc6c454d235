"""Whether somebody else is on the GPUs that a launch would take: two runs on one machine share no GPU."""

from __future__ import annotations

import subprocess

from agentgym_cli.errors import TrainerError
from agentgym_cli.recipe.resolve import whole_environment
from agentgym_cli.recipe.schema.computing import ClusterSpec

_SMI = ("nvidia-smi", "--query-gpu=uuid,memory.used,memory.total", "--format=csv,noheader,nounits")
_SMI_SECONDS = 15.0
FREE_SHARE = 0.1
"""Of a GPU's memory may be taken where nobody computes on it: a driver and a desktop take a few hundred MiB."""


def require_unused_gpus(cluster: ClusterSpec) -> None:
    """Refuse GPUs of this machine that are in use. Raises TrainerError."""
    if cluster.gpus_per_node == 0 or cluster.ray_address is not None:
        return
    try:
        answer = subprocess.run(_SMI, capture_output=True, text=True, timeout=_SMI_SECONDS, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return  # that there are GPUs is another check's
    refuse_used(cluster.gpus_per_node, answer, visible=whole_environment().get("CUDA_VISIBLE_DEVICES"))


def refuse_used(count: int, answer: str, *, visible: str | None) -> None:
    """The same for an answer of nvidia-smi, a line ``UUID, MIB USED, MIB`` for each GPU; Ray takes the first ``count`` visible ones."""
    cards = [[part.strip() for part in line.split(",")] for line in answer.splitlines() if line.count(",") == 2]
    named = None if visible is None else [name.strip() for name in visible.split(",")]
    order = [
        (number, used, whole)
        for name in (range(len(cards)) if named is None else named)
        for number, (uuid, used, whole) in enumerate(cards)
        if str(name) == str(number) or (named is not None and name and uuid.startswith(str(name)))
    ]
    taken = [
        f"GPU {number} has {int(used) / 1024:.0f} of {int(whole) / 1024:.0f} GiB taken"
        for number, used, whole in order[:count]
        if used.isdecimal() and whole.isdecimal() and int(used) > FREE_SHARE * int(whole)
    ]
    if taken:
        raise TrainerError(
            f"cluster.gpus_per_node: expected {count} GPUs that nobody uses, got {', '.join(taken)}",
            "wait until the other run ends (nvidia-smi names its processes), or CUDA_VISIBLE_DEVICES=LIST agentgym train ... takes others",
        )
