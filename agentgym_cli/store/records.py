"""What a journal line can be. Every record names its run; the store's tables have the same columns. Knows no SQL."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """Table ``runs``; key (run)."""

    run: str
    """Name of the run's folder."""
    name: str
    """Name of the recipe."""
    verb: str
    """``train`` or ``eval``."""
    profile: str
    """Profile of the recipe that was chosen."""
    profile_reason: str
    """Why it was chosen."""
    engine: str
    """``local`` or ``verl``."""
    digest: str
    """Digest of the frozen run, SHA-256."""
    env: str
    """Dialect name."""
    policy: str
    """What acted: ``local``, ``oracle``, ``random``, ``scripted`` ..."""
    seed: int
    """The run's seed, from which every other seed follows."""
    created: str
    """UTC, ISO 8601."""
    frozen: str
    """The frozen run, canonical JSON."""
    fingerprint: str
    """CPU features, threads, installed versions, canonical JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedRunRecord:
    """Table ``runs``, of another program's run; columns that it lacks are null, for they cannot be known."""

    run: str
    """Name of the run's folder."""
    name: str
    """Name it was imported under."""
    verb: str
    """``train`` or ``eval``."""
    env: str
    """Dialect name."""
    created: str
    """When it was imported; UTC, ISO 8601."""
    imported: str
    """Format of the files it was imported from, ``agentgym-rl`` or ``agenttraj``; null for runs of our own."""
    source_digest: str
    """SHA-256 over the imported files; null for runs of our own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRecord:
    """Table ``segments``; key (run, segment). The first record of a segment, after a new run's own."""

    run: str
    """Its run."""
    segment: int
    """From 1."""
    resumed_from_step: int | None
    """Checkpoint step that it continues: None for the first segment, 0 after the warm start (and for evaluations), -1 starts over.

    Records of earlier segments whose position is above it are superseded. The position of phases ``warm_start``, ``eval_before`` and
    ``eval`` is 0, of all others their step.
    """
    started: str
    """UTC, ISO 8601."""
    ended: str | None = None
    """Written as a second record with the same key when the segment ends; with ``status`` the only column that may be filled in later."""
    status: str | None = None
    """``finished``, ``interrupted``, ``failed`` or, while it runs or after a kill, None."""
    drift: tuple[str, ...] = ()
    """What was not as the run was frozen and was allowed with ``--allow-drift``, in sentences; empty when nothing was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledRecord:
    """Table ``scheduled``; key (run, segment, episode). The denominator."""

    run: str
    """Its run."""
    segment: int
    """Segment that scheduled it."""
    episode: str
    """``phase/split/step/task/sample``; unique in the run."""
    phase: str
    """``warm_start``, ``demonstrate``, ``eval_before``, ``explore``, ``train``, ``eval_during``, ``eval_after`` or ``eval``."""
    split: str
    """Named list of tasks that it was drawn from."""
    step: int
    """Optimizer step in phase ``train``, from 1; elsewhere the step of the weights, 0 before training."""
    task: str
    """``<env>_<n>``."""
    task_index: int
    """The server's task key."""
    task_digest: str
    """Digest that pins the task's first observation; '' when it is not pinned."""
    category: str
    """What reports group by, e.g. ``depth 2``; '' when there is none."""
    goal: str
    """What the task asks for; '' when unknown."""
    sample: int
    """Number of this episode among those of the same task, from 0."""
    horizon: int
    """Most turns it may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedScheduledRecord:
    """Table ``scheduled``, of an imported run: rows that arrived, since its schedule is not known; the columns that it lacks are null."""

    run: str
    """Its run."""
    segment: int
    """1."""
    episode: str
    """``phase/split/step/task/sample``; unique in the run."""
    phase: str
    """``train`` or ``eval``, by the name of its folder."""
    split: str
    """Always ``imported``: from which list it was drawn is not known."""
    step: int
    """Number in the name of its folder; 0 where there is none."""
    task: str
    """``<env>_<n>``."""
    task_index: int
    """The number in it."""
    task_digest: str
    """Always '': its content is not pinned."""
    category: str
    """Always ''."""
    goal: str
    """Always ''."""
    sample: int
    """Number of this episode among those of the same task and step, from 0, in the order of files and rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRecord:
    """Table ``turns``; key (run, segment, episode, attempt, turn). Travels inside its attempt's journal line."""

    turn: int
    """From 1."""
    observation: str
    """What the environment showed; foreign text."""
    text: str
    """What the policy said, whole; foreign text."""
    action: str
    """What was sent to the world; '' when the text held no action."""
    valid: bool
    """False when no action could be read, or the world said that it could not execute it."""
    reward: float | None
    """The world's reward for this action; None when the world failed."""
    done: bool
    """The world said that the task was over."""
    response_tokens: int
    """Tokens sampled in this turn; 0 for policies without tokens."""
    context_tokens: int
    """Tokens of context when the policy was asked; 0 for policies without tokens."""
    policy_seconds: float
    """Seconds the policy took."""
    env_seconds: float
    """Seconds the world took."""
    cut: bool = False
    """The response ended at the limit of tokens a turn, before a stop; false in records from before this was kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensRecord:
    """Token ids of an attempt, kept when the recipe says so; inside its attempt's journal line, list columns of table ``attempts``."""

    token_ids: tuple[int, ...]
    """All tokens in order, up to the last action token."""
    action_mask: tuple[bool, ...]
    """True where the policy sampled the token; same length."""
    logprobs: tuple[float, ...]
    """Sampled log-probabilities in nats; 0.0 where ``action_mask`` is False; same length."""
    policy_versions: tuple[int, ...] | None = None
    """Optimizer steps of the weights that sampled the action tokens, one for each run of tokens, in order; null where ``policy_version`` is all's."""
    policy_version_tokens: tuple[int, ...] | None = None
    """Action tokens in each of these runs; same length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """Table ``attempts``; key (run, segment, episode, attempt)."""

    run: str
    """Its run."""
    segment: int
    """Segment that made it."""
    episode: str
    """The scheduled episode."""
    attempt: int
    """From 1; a retry is the next number."""
    seed: int
    """Seed of everything drawn in it."""
    stop: str
    """Stop reason."""
    outcome: str
    """``success``, ``failure``, ``infra_error``, or ``missing`` when it was cancelled."""
    truncated: bool
    """A horizon, the context or a deadline in the policy ended it."""
    cause: str | None
    """Cause of an infra error; None otherwise."""
    detail: str
    """The failure's message, '' when there is none; foreign text."""
    action_induced: bool
    """The error came back on the same action of the same task."""
    reward: float | None
    """Return by the dialect's rule; None for infra errors and missing."""
    verified: bool | None = None
    """What the dialect's verifier said of the state at the end; null where it has none or was not asked."""
    turns_count: int
    """Turns taken."""
    invalid_actions: int
    """Turns whose action was invalid."""
    prompt_tokens: int
    """Tokens of the first context; 0 for policies without tokens."""
    action_tokens: int
    """Tokens the policy sampled."""
    policy_version: int | None
    """Optimizer step of the oldest weights that sampled any of it; None for policies without weights."""
    seconds: float
    """Wall seconds of the whole attempt."""
    policy_seconds: float
    """Of these, in the policy."""
    env_seconds: float
    """Of these, in the world."""
    replica: str
    """Base URL of the server."""
    final_observation: str
    """What the environment showed last; foreign text."""
    ended: str
    """UTC, ISO 8601; never part of a digest."""
    run_turns: int | None = None
    """Turns of the run up to here, this attempt and all that were recorded before it, superseded ones included. Null before this was kept."""
    run_tokens_read: int | None = None
    """The same for tokens that the policy was given: its context at each call, cached or not."""
    run_tokens_sampled: int | None = None
    """The same for tokens that the policy sampled."""
    run_seconds: float | None = None
    """Wall seconds of the run up to here: since its segment began, and up to the last attempt of each earlier one. Never part of a digest."""
    turns: tuple[TurnRecord, ...] = ()
    """Rows of table ``turns``."""
    tokens: TokensRecord | None = None
    """None when they are not kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedTurnRecord:
    """Table ``turns``, of an imported run; travels inside its attempt's journal line. Columns that it lacks are null."""

    turn: int
    """From 1."""
    observation: str
    """What was said to the policy since its last words; foreign text."""
    text: str
    """What the policy said, whole; foreign text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedAttemptRecord:
    """Table ``attempts``, of an imported run; columns that it lacks are null, for they cannot be known."""

    run: str
    """Its run."""
    segment: int
    """1."""
    episode: str
    """The scheduled episode."""
    attempt: int
    """1."""
    outcome: str | None
    """``success`` or ``failure`` by the dialect's success rule on the reward; None where the files hold no reward."""
    detail: str
    """Always ''."""
    reward: float | None
    """The reward in the file."""
    turns_count: int
    """Turns in the file."""
    final_observation: str
    """What was said to the policy after its last words, '' when nothing was; foreign text."""
    turns: tuple[ImportedTurnRecord, ...] = ()
    """Rows of table ``turns``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeRecord:
    """Table ``outcomes``; key (run, segment, episode). Written once no further attempt will be made. Scheduled episodes without one are missing."""

    run: str
    """Its run."""
    segment: int
    """Segment that settled it."""
    episode: str
    """The scheduled episode."""
    attempt: int
    """The attempt that counts."""
    attempts: int
    """How many were made."""
    outcome: str
    """``success``, ``failure``, ``infra_error`` or ``missing``."""
    first_outcome: str
    """What it would have counted as without retries."""
    reward: float | None
    """Return of the attempt that counts; None for infra errors and missing."""
    by_verifier: bool
    """False: the outcome was read from the reward."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRecord:
    """Table ``metrics``; key (run, segment, phase, step, name)."""

    run: str
    """Its run."""
    segment: int
    """Segment that measured it."""
    phase: str
    """Phase it belongs to."""
    step: int
    """Optimizer update of the phase, from 1."""
    name: str
    """What was measured; names that begin with ``time/`` are never part of a digest."""
    value: float | None
    """None when it is undefined (no data), never 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRecord:
    """Table ``probes``; key (run, segment, url, name)."""

    run: str
    """Its run."""
    segment: int
    """Segment that probed."""
    url: str
    """Base URL of the server."""
    name: str
    """Name of the check."""
    result: str
    """``pass``, ``fail``, ``n/a`` or ``known deviation``."""
    detail: str
    """What was seen; foreign text."""
    seconds: float
    """Wall seconds of the check."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRecord:
    """Table ``checkpoints``; key (run, segment, step)."""

    run: str
    """Its run."""
    segment: int
    """Segment that wrote it."""
    step: int
    """Optimizer steps made; 0 is the warm start's."""
    path: str
    """Relative to the run's folder."""
    digest: str
    """SHA-256 of the weights file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRecord:
    """Table ``servers``; key (run, segment, number). A server was given up because it did not answer, or was taken back."""

    run: str
    """Its run."""
    segment: int
    """Segment that it happened in."""
    number: int
    """From 1, in order."""
    url: str
    """Base URL of the server."""
    event: str
    """``opened`` when its circuit breaker opened: no new session goes there; ``closed`` when it answered again."""
    cause: str | None
    """Cause of the failure that opened it; null when it closed."""
    detail: str
    """That failure's message, '' when it closed; foreign text."""
    happened: str
    """UTC, ISO 8601."""


Record = (
    RunRecord
    | SegmentRecord
    | ScheduledRecord
    | AttemptRecord
    | OutcomeRecord
    | MetricRecord
    | ProbeRecord
    | CheckpointRecord
    | ServerRecord
    | ImportedRunRecord
    | ImportedScheduledRecord
    | ImportedAttemptRecord
)


def position(phase: str, step: int) -> int:
    """Where a record stands in its run: a segment that resumes from a lower position supersedes it."""
    return 0 if phase in ("warm_start", "eval_before", "eval") else step
