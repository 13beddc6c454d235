"""Every failure a user can see: one class per boundary, each with its exit code and a hint that is a command or a next step."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Process exit codes; documented in docs/exit-codes.md and never renumbered."""

    OK = 0
    UNEXPECTED = 1
    RECIPE = 2
    LOCK = 3
    ENV = 4
    POLICY = 5
    TRAINER = 6
    STORE = 7
    GATE = 8
    DEGRADED = 9
    INTERRUPTED = 130


class AgentgymError(Exception):
    """A failure with a message of the form ``where: expected, got`` and a hint on what to do. Pickles (Ray needs it)."""

    exit_code: ExitCode = ExitCode.UNEXPECTED
    general_hint: str = "docs/exit-codes.md says what each exit code means"
    """What is said where a failure has no hint of its own."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message


class RecipeError(AgentgymError):
    """The recipe, an override, a contract file or a data file says something that cannot be meant."""

    exit_code = ExitCode.RECIPE
    general_hint = "docs/recipes.md explains recipes; agentgym recipe schema prints every key"


class LockError(AgentgymError):
    """The running interpreter is not what the lock says, or an extra that an engine needs is not installed."""

    exit_code = ExitCode.LOCK
    general_hint = "docs/stacks.md says how a stack is installed"


class EnvError(AgentgymError):
    """An environment server could not be started, reached or trusted."""

    exit_code = ExitCode.ENV
    general_hint = "agentgym probe RECIPE shows every check"


class PolicyError(AgentgymError):
    """The policy could not be loaded, reached or understood."""

    exit_code = ExitCode.POLICY
    general_hint = "agentgym eval --help lists the policies"


class TrainerError(AgentgymError):
    """The optimizer's side of a run failed: bad numbers, a bad checkpoint, an impossible batch."""

    exit_code = ExitCode.TRAINER
    general_hint = "agentgym report RUN shows how far it came; agentgym train RUN --resume goes on"


class StoreError(AgentgymError):
    """A journal or a store could not be written, read or believed."""

    exit_code = ExitCode.STORE
    general_hint = "agentgym store rebuild makes the store again from journals"


class GateFailed(AgentgymError):
    """A promotion rule was not met."""

    exit_code = ExitCode.GATE


class Degraded(AgentgymError):
    """The run finished, but its infra share is above the limit that the recipe allows."""

    exit_code = ExitCode.DEGRADED


class Interrupted(AgentgymError):
    """The run was stopped on purpose; what it had done is kept and can be resumed."""

    exit_code = ExitCode.INTERRUPTED
