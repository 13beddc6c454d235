"""What an environment session answers, in our words. Knows no wire format, no URL and no particular environment."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, Protocol

from agentgym_cli.env.content import PinnedTasks
from agentgym_cli.errors import EnvError


class InfraCause(StrEnum):
    """Why a world failed. A cause is never a reward."""

    CONNECT = "connect"
    TIMEOUT = "timeout"
    RESET = "reset"
    """The connection was reset or closed in the middle of a reply."""
    SERVER_4XX = "server_4xx"
    SERVER_5XX = "server_5xx"
    PROTOCOL = "protocol"
    """The reply was not what the contract says: broken JSON, a missing field, a wrong type, a non-finite reward, other task content."""
    REPORTED_ERROR = "reported_error"
    """The reply was well formed and said that the server had failed, often with HTTP 200."""


class EnvFailure(EnvError):
    """One call to an environment server failed; ``cause`` says how."""

    def __init__(self, cause: InfraCause, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.cause = cause

    def __reduce__(self) -> tuple[type[EnvFailure], tuple[InfraCause, str, str | None]]:
        return type(self), (self.cause, self.message, self.hint)


class ServersLost(EnvError):
    """No server of an environment has taken a session for as long as a run waits. What was not run is missing, and may be run later."""


def content_digest(observation: str) -> str:
    """What pins a task's content: the first 16 hex digits of the SHA-256 of its first observation in UTF-8."""
    return hashlib.sha256(observation.encode("utf-8", "surrogatepass")).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReply:
    """What the world answered to one action."""

    observation: str
    reward: float
    """Finite; the dialect says whether it is per step, cumulative or terminal."""
    done: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRule:
    """How an action is read from what a model said, for one action format of one dialect."""

    pattern: str | None
    """Regular expression whose first group is the action (DOTALL); None takes the whole text, stripped."""
    remove: str | None
    """Regular expression of characters to delete from the action; runs of spaces are then folded. None deletes nothing."""
    on_many: str | None
    """Observation given, without a call to the world, when the pattern matches more than once; None takes the last match."""
    on_none: str | None
    """The same when it matches nothing, or a call that is not known; None sends the empty action to the world."""
    call: Literal["json", "python"] | None = None
    """What was matched is a call of one of ``functions``, written in JSON or Python; None takes it as the action itself."""
    functions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By name of a function, the actions that a call stands for, ``{argument}`` in place of each argument."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedActions:
    """Actions that an environment lists in its observations, for a policy that draws at random."""

    pattern: str
    """Regular expression (MULTILINE) whose first group completes ``say``."""
    say: str
    """The action, with ``{}`` for the group, e.g. ``get {}``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeRules:
    """What the episode loop must know of an environment; made from its dialect."""

    env: str
    """Prefix of task ids, e.g. ``textcraft``."""
    system_prompt: str
    """The dialect's instructions to a model."""
    reward_kind: Literal["terminal", "per_step", "cumulative"]
    """How rewards add up to a return: the last one, their sum, the last one (already a sum)."""
    success_reward: float
    """An episode that is done is a success when its return is at least this."""
    invalid_action: tuple[str, ...]
    """Regular expressions, searched from the start of an observation, by which the world says that it could not execute the action."""
    actions: Mapping[str, ActionRule]
    """By action format."""
    verified: bool = False
    """True when the dialect has a verify route: it then decides what an episode that is done counts as."""
    oracle_seconds: float = 0.0
    """How long the dialect lets the oracle take where that is longer than another call of the world."""
    random_always: tuple[str, ...] = ()
    """Actions that a random policy may draw at any time."""
    random_listed: tuple[ListedActions, ...] = ()
    """Where a random policy finds further ones."""
    pinned: PinnedTasks = field(default_factory=PinnedTasks)
    """The tasks of the run by content, to say what it means when a server has another."""


class EnvSession(Protocol):
    """One session of one environment server: at most one call in flight, closed exactly once by whoever opened it.

    Every method raises EnvFailure, and nothing else, when the world fails.
    """

    @property
    def replica(self) -> str:
        """Base URL of the server that holds this session."""

    async def reset(self, task_index: int) -> str:
        """Start the task and return its first observation."""

    async def step(self, action: str) -> StepReply:
        """Execute one action. Never re-sent: a step is not idempotent."""

    async def oracle(self) -> tuple[str, ...]:
        """Actions that solve the task from its start, where the dialect has an oracle route; EnvFailure(SERVER_4XX) where it is off."""

    async def verify(self) -> bool:
        """Whether the session's state satisfies its task, where the dialect has a verify route."""

    async def close(self) -> None:
        """Release the session. Idempotent on our side; a server that refuses is logged, not raised."""


class EnvClient(Protocol):
    """Opens sessions on one or several replicas of one environment."""

    async def ready(self) -> None:
        """Return when a session can be opened, at once while any server is well. Raises ServersLost when none came back in time."""

    async def open(self) -> EnvSession:
        """Create a session on the next replica."""

    async def aclose(self) -> None:
        """Close the HTTP client underneath."""
