"""How an action is read from what a policy said, and how a known action is said. Knows no particular environment."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agentgym_cli.env.contract import ActionRule
from agentgym_cli.episode.function_calls import called_action
from agentgym_cli.errors import PolicyError
from agentgym_cli.recipe.schema.world import ActionFormat as ActionFormat

MAX_TEXT_CHARS = 65_536
"""A longer text holds no action: patterns never run on unbounded foreign text."""
MAX_MATCHED_OBSERVATION_CHARS = 4_096
"""How much of an observation's start the patterns of invalid actions see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedAction:
    """What a text asked for."""

    action: str
    """'' when there is none."""
    valid: bool
    """False when no single action could be read."""
    local_observation: str | None
    """What the policy is told instead of a call to the world; None sends ``action`` to the world."""


def read_action(text: str, rule: ActionRule) -> ParsedAction:
    """Read the action of one response by ``rule``; never raises on foreign text. What is not Unicode becomes '?'."""
    if len(text) > MAX_TEXT_CHARS:
        return _without_action(rule)
    text = text.encode("utf-8", "replace").decode("utf-8")
    if rule.pattern is None:
        return _single(text, rule)
    found = [match.group(1) or "" for match in re.finditer(rule.pattern, text, re.DOTALL)]
    if not found:
        return _without_action(rule)
    if len(found) > 1 and rule.on_many is not None:
        return ParsedAction(action="", valid=False, local_observation=rule.on_many)
    return _single(found[-1], rule)


def _without_action(rule: ActionRule) -> ParsedAction:
    return ParsedAction(action="", valid=False, local_observation=rule.on_none)


def _single(action: str, rule: ActionRule) -> ParsedAction:
    if rule.call is not None:
        called = called_action(action, syntax=rule.call, functions=rule.functions)
        if called is None:
            return _without_action(rule)
        action = called
    if rule.remove is not None:
        action = re.sub(r" +", " ", re.sub(rule.remove, "", action))
    action = action.strip()
    return ParsedAction(action=action, valid=action != "", local_observation=None)


def action_text(action: str, action_format: ActionFormat) -> str:
    """Say a known action the way a policy of this format would, so that ``read_action`` gives it back.

    Raises:
        PolicyError: as a function call, whose functions and arguments only the environment knows.
    """
    if action_format == "function_call":
        raise PolicyError("prompt.action_format: expected react, code_block or plain for a policy that says known actions, got function_call")
    return {"react": f"Action: {action}", "code_block": f"```{action}```", "plain": action}[action_format]


def world_refused(observation: str, patterns: Sequence[str]) -> bool:
    """True when the world said, at the start of its observation, that it could not execute the action."""
    start = observation[:MAX_MATCHED_OBSERVATION_CHARS]
    return any(re.match(pattern, start) for pattern in patterns)
