"""The door to policies: makes one by name, and imports what only it needs. A policy that needs a service's key reads it here and nowhere else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym_cli.env.contract import EpisodeRules
from agentgym_cli.episode.actions import ActionFormat
from agentgym_cli.episode.policies.protocol import Policy
from agentgym_cli.episode.tokens import TurnTokens
from agentgym_cli.errors import PolicyError
from agentgym_cli.recipe.schema.world import BudgetsSpec

if TYPE_CHECKING:
    from transformers import Qwen2ForCausalLM

    from agentgym_cli.episode.policies.wave import WavePolicy

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
        from agentgym_cli.episode.policies.oracle import OraclePolicy

        return OraclePolicy(action_format=action_format, env_call_seconds=budgets.env_call_seconds)
    if name == "random":
        from agentgym_cli.episode.policies.random import RandomPolicy

        return RandomPolicy(always=rules.random_always, listed=rules.random_listed, action_format=action_format)
    if name == "scripted":
        from agentgym_cli.episode.policies.scripted import ScriptedPolicy

        if script is None:
            raise PolicyError("policy scripted: expected a script, got none", hint="--script FILE, with one {task, actions} a line")
        return ScriptedPolicy.from_file(script, action_format=action_format)
    raise PolicyError(f"policy: expected one of {', '.join(BASELINES)}, got {name!r}")


def build_local(
    model: Qwen2ForCausalLM,
    *,
    tokens: TurnTokens,
    slots: int,
    system_prompt: str,
    budgets: BudgetsSpec,
    temperature: float,
    policy_version: int,
) -> WavePolicy:
    """Make the policy that decodes in waves over the weights of ``model``, as they are now.

    Args:
        system_prompt: '' says nothing.
        temperature: 0.0 is greedy.
        policy_version: optimizer step of the weights.
    """
    from agentgym_cli.episode.policies.sampler import TorchDecoder
    from agentgym_cli.episode.policies.wave import WavePolicy

    decoder = TorchDecoder(model, slots=slots, context=budgets.context_tokens, stop_ids=tokens.stop_ids, policy_version=policy_version)
    return WavePolicy(decoder, tokens=tokens, system_prompt=system_prompt, budgets=budgets, temperature=temperature)


def service_key(variable: str, *, where: str) -> str:
    """The key of a service from the environment variable that a recipe names; never stored. Raises PolicyError when it is not set."""
    key = os.environ.get(variable)
    if not key:
        raise PolicyError(f"{where}: expected the environment variable {variable} to be set, got nothing", f"export {variable}=...")
    return key
