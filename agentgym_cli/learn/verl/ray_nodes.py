"""What a running Ray cluster has to give, asked in a process of its own, which can be given up on: Ray itself waits where nothing answers."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from agentgym_cli.errors import TrainerError
from agentgym_cli.recipe.resolve import whole_environment

ANSWER = "agentgym_cli.learn.verl.ray_answer"
"""The module that is asked."""
ASK_SECONDS = 90.0
"""For which a cluster is asked: Ray takes twenty to import and connect on a slow machine, and tries for another twenty before it gives up."""
_NO_TOKEN = re.compile(r"InvalidAuthToken|AuthenticationError")


@dataclass(frozen=True, slots=True, kw_only=True)
class RayNode:
    """One machine of a cluster."""

    address: str
    cpus: float
    """Free now, as Ray counts them."""
    gpus: float
    """Free now."""
    all_gpus: float


def ask_ray(address: str, *, variables: Mapping[str, str], seconds: float = ASK_SECONDS) -> tuple[RayNode, ...]:
    """The machines of the cluster at ``address``.

    Raises:
        TrainerError: no answer in time, or one that is no cluster of this Ray's.
    """
    words = [sys.executable, "-m", ANSWER, address]
    try:
        asked = subprocess.run(
            words, capture_output=True, text=True, errors="replace", timeout=seconds, check=False, env={**whole_environment(), **variables}
        )
    except subprocess.TimeoutExpired as err:
        raise TrainerError(
            f"cluster.ray_address: expected the Ray cluster at {address} to answer within {seconds:.0f} s, got nothing",
            f"ray status --address={address}, on this machine",
        ) from err
    if asked.returncode:
        raise _refused(address, asked.stderr)
    return tuple(RayNode(**node) for node in json.loads(asked.stdout.strip().splitlines()[-1]))


def _refused(address: str, said: str) -> TrainerError:
    if _NO_TOKEN.search(said):
        return TrainerError(
            f"cluster.ray_address: expected the Ray cluster at {address} to let this process in, got a demand for its token",
            "RAY_AUTH_MODE=token agentgym train ..., with the cluster's token in ~/.ray/auth_token",
        )
    last = next((line.strip() for line in reversed(said.splitlines()) if line.strip()), "nothing")
    return TrainerError(
        f"cluster.ray_address: expected a Ray cluster at {address}, got {last[:300]}",
        "run agentgym on a machine of the cluster (ray start --address=HOST:PORT makes it one), or --ray-job http://HEAD:8265 from elsewhere",
    )
