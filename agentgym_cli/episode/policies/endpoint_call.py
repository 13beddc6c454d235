"""One server of OpenAI's protocol: a request, asked again while the server is busy, broken or away, until its caller's time is up."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from itertools import count
from typing import NoReturn

from agentgym_cli.env.caller import HttpCaller
from agentgym_cli.env.contract import EnvFailure, InfraCause
from agentgym_cli.env.pointer import Json
from agentgym_cli.env.wire import RawReply, encoded
from agentgym_cli.episode.clock import EpisodeClock
from agentgym_cli.episode.policies.endpoint_pace import Gate
from agentgym_cli.episode.policies.endpoint_reply import count_of, error_of, is_context_full, read_document
from agentgym_cli.episode.policies.failures import PolicyProtocol, PolicyUnavailable
from agentgym_cli.episode.policies.protocol import ContextFull
from agentgym_cli.errors import PolicyError
from agentgym_cli.recipe.wording import shown

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
_BUSY = frozenset({408, 409, 425, 429})
"""Refusals that pass by themselves."""
_TOO_LONG = frozenset({200, 400, 413, 422})
"""Statuses with which servers refuse a prompt that is too long."""
_LOST = frozenset({InfraCause.CONNECT, InfraCause.TIMEOUT, InfraCause.RESET})
_SAID = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a caller waits."""

    clock: EpisodeClock
    """Stands still while the gate holds a request back."""
    until: float
    """On that clock; no further try begins later."""
    seconds: float
    """Deadline of one try."""
    seed: int
    """Spreads the pauses of episodes that were refused together."""


class Refused(Exception):
    """One try that gave no completion. Control flow inside ``LlmServer`` and the check before a run."""

    def __init__(self, cause: InfraCause, message: str, *, status: int = 0, again: bool = False, retry_after: str | None = None) -> None:
        super().__init__(message)
        self.cause = cause
        self.message = message
        self.status = status
        self.again = again
        self.retry_after = retry_after


class LlmServer:
    """Asks one server at its base address, through ``gate``. The caller sends the key; it never appears in a message."""

    def __init__(self, caller: HttpCaller, url: str, *, gate: Gate) -> None:
        self.url = url.rstrip("/")
        self._caller = caller
        self._gate = gate

    async def ask(self, path: str, fields: Mapping[str, Json], *, tokens: int, patience: Patience) -> Json:
        """POST ``fields`` and give the reply's document.

        Args:
            tokens: how many it is expected to read and sample.

        Raises:
            ContextFull: the server says that the model's context is too short for it.
            PolicyUnavailable: no completion in time; with the last cause.
            PolicyProtocol: an answer that is none.
            PolicyError: the key is not accepted, so no later request can succeed.
        """
        body = encoded(fields)
        for number in count():
            try:
                return await self._paced(path, body, tokens, patience)
            except Refused as refused:
                pause = _pause(refused, number, patience.seed)
                if not refused.again or patience.clock.time() + pause > patience.until:
                    _give_up(refused, tries=number + 1)
            await asyncio.sleep(pause)
        raise AssertionError("a count has no end")

    async def once(self, method: str, path: str, body: bytes | None = None, *, seconds: float) -> Json:
        """One try. Raises Refused, ContextFull, PolicyProtocol, PolicyError."""
        where = f"{method} {self.url}{path}"
        try:
            raw = await self._caller.send(method, self.url + path, body, seconds=seconds)
        except EnvFailure as failure:
            if failure.cause is InfraCause.PROTOCOL:
                raise PolicyProtocol(failure.message, failure.hint) from failure
            raise Refused(failure.cause, failure.message, again=failure.cause in _LOST) from failure
        return _document(raw, where)

    async def _paced(self, path: str, body: bytes, tokens: int, patience: Patience) -> Json:
        if self._gate.limited:
            with patience.clock.held():
                await self._gate.enter(tokens)
        used: int | None = None
        try:
            document = await self.once("POST", path, body, seconds=patience.seconds)
            used = _used(document)
            return document
        finally:
            self._gate.leave(expected=tokens, used=used)


def _document(raw: RawReply, where: str) -> Json:
    """The document of a completion. Raises what the status or an error in the body means."""
    try:
        body: Json = read_document(raw.body)
    except ValueError:
        body = raw.body[:_SAID].decode("utf-8", "replace")
        if 200 <= raw.status < 300:
            raise PolicyProtocol(f"{where}: expected JSON, got {shown(body)}") from None
    error = error_of(body)
    if 200 <= raw.status < 300 and error is None:
        return body
    said = shown(error[0][:_SAID]) if error else shown(body)
    message = f"{where}: expected a completion, got HTTP {raw.status} {said}"
    if raw.status in (401, 403):
        raise PolicyError(
            f"{where}: expected the key to be accepted, got HTTP {raw.status} {said}", "policy.endpoint.key_variable names the variable with the key"
        )
    if raw.status in _TOO_LONG and is_context_full(error):
        raise ContextFull
    if 300 <= raw.status < 400:
        raise PolicyProtocol(f"{message}; redirects are not followed", "name the address that it leads to")
    if raw.status < 300:
        raise Refused(InfraCause.REPORTED_ERROR, message, status=raw.status, again=True)
    cause = InfraCause.SERVER_5XX if raw.status >= 500 else InfraCause.SERVER_4XX
    raise Refused(cause, message, status=raw.status, again=raw.status in _BUSY or raw.status >= 500, retry_after=raw.retry_after)


def _give_up(refused: Refused, *, tries: int) -> NoReturn:
    asked = f" ({tries} tries)" if tries > 1 else ""
    hint = "is the server running? policy.endpoint.retry_seconds says how long a call goes on asking" if refused.again else None
    raise PolicyUnavailable(f"{refused.message}{asked}", hint, refused.cause) from refused


def _pause(refused: Refused, number: int, seed: int) -> float:
    """Seconds before the next try: what the server asks for, else a pause that doubles, with up to half of it taken off at random."""
    asked = _seconds(refused.retry_after)
    doubled: float = min(FIRST_PAUSE_SECONDS * 2**number, LONGEST_PAUSE_SECONDS)
    jittered = doubled * (1 - random.Random(f"{seed}/{number}").random() / 2)
    return jittered if asked is None else asked + jittered - doubled / 2


def _seconds(retry_after: str | None) -> float | None:
    """A Retry-After header, in seconds or as a date; None where it says neither."""
    if retry_after is None:
        return None
    try:
        seconds = (
            float(retry_after)
            if retry_after.strip().replace(".", "", 1).isdecimal()
            else parsedate_to_datetime(retry_after).timestamp() - time.time()
        )
    except (ValueError, OverflowError):
        return None
    return max(0.0, seconds)


def _used(document: Json) -> int | None:
    usage = document.get("usage") if isinstance(document, dict) else None
    return count_of(usage.get("total_tokens"), least=1) if isinstance(usage, dict) else None
