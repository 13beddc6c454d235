"""What a dialect file may say of servers whose sessions are WebSockets."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from agentgym_cli.recipe.schema.base import section

FrameField = Annotated[str, Field(min_length=1, max_length=80)]


@section
class SocketSpec:
    """Each session is a connection; a frame is asked and a frame answered, one at a time. The health route stays an HTTP request."""

    path: Annotated[str, Field(pattern=r"^/[^\s?#]*$", max_length=500)]
    """Where a connection is opened."""
    type_field: FrameField
    """Field of a frame that names the call: what stands after SEND."""
    data_field: FrameField | None
    """Field of a frame that holds the fields of the call, left out where there are none; null puts them beside the type."""
