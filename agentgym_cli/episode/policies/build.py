"""The door to policies that have no model here, by name, and to the keys of services, which are read here and nowhere else."""

from __future__ import annotations

import os
from pathlib import Path

from agentgym_cli.env.caller import HttpCaller
from agentgym_cli.env.contract import EpisodeRules
from agentgym_cli.episode.actions import ActionFormat
from agentgym_cli.episode.policies.endpoint_call import LlmServer
from agentgym_cli.episode.policies.endpoint_pace import Gate
from agentgym_cli.episode.policies.oracle import OraclePolicy
from agentgym_cli.episode.policies.protocol import Policy
from agentgym_cli.episode.policies.random import RandomPolicy
from agentgym_cli.episode.policies.scripted import ScriptedPolicy
from agentgym_cli.errors import PolicyError
from agentgym_cli.recipe.schema.policy import EndpointSpec
from agentgym_cli.recipe.schema.world import BudgetsSpec

BASELINES = ("oracle", "random", "scripted")


def build_baseline(name: str, *, rules: EpisodeRules, action_format: ActionFormat, budgets: BudgetsSpec, script: Path | None = None) -> Policy:
    """Make a policy that has no model.

    Args:
        script: JSON lines of {task, actions}; for ``scripted`` only.

    Raises:
        PolicyError: no such policy, or ``scripted`` without a script.
        RecipeError: a script that cannot be read, or a dialect that gives ``random`` nothing to draw from.
    """
    if name == "oracle":
        return OraclePolicy(action_format=action_format, env_call_seconds=max(budgets.env_call_seconds, rules.oracle_seconds))
    if name == "random":
        return RandomPolicy(always=rules.random_always, listed=rules.random_listed, action_format=action_format)
    if name == "scripted":
        if script is None:
            raise PolicyError("policy scripted: expected a script, got none", hint="--script FILE, with one {task, actions} a line")
        return ScriptedPolicy.from_file(script, action_format=action_format)
    raise PolicyError(f"policy: expected one of {', '.join(BASELINES)}, got {name!r}")


def reach_endpoint(spec: EndpointSpec) -> tuple[LlmServer, HttpCaller]:
    """The server of a recipe's endpoint, with its key, and the connections to it, which the caller closes. Raises PolicyError without the key."""
    key = None if spec.key_variable is None else service_key(spec.key_variable, where="policy.endpoint.key_variable")
    caller = HttpCaller(headers={} if key is None else {"authorization": f"Bearer {key}"})
    gate = Gate(requests_per_minute=spec.requests_per_minute, tokens_per_minute=spec.tokens_per_minute, in_flight=spec.max_in_flight)
    return LlmServer(caller, spec.url, gate=gate), caller


def service_key(variable: str, *, where: str) -> str:
    """The key of a service from the environment variable that a recipe names; never stored. Raises PolicyError when it is not set."""
    key = os.environ.get(variable)
    if not key:
        raise PolicyError(f"{where}: expected the environment variable {variable} to be set, got nothing", f"export {variable}=...")
    if not (key.isascii() and key.isprintable()):
        raise PolicyError(f"{where}: expected {variable} to hold printable ASCII, got other characters in it", f"export {variable}=...")
    return key
