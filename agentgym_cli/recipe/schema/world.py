"""What a run acts in: the environment, its tasks, what the policy is told about them, and what counts as success."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from agentgym_cli.recipe.schema.base import Count, Name, Positive, Share, section

Ids = Annotated[str, Field(pattern=r"^\d+(-\d+)?(,\d+(-\d+)?)*$")]
Category = Annotated[str, Field(min_length=1, max_length=80)]
ActionFormat = Literal["react", "function_call", "code_block", "plain"]
Cause = Literal["connect", "timeout", "reset", "server_4xx", "server_5xx", "protocol", "reported_error"]


@section
class EnvSpec:
    """An environment: a dialect, and where its servers are."""

    dialect: Annotated[str, Field(min_length=1)]
    """Name of a shipped dialect, or path of a dialect file."""
    urls: tuple[str, ...] | None = None
    """Base URLs of running replicas; None serves ``world`` on free loopback ports for the time of the run. Outside the digest: an address
    changes no result, and what was found there is stored beside the digest."""
    world: Name | None = None
    """Name of the shipped world to serve when ``urls`` is None; None where there is none."""
    world_args: tuple[str, ...] = ()
    """Further arguments of ``agentgym serve``, e.g. ``--book laptop``."""
    replicas: Count = 1
    """How many servers to start when ``urls`` is None."""
    token_variable: Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$")] | None = None
    """Environment variable that holds a bearer token; None sends none. The value is never stored."""
    max_infra_share: Share = 0.05
    """Infra errors allowed among scheduled episodes of a phase before the run is called degraded (exit 9)."""
    max_action_induced_share: Share = 0.02
    """The same for infra errors that came back on the same action, which a policy may have learned to provoke; they count above too."""


@section
class SplitSpec:
    """A named list of tasks, in order: from a file, by number, or all rows of the manifest whose split has this name."""

    name: Name
    """How reports call it, e.g. ``unseen_goals``."""
    file: Annotated[str, Field(min_length=1)] | None = None
    """Published list of ids: JSON, ``[{"item_id": "textcraft_31"}, ...]``, as the AgentGym data sets have it; None when there is none. Looked for
    like every file that a recipe names. Where it is not there, ``ids`` is taken if given, with a warning that is printed and stored."""
    ids: Ids | None = None
    """Task numbers, e.g. ``0-30,140-180``; None takes the file, or the rows of the manifest."""
    exclude: Ids | None = None
    """Task numbers left out of what the above gives; None leaves out none."""
    categories: Annotated[tuple[Category, ...], Field(min_length=1)] | None = None
    """Categories of the manifest that are kept; None keeps all."""


@section
class TasksSpec:
    """Which tasks a run draws and is judged on."""

    manifest: Annotated[str, Field(min_length=1)] | None = None
    """CSV with columns index, split, category, goal, digest; the digest pins the first observation of a task. None: tasks are known by
    number alone and their content is not pinned, which is a warning that is stored."""
    size: Count | None = None
    """How many tasks the environment has; a number from there on is an error. None where the manifest says it, or nobody knows."""
    train: SplitSpec | None = None
    """Tasks that training and demonstrations draw from; None in a recipe that only evaluates."""
    evaluation: Annotated[tuple[SplitSpec, ...], Field(min_length=1)]
    """Splits that evaluations run, reported apart."""
    allow_overlap: tuple[Name, ...] = ()
    """Evaluation splits that may share tasks with training; what they share is counted, stored and shown. A split that is not named may not."""


@section
class PromptSpec:
    """What the policy is told, and how its words become an action."""

    system: Annotated[str, Field(min_length=1)] | None = None
    """Text file with the instructions; None uses the dialect's own prompt; ``none`` says nothing."""
    turn_format: Literal["words", "chatml", "template"] = "chatml"
    """How turns are laid out as tokens: two formats of our own, or ``template``, the rule of the model's chat template
    (``policy.model.chat_template``, else the tokenizer's own)."""
    history: Literal["exact", "append"] = "exact"
    """What is done about a chat template that rewrites earlier turns, as some drop ``<think>`` blocks: ``exact`` refuses it; ``append`` keeps every
    turn as it was sampled, in sampling and in training, and appends the template's own rule for the next one."""
    action_format: ActionFormat = "react"
    """``react`` reads the text behind ``Action:``; ``function_call`` a JSON object that names a function and its arguments; ``code_block`` what
    stands between triple backticks; ``plain`` takes the whole response. The dialect says which of them it reads."""


