"""The calls of a dialect: where they go, what they send, where a reply has what is wanted, and what an error looks like."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from agentgym_cli.env.pointer import PATTERN, Json, PointerMiss, resolve
from agentgym_cli.recipe.schema.base import section


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as err:
        raise ValueError(f"expected a regular expression, got {pattern!r}: {err}") from err
    return pattern


MAX_MATCHED_CHARS = 65_536
"""How much of a text a pattern sees."""
LONGEST_ORACLE_SECONDS = 3600.0

Pointer = Annotated[str, Field(pattern=PATTERN, max_length=500)]
Regex = Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(_compiles)]
FieldName = Annotated[str, Field(min_length=1, max_length=80)]
Scalar = bool | int | float | str | None
TextFormat = Literal["text", "json"]
"""An observation is the string at its pointer (text), or whatever is there as JSON with sorted keys and no spaces (json)."""
Http = Annotated[str, Field(pattern=r"^(GET|POST) /[^\s?#]*$", max_length=500)]
Call = Annotated[str, Field(pattern=r"^((GET|POST) /[^\s?#]*|SEND \S+)$", max_length=500)]
"""Method and path of a request, or, where the dialect has a socket, SEND and the type of a frame."""
Post = Annotated[str, Field(pattern=r"^(POST /[^\s?#]*|SEND \S+)$", max_length=500)]


@section
class Match:
    """A test of one reply. Everything that is named must hold; a pointer alone asks only that something is there."""

    status: Annotated[int, Field(ge=100, le=599)] | None = None
    """HTTP status; None holds for every 2xx."""
    pointer: Pointer | None = None
    """Where to look in the body; None looks at the status alone."""
    equals: bool | int | float | str | None = None
    """The value must be this, of this type."""
    matches: Regex | None = None
    """The value must be a string in which this is found."""
    is_null: bool = False
    """The value must be there and null."""

    @model_validator(mode="after")
    def _one_test(self) -> Match:
        tests = [self.equals is not None, self.matches is not None, self.is_null]
        if sum(tests) > 1:
            raise ValueError("expected at most one of equals, matches, is_null")
        if any(tests) and self.pointer is None:
            raise ValueError("expected a pointer beside equals, matches or is_null")
        if self.pointer is None and self.status is None:
            raise ValueError("expected a status or a pointer")
        return self

    def holds(self, status: int, body: Json) -> bool:
        """True when the reply passes the test."""
        if status != self.status if self.status is not None else not 200 <= status < 300:
            return False
        if self.pointer is None:
            return True
        try:
            value = resolve(body, self.pointer)
        except PointerMiss:
            return False
        return self._value_holds(value)

    def described(self) -> str:
        """What is expected, for a message."""
        test = {True: "null", False: "anything"}[self.is_null] if self.equals is None else repr(self.equals)
        wanted = test if self.matches is None else f"a match of {self.matches!r}"
        return f"HTTP {self.status or '2xx'}" if self.pointer is None else f"{wanted} at {self.pointer!r}"

    def _value_holds(self, value: Json) -> bool:
        if self.is_null:
            return value is None
        if self.matches is not None:
            return isinstance(value, str) and re.search(self.matches, value[:MAX_MATCHED_CHARS]) is not None
        if self.equals is not None:
            return isinstance(value, bool) == isinstance(self.equals, bool) and value == self.equals
        return True


@section
class HealthRoute:
    """Says that a server is up, and which environment it is."""

    call: Http
    """Method and path; where the dialect has a socket, ``SEND`` and the type of a frame, in every route but this one."""
    format: Literal["json", "text"] = "json"
    """``text`` takes the whole body as a string."""
    greeting: Match
    """What identifies this environment."""


@section
class CreateRoute:
    """Makes a session."""

    call: Post
    send: dict[FieldName, Scalar] = Field(default_factory=dict)
    """Constant request fields."""
    errors: tuple[Match, ...] = ()
    """Errors of this route, beside those of the dialect."""
    session: Pointer | None
    """Where the reply has the session id, an integer or a string; null where the dialect has a socket: the connection is the session."""


@section
class ResetRoute:
    """Starts a task in a session."""

    call: Post
    send: dict[FieldName, Scalar] = Field(default_factory=dict)
    errors: tuple[Match, ...] = ()
    task_field: FieldName
    """Request field that takes the task's number."""
    task: Pointer | None = None
    """Where the reply says what the task is, a string that goes on a line before the observation; None where the observation says it."""
    observation: Pointer | None
    """Where the reply has the first observation, a string; null asks the observe route for it."""
    observation_format: TextFormat = "text"
    """``text`` takes the string at the pointer, ``json`` whatever is there, as JSON with sorted keys."""
    choices: Pointer | None = None
    """Where the reply lists the actions that can be taken, strings; they go on a line behind the observation (``choices_say``)."""


