"""How a policy fails without saying anything about the task; each is an infra error of the episode, not of the run."""

from __future__ import annotations

from agentgym_cli.errors import PolicyError


class PolicyUnavailable(PolicyError):
    """The policy could not be reached, or refused to answer."""


class PolicyProtocol(PolicyError):
    """The policy's answer was not what its interface promises."""
