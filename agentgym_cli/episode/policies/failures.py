"""How a policy fails without saying anything about the task; each is an infra error of the episode, not of the run."""

from __future__ import annotations

from agentgym_cli.env.contract import InfraCause
from agentgym_cli.errors import PolicyError


class PolicyUnavailable(PolicyError):
    """The policy could not be reached, or refused to answer; ``cause`` says how, None where nobody knows."""

    def __init__(self, message: str, hint: str | None = None, cause: InfraCause | None = None) -> None:
        super().__init__(message, hint)
        self.cause = cause

    def __reduce__(self) -> tuple[type[PolicyUnavailable], tuple[str, str | None, InfraCause | None]]:
        return type(self), (self.message, self.hint, self.cause)


class PolicyProtocol(PolicyError):
    """The policy's answer was not what its interface promises."""

    cause: InfraCause = InfraCause.PROTOCOL