@section
class StepRoute:
    """Executes one action."""

    call: Post
    send: dict[FieldName, Scalar] = Field(default_factory=dict)
    errors: tuple[Match, ...] = ()
    not_errors: tuple[Match, ...] = ()
    """Replies that answer an action which the world did not understand: a turn, although an entry of ``errors`` describes them."""
    action_field: FieldName
    """Request field that takes the action."""
    action_suffix: Annotated[str, Field(max_length=20)] = ""
    """What the server wants after every action, e.g. a line feed."""
    observation: Pointer
    """Where the reply has the observation."""
    observation_format: TextFormat = "text"
    reward: Pointer
    """Where the reply has the reward, a finite number."""
    null_reward: float | None = None
    """What a reward of null is read as; null refuses it."""
    reward_when_done: bool = False
    """Only the reward of the turn that ends the task is one; any other is read as 0."""
    done: Pointer
    """Where the reply says, as true or false, that the task is over."""
    choices: Pointer | None = None
    """As in a reset; read until the task is over."""


@section
class ObserveRoute:
    """Repeats the last observation."""

    call: Call
    send: dict[FieldName, Scalar] = Field(default_factory=dict)
    errors: tuple[Match, ...] = ()
    observation: Pointer
    """Where the reply has the observation."""
    observation_format: TextFormat = "text"


@section
class ChoicesRoute:
    """Lists, after every reset, what can be said in the task: words or actions. They go on a line behind the first observation."""

    call: Call
    send: dict[FieldName, Scalar] = Field(default_factory=dict)
    errors: tuple[Match, ...] = ()
    choices: Pointer
    """Where the reply has the list of strings."""


@section
class CloseRoute:
    """Releases a session."""

    call: Post
    send: dict[FieldName, Scalar] = Field(default_factory=dict)
    errors: tuple[Match, ...] = ()
    closed: Match | None
    """What the reply to a close that worked looks like; null where the dialect has a socket: the server then closes the connection."""


@section
class OracleRoute:
    """Tells the actions that solve the session's task from its start; for demonstrations and ceilings."""

    call: Call
    send: dict[FieldName, Scalar] = Field(default_factory=dict)
    errors: tuple[Match, ...] = ()
    actions: Pointer
    """Where the reply has the list of actions."""
    seconds: Annotated[float, Field(gt=0, le=LONGEST_ORACLE_SECONDS)] | None = None
    """How long an answer may take where that is longer than the deadline of every call; null is that deadline."""


@section
class VerifyRoute:
    """Tells whether the session's state satisfies its task, by other means than the reward."""

    call: Call
    send: dict[FieldName, Scalar] = Field(default_factory=dict)
    errors: tuple[Match, ...] = ()
    success: Pointer
    """Where the reply says so, as true or false."""


@section
class Routes:
    """Every call of the family. What it lacks is null."""

    health: HealthRoute
    create: CreateRoute
    reset: ResetRoute
    step: StepRoute
    observe: ObserveRoute | None = None
    close: CloseRoute | None = None
    """Releases a session; None where sessions cannot be released: closing is then nothing at all."""
    choices: ChoicesRoute | None = None
    oracle: OracleRoute | None = None
    verify: VerifyRoute | None = None

    @model_validator(mode="after")
    def _first_observation_somewhere(self) -> Routes:
        if self.reset.observation is None and self.observe is None:
            raise ValueError("expected an observe route beside reset.observation: null")
        if self.choices is not None and self.reset.choices is not None:
            raise ValueError("expected reset.choices or a choices route, got both")
        return self

    def oracle_deadline(self, call_seconds: float) -> float:
        """Seconds that an oracle's answer may take where another call may take ``call_seconds``."""
        own = None if self.oracle is None else self.oracle.seconds
        return max(call_seconds, own or 0.0)

    def calls(self) -> tuple[str, ...]:
        """Method and path of every route."""
        optional = (self.observe, self.close, self.choices, self.oracle, self.verify)
        return (self.health.call, self.create.call, self.reset.call, self.step.call, *(route.call for route in optional if route is not None))
