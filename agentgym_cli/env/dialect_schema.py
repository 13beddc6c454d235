"""What a dialect file may say: routes, fields, errors, actions, success. Data only: no expressions, no code."""

from __future__ import annotations

import re
from typing import Annotated, Literal, get_args

from pydantic import Field, model_validator

from agentgym_cli.env.dialect_routes import MAX_MATCHED_CHARS, FieldName, Match, Regex, Routes
from agentgym_cli.env.socket_schema import SocketSpec
from agentgym_cli.recipe.schema.base import Name, section
from agentgym_cli.recipe.schema.world import ActionFormat
from agentgym_cli.recipe.wording import listed, shown

MAX_REFUSAL_CHARS = 4_096
"""How much of an observation's start the patterns of invalid actions see."""

Note = Annotated[str, Field(min_length=1, max_length=1000)]
PromptFile = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")]
FORMATS: tuple[str, ...] = get_args(ActionFormat)
"""Of actions, as a recipe names them in ``prompt.action_format``."""
Said = Annotated[str, Field(pattern=r"\{\}", max_length=200)]
Template = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^([^{}]|\{[A-Za-z_][A-Za-z0-9_]*\})+$")]
FunctionName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=80)]


def placeholders(template: str) -> tuple[str, ...]:
    """Names of the arguments in a template of a function, in order."""
    return tuple(re.findall(r"\{(\w+)\}", template))


@section
class SessionSpec:
    """How a session is named."""

    field: FieldName
    """Request field (or query parameter of a GET) that takes the session id. Never sent where the dialect has a socket."""
    recycled: bool
    """True when the server may hand out the id of a live session again; the client refuses a session that it still holds."""
    full: Match | None = None
    """The error by which a server says that it holds no more sessions; the message then says what to do."""


@section
class ActionSpec:
    """How an action is read from what a model said."""

    pattern: Regex | None
    """Regular expression whose first group is the action (DOTALL); null takes the whole text, stripped."""
    remove: Regex | None = None
    """Characters to delete from the action; runs of spaces are then folded."""
    on_many: Annotated[str, Field(min_length=1)] | None = None
    """Observation given, without a call to the world, when the pattern matches more than once; null takes the last match."""
    on_none: Annotated[str, Field(min_length=1)] | None = None
    """The same when it matches nothing, or no known call; null sends the empty action."""
    call: Literal["json", "python"] | None = None
    """What was read is a call of one of ``functions``: a JSON object with function_name and arguments, or one Python call with
    constant arguments, which is never executed (a text that is no call is the action itself)."""
    prompt: PromptFile | None = None
    """File with the instructions to a model that answers in this format; null takes the dialect's."""

    @model_validator(mode="after")
    def _call_is_answered(self) -> ActionSpec:
        if self.call is not None and self.on_none is None:
            raise ValueError("expected on_none beside call, to answer a call that is not known")
        return self

    @model_validator(mode="after")
    def _pattern_captures(self) -> ActionSpec:
        if self.pattern is None:
            if self.on_many is not None or (self.on_none is not None and self.call is None):
                raise ValueError("expected a pattern beside on_many or on_none")
        elif re.compile(self.pattern).groups < 1:
            raise ValueError(f"expected a pattern with a group, got {self.pattern!r}")
        return self


@section
class SuccessSpec:
    """When an episode that is done counts as a success, unless a verifier says."""

    reward_kind: Literal["terminal", "per_step", "cumulative"]
    """How rewards add up to a return: the last one, their sum, the last one (already a sum)."""
    at_least: float
    """A success has at least this return."""

    def met(self, rewards: list[float]) -> bool:
        """True when the rewards of an episode, in order and at least one, add up to a success."""
        return (sum(rewards) if self.reward_kind == "per_step" else rewards[-1]) >= self.at_least


@section
class ListedSpec:
    """Actions that the environment lists in its observations."""

    pattern: Regex
    """Regular expression (MULTILINE) whose first group completes ``say``."""
    say: Said
    """The action, with ``{}`` for the group."""

    @model_validator(mode="after")
    def _pattern_captures(self) -> ListedSpec:
        if re.compile(self.pattern).groups < 1:
            raise ValueError(f"expected a pattern with a group, got {self.pattern!r}")
        return self


@section
class RandomSpec:
    """What a policy that draws at random may say."""

    always: tuple[str, ...] = ()
    """At any time."""
    listed: tuple[ListedSpec, ...] = ()
    """Where the observation lists it."""

    def found(self, observation: str) -> list[str]:
        """Every action that an observation lists."""
        return [
            listed.say.replace("{}", match[1] or "")
            for listed in self.listed
            for match in re.finditer(listed.pattern, observation[:MAX_MATCHED_CHARS], re.MULTILINE)
        ]


CheckName = Literal[
    "health",
    "identity",
    "create",
    "reset",
    "observe",
    "step",
    "types",
    "unknown_session",
    "wrong_types",
    "error_style",
    "close",
    "double_close",
    "use_after_close",
    "reset_determinism",
    "reset_determinism_concurrent",
    "isolation",
    "two_clients",
    "oracle",
    "noop_floor",
    "done_latching",
    "id_recycling",
    "task_range",
    "content",
    "replicas",
    "latency",
    "capacity",
    "recovery",
    "oversized",
    "hostile_text",
    "leak",
    "idle_expiry",
]


