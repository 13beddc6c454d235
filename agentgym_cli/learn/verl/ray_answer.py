"""Connects to the Ray cluster that its one argument names and prints its machines as JSON: what ``ray_nodes`` asks."""

from __future__ import annotations

import json
import sys

import ray
from ray._private.state import available_resources_per_node


def main(address: str) -> str:
    """The machines that are up, one object each."""
    ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    free = available_resources_per_node()
    nodes = [
        {
            "address": node["NodeManagerAddress"],
            "cpus": free.get(node["NodeID"], {}).get("CPU", 0.0),
            "gpus": free.get(node["NodeID"], {}).get("GPU", 0.0),
            "all_gpus": node["Resources"].get("GPU", 0.0),
        }
        for node in ray.nodes()
        if node["Alive"]
    ]
    return json.dumps(nodes)


if __name__ == "__main__":
    sys.stdout.write(main(sys.argv[1]) + "\n")
