"""What capacity takes for verl's own settings of memory is what the installed verl has."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from agentgym_cli.capacity.layout import COLOCATED_SHARE
from agentgym_cli.learn.verl.keys import REFERENCE
from agentgym_cli.learn.verl.memory import memory_keys
from agentgym_cli.recipe.schema.computing import ClusterSpec

pytestmark = pytest.mark.verl
pytest.importorskip("verl.protocol")


def test_shares_tokens_and_offloading_are_verls_own() -> None:
    installed = find_spec("verl")
    assert installed is not None and installed.submodule_search_locations
    place = Path(next(iter(installed.submodule_search_locations)))
    policy, found = yaml.safe_load((place / REFERENCE).read_text(encoding="utf-8"))["actor_rollout_ref"], memory_keys(ClusterSpec(gpus_per_node=8))
    assert policy["rollout"]["gpu_memory_utilization"] == found.share == COLOCATED_SHARE
    assert (policy["rollout"]["max_num_batched_tokens"], policy["model"]["use_fused_kernels"]) == (found.batched_tokens, found.fused_head)
    # What only goes forward is kept in the machine's memory, whatever is set.
    assert policy["ref"]["fsdp_config"]["forward_only"] is True
    engine = (place / "workers/engine/fsdp/transformer_impl.py").read_text(encoding="utf-8")
    assert "if self.engine_config.offload_policy or self.engine_config.forward_only:" in engine
