"""The nouns of an episode: task, scheduled episode, turn, trajectory, attempt. Knows nothing of HTTP, storage or gradients."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from agentgym_cli.env.contract import InfraCause


class StopReason(StrEnum):
    """Why an episode stopped. Only DONE is terminal; HORIZON, CONTEXT and the policy's deadlines truncate."""

    DONE = "done"
    HORIZON = "horizon"
    CONTEXT = "context"
    POLICY_DEADLINE = "policy_deadline"
    """A deadline (policy call or whole episode) ran out while the policy was thinking."""
    ENV_ERROR = "env_error"
    ENV_DEADLINE = "env_deadline"
    """A deadline (env call or whole episode) ran out while the world was working."""
    POLICY_UNAVAILABLE = "policy_unavailable"
    POLICY_PROTOCOL = "policy_protocol"
    CANCELLED = "cancelled"
    RUN_BUDGET = "run_budget"
    """The run's own budget was spent before the policy could be asked again."""


class Outcome(StrEnum):
    """What a scheduled episode counts as; exactly one each."""

    SUCCESS = "success"
    FAILURE = "failure"
    INFRA_ERROR = "infra_error"
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One thing to accomplish, pinned by content."""

    id: str
    """``<env>_<n>``."""
    index: int
    """The server's task key."""
    split: str
    category: str
    """What reports group by, e.g. ``depth 2``; '' when there is none."""
    goal: str
    """What it asks for, in words, so that a number alone is never the only name of a task; '' when unknown."""
    digest: str
    """First 16 hex digits of the SHA-256 of the first observation (UTF-8); '' when it is not pinned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledEpisode:
    """A logical episode, written down before it may run."""

    phase: str
    """``warm_start``, ``demonstrate``, ``eval_before``, ``explore``, ``train``, ``eval_during``, ``eval_after`` or ``eval``."""
    step: int
    """Optimizer step (first is 1) in phase ``train``; in evaluations the step of the evaluated weights; 0 before training."""
    task: Task
    sample: int
    """Number of this episode among those of the same task, from 0."""
    horizon: int
    """Most turns it may take."""

    @property
    def id(self) -> str:
        """Key of this episode within its run; unique over phases, splits, steps, tasks and samples."""
        return f"{self.phase}/{self.task.split}/{self.step}/{self.task.id}/{self.sample}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One observation and the action after it."""

    observation: str
    text: str
    """What the policy said, whole."""
    action: str
    """What was sent to the world; '' when the text held no action."""
    valid: bool
    """False when no action could be read from the text, or the world said that it could not execute it."""
    reward: float | None
    """The world's reward for this action; None when the world failed."""
    done: bool
    response_tokens: int
    context_tokens: int
    """Tokens in the context when the policy was asked; 0 for policies without tokens."""
    policy_seconds: float
    env_seconds: float
    cut: bool = False
    """The response ended at the limit of tokens a turn, before a stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """An episode as token ids; ends with its last action token. All tuples have length T."""

    token_ids: tuple[int, ...]
    action_mask: tuple[bool, ...]
    """True where the policy sampled the token, its stop token included."""
    logprobs: tuple[float, ...]
    """Sampled log-probabilities in nats at the sampling temperature; 0.0 where ``action_mask`` is False."""
    policy_version: int
    """Optimizer step of the oldest weights that sampled any of it; 0 is the warm start's."""
    versions: tuple[tuple[int, int], ...] = ()
    """Runs of action tokens that the same weights sampled, in order: their optimizer step and how many; empty where ``policy_version`` is all's."""

    @property
    def runs(self) -> tuple[tuple[int, int], ...]:
        """The same, never empty."""
        return self.versions or ((self.policy_version, sum(self.action_mask)),)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptResult:
    """One try at a scheduled episode, whatever became of it."""

    episode: ScheduledEpisode
    attempt: int
    """From 1; a retry is the next number."""
    seed: int
    stop: StopReason
    outcome: Outcome
    truncated: bool
    cause: InfraCause | None
    detail: str
    """The failure's message, '' when there is none; foreign text, never trusted."""
    action_induced: bool
    reward: float | None
    """Return by the dialect's rule; None when the outcome is infra_error or missing."""
    final_observation: str
    turns: tuple[Turn, ...]
    trajectory: Trajectory | None
    prompt_tokens: int
    """Tokens of the first context, before any action; 0 for policies without tokens."""
    action_tokens: int
    seconds: float
    policy_seconds: float
    env_seconds: float
    replica: str
    verified: bool | None = None
    """What the verifier said of the final state; None when none was asked and the outcome was read from the reward."""