@section
class BudgetsSpec:
    """Limits of one episode and of the whole run, each with its own stop reason. The turn limit is the horizon, and lives in ``horizon``."""

    response_tokens: Count = 512
    """Most tokens the policy may sample in one turn."""
    context_tokens: Count = 32768
    """Most tokens of context; checked before each policy call."""
    policy_call_seconds: Positive = 600.0
    """Deadline of one policy call, in seconds."""
    env_call_seconds: Positive = 60.0
    """Deadline of one environment call, in seconds."""
    episode_seconds: Positive = 3600.0
    """Deadline of the whole episode, in seconds."""
    run_tokens: Count | None = None
    """Most tokens of the whole run, read and sampled ones together and earlier segments included; None sets no limit. Checked before each
    policy call: what is in flight by then stops as ``run_budget``, and the run ends as interrupted. A resume may be given more."""
    run_cost: Positive | None = None
    """The same in money, at the prices that ``policy.endpoint`` has for a million tokens; None sets no limit."""


@section
class CauseAttempts:
    """Most attempts at one scheduled episode that may end in each cause, the first included."""

    connect: Count | None = None
    """Attempts for which no connection could be made; None leaves it to ``retry.attempts``."""
    timeout: Count | None = None
    """Attempts without an answer in time; None leaves it to ``retry.attempts``."""
    reset: Count | None = None
    """Attempts that lost the connection before the whole answer was there; None leaves it to ``retry.attempts``."""
    server_4xx: Count | None = None
    """Attempts with a call that the server refused; None leaves it to ``retry.attempts``."""
    server_5xx: Count | None = None
    """Attempts with a call at which the server failed; None leaves it to ``retry.attempts``."""
    protocol: Count | None = None
    """Attempts with an answer that is not what the contract says; None leaves it to ``retry.attempts``."""
    reported_error: Count | None = None
    """Attempts with an answer that is well formed and reports an error; None leaves it to ``retry.attempts``."""


@section
class RetrySpec:
    """How often an infra error is tried again, and what becomes of a server that does not answer. Attempts are all kept."""

    attempts: Count = 3
    """Most attempts at one scheduled episode, the first included; 1 never retries."""
    causes: tuple[Cause, ...] = ("connect", "timeout", "reset", "server_4xx", "server_5xx", "protocol", "reported_error")
    """Causes of an infra error that are tried again; the first attempt is final for any other."""
    per_cause: CauseAttempts = CauseAttempts()
    """Fewer attempts for some causes, e.g. ``{server_4xx: 1, timeout: 2}``."""
    pause_seconds: Positive = 1.0
    """Pause before the first retries, and before a server that was given up is tried again; it doubles each time."""
    longest_pause_seconds: Positive = 30.0
    """Where the doubling ends."""
    give_up_after: Count = 5
    """Failed calls in a row (connect, timeout, reset, server_5xx) after which a server gets no new session, but one to try it after each pause."""
    recovery_seconds: Annotated[float, Field(ge=0)] = 300.0
    """How long new episodes wait while no server takes sessions; then the run ends as interrupted and says which. What was not run is missing."""


@section
class RewardSpec:
    """What learning is paid in, and what counts as success. Reports always show the environment's own return beside the outcome."""

    signal: Literal["return", "success"] = "return"
    """``return`` is what the environment pays, added up as its dialect says; ``success`` is 1 for a success and 0 for a failure."""
    scale: Positive = 1.0
    """Factor on the signal, e.g. 0.01 for a score of 0 to 100."""
    credit: Literal["episode", "turn"] = "episode"
    """Where it lands: ``episode`` pays everything on the last action token; ``turn`` pays what a turn earned or cost on that turn's last action
    token, so that an algorithm which looks at single tokens (``ppo``, ``reinforce_plus_plus``) sees when. Of a score that adds up, a turn earned
    the difference."""
    turn_cost: Annotated[float, Field(ge=0)] = 0.0
    """Taken off for every turn, in units of what is paid, scale included."""
    invalid_cost: Annotated[float, Field(ge=0)] = 0.0
    """Taken off for every turn whose action could not be read or executed."""
    token_cost: Annotated[float, Field(ge=0)] = 0.0
    """Taken off for every sampled token of a turn."""
    success_at_least: float | None = None
    """Least return of an episode that is done and counts as a success; None takes the dialect's rule. A verifier, where there is one, decides
    in its place."""
