"""What a wire is: routes over a shell, and how it says that something was refused. Knows no world and no socket."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel

from agentgym_envs.bodies import read_body, read_query
from agentgym_envs.protocol import WorldError
from agentgym_envs.shell import Shell

B = TypeVar("B", bound=BaseModel)


@dataclass(slots=True)
class Asked:
    """One request: its whole body and its query, as they came."""

    content: bytes = b""
    query: bytes = b""

    def body(self, model: type[B]) -> B:
        """The JSON body as ``model``; Unprocessable (HTTP 422) otherwise."""
        return read_body(model, self.content)

    def parameters(self, model: type[B]) -> B:
        """The query as ``model``; Unprocessable (HTTP 422) otherwise."""
        return read_query(model, dict(parse_qsl(self.query.decode("latin-1"), keep_blank_values=True)))


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply other than HTTP 200 with JSON: another status, or bytes of another type."""

    value: object
    """What becomes JSON; bytes are sent as they are."""
    status: int = 200
    media_type: str = "application/json"
    headers: tuple[tuple[bytes, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Route:
    """One method and path, and the handler whose value becomes the reply's JSON (or is a Reply)."""

    method: Literal["GET", "POST"]
    path: str
    answer: Callable[[Asked], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Wire:
    """How a family of servers answers."""

    routes: Callable[[Shell], Sequence[Route]]
    refused: Callable[[str, WorldError], Reply]
    """From the path and the refusal to the reply: the family's style of saying that something went wrong."""


def error_in_200(_: str, error: WorldError) -> Reply:
    """HTTP 200 with ``{"error": message}``: the style of most of AgentGym's servers."""
    return Reply({"error": str(error)})


SERVER_ERROR = Reply(b"Internal Server Error", 500, "text/plain; charset=utf-8")
"""What a server of the family answers where its handler raises."""
