"""A cluster is asked in a process that can be given up on, and what it says instead of an answer is told."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from agentgym_cli.errors import TrainerError
from agentgym_cli.learn.verl import ray_nodes
from agentgym_cli.learn.verl.ray_nodes import RayNode, ask_ray

BEFORE = """
class AuthenticationError(Exception): ...
def init(address, **more):
    {}
def nodes():
    up = {{"Alive": True, "NodeID": "a", "NodeManagerAddress": "10.0.0.1", "Resources": {{"GPU": 8.0, "CPU": 64.0}}}}
    return [up, {{**up, "NodeID": "b", "NodeManagerAddress": "10.0.0.2"}}, {{**up, "Alive": False, "NodeID": "c"}}]
"""


def ray_that(does: str, place: Path) -> dict[str, str]:
    """A module ``ray`` whose ``init`` does something, as variables of a process that finds it first."""
    (place / "ray" / "_private").mkdir(parents=True)
    (place / "ray" / "__init__.py").write_text(BEFORE.format(does))
    (place / "ray" / "_private" / "__init__.py").write_text("")
    (place / "ray" / "_private" / "state.py").write_text('def available_resources_per_node():\n    return {"a": {"CPU": 60.0, "GPU": 7.0}}\n')
    return {"PYTHONPATH": f"{place}:{Path(ray_nodes.__file__).parents[3]}"}


def test_machines_say_what_is_free(tmp_path: Path) -> None:
    found = ask_ray("10.0.0.1:6379", variables=ray_that("print('connected to', address)", tmp_path))
    assert found == (
        RayNode(address="10.0.0.1", cpus=60.0, gpus=7.0, all_gpus=8.0),
        RayNode(address="10.0.0.2", cpus=0.0, gpus=0.0, all_gpus=8.0),
    )


def test_one_that_does_not_answer_is_given_up_on(tmp_path: Path) -> None:
    variables = ray_that("import time; time.sleep(60)", tmp_path)
    with pytest.raises(TrainerError, match=r"expected the Ray cluster at 10\.0\.0\.1:6379 to answer within 0 s, got nothing"):
        ask_ray("10.0.0.1:6379", variables=variables, seconds=0.2)


@pytest.mark.parametrize(
    ("raised", "message", "hint"),
    [
        ("ConnectionError('Failed to connect to Ray cluster at a:1')", "got ConnectionError: Failed to connect to Ray cluster at a:1", "--ray-job"),
        ("RuntimeError('Version mismatch: Ray: 2.50.0')", "got RuntimeError: Version mismatch: Ray: 2.50.0", "--ray-job"),
        ("AuthenticationError('RPC error: InvalidAuthToken')", "to let this process in, got a demand for its token", "RAY_AUTH_MODE=token"),
    ],
)
def test_what_is_said_in_place_of_an_answer_is_told(raised: str, message: str, hint: str, tmp_path: Path) -> None:
    with pytest.raises(TrainerError, match=message) as refused:
        ask_ray("a:1", variables=ray_that(f"raise {raised}", tmp_path))
    assert hint in (refused.value.hint or "")
    assert sys.executable not in refused.value.message