@section
class DialectSpec:
    """One family of environment servers."""

    name: Name
    """Prefix of task ids."""
    default_port: Annotated[int, Field(ge=1, le=65535)]
    """Where the family's own launch command listens."""
    launch: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """The family's own launch command, word by word; shown in hints, never run by a shell."""
    prompt: PromptFile
    """File with the instructions to a model, beside the dialect file."""
    session: SessionSpec
    socket: SocketSpec | None = None
    """Set where a session is a WebSocket; null speaks HTTP."""
    done_sticky: bool
    """True when the server refuses, or keeps answering done, after done."""
    routes: Routes
    errors: tuple[Match, ...] = ()
    """What an error looks like on any route, beside every status outside 2xx."""
    actions: Annotated[dict[Name, ActionSpec], Field(min_length=1)]
    """By action format."""
    functions: dict[FunctionName, Annotated[tuple[Template, ...], Field(min_length=1)]] = Field(default_factory=dict)
    """By name of a function, the actions that a call of it stands for, ``{argument}`` in place of each argument; the one whose arguments
    are those of the call is said, and arguments without a name take the template's order."""
    choices_say: Said = "Available actions: {}"
    """The line that lists what can be said, with ``{}`` for the list."""
    success: SuccessSpec
    semantics: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """What a success of this family means where that is not what one would think; one line in every report."""
    invalid_action: tuple[Regex, ...] = ()
    """Searched from the start of an observation: the world could not execute the action."""
    random: RandomSpec = Field(default_factory=RandomSpec)
    """For the random policy; nothing by default, which that policy refuses."""
    probe_actions: Annotated[tuple[str, ...], Field(min_length=1)]
    """Actions that are harmless at the start of any task; the probe compares sessions by them, so some should change the state."""
    probe_sessions: Annotated[int, Field(ge=1, le=64)] = 16
    """Sessions that the probe may hold at once."""
    deviations: dict[CheckName, Annotated[str, Field(min_length=1)]] = Field(default_factory=dict)
    """Checks that servers of this family are known not to meet, and what the client does about it."""
    goal: Regex | None = None
    """Regular expression (MULTILINE) whose first group, in the first observation, is what the task asks for; null where it has no such line."""
    order_note: Note | None = None
    """Why a server of this family may number its tasks otherwise than another; said where a server's order is not the pinned one."""
    content_note: Note | None = None
    """Why it may word a task otherwise; said where a task's content is not the pinned one."""

    def says_invalid(self, observation: str) -> bool:
        """True when the observation says that the world could not execute the action."""
        return any(re.match(pattern, observation[:MAX_REFUSAL_CHARS]) for pattern in self.invalid_action)

    def goal_in(self, observation: str) -> str:
        """What a first observation asks for; '' where the dialect does not say how to find it, or it is not found."""
        found = re.search(self.goal, observation[:MAX_MATCHED_CHARS], re.MULTILINE) if self.goal is not None else None
        return (found[1] or "").strip() if found is not None else ""

    @model_validator(mode="after")
    def _goal_captures(self) -> DialectSpec:
        if self.goal is not None and re.compile(self.goal).groups < 1:
            raise ValueError(f"expected goal to have a group, got {self.goal!r}")
        return self

    @model_validator(mode="after")
    def _formats_fit(self) -> DialectSpec:
        for name, action in self.actions.items():
            if name not in FORMATS:
                raise ValueError(f"expected actions to be of {listed(FORMATS)}, got {name}")
            if (action.call == "json") is not (name == "function_call"):
                raise ValueError(f"expected call: json in actions.function_call, and there only, got {shown(action.call)} in actions.{name}")
            if action.call is not None and not self.functions:
                raise ValueError(f"expected functions, which actions.{name} calls, got none")
        for function, templates in self.functions.items():
            if len({frozenset(placeholders(template)) for template in templates}) < len(templates):
                raise ValueError(f"expected the actions of functions.{function} to differ in their arguments")
        return self

    @model_validator(mode="after")
    def _fields_have_names_of_their_own(self) -> DialectSpec:
        for name, field in (("reset.task_field", self.routes.reset.task_field), ("step.action_field", self.routes.step.action_field)):
            if self.socket is None and field == self.session.field:
                raise ValueError(f"expected routes.{name} to differ from session.field, got {field!r} for both")
        return self

    @model_validator(mode="after")
    def _deviations_declared(self) -> DialectSpec:
        if not self.done_sticky and "done_latching" not in self.deviations:
            raise ValueError("expected deviations.done_latching to say what the client does, since done_sticky is false")
        if self.session.recycled and "id_recycling" not in self.deviations:
            raise ValueError("expected deviations.id_recycling to say what the client does, since session.recycled is true")
        return self

    @model_validator(mode="after")
    def _calls_fit_the_transport(self) -> DialectSpec:
        socket, routes = self.socket is not None, self.routes
        wanted = "SEND TYPE, since there is a socket" if socket else "METHOD /PATH, since there is no socket"
        for call in routes.calls():
            if call != routes.health.call and call.startswith("SEND ") is not socket:
                raise ValueError(f"expected every call but health to be {wanted}, got {call!r}")
        if (routes.create.session is None) is not socket or (routes.close is not None and (routes.close.closed is None) is not socket):
            raise ValueError(f"expected routes.create.session and routes.close.closed to be {'null beside' if socket else 'set without'} a socket")
        return self
