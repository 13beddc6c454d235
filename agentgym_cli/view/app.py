"""The server's answers as an ASGI application: who may ask, which page is meant, and the page, made in a thread beside the loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, MutableMapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from agentgym_cli.errors import AgentgymError, StoreError
from agentgym_cli.report.assemble import assemble
from agentgym_cli.report.build import read_rows
from agentgym_cli.report.html_report import report_page
from agentgym_cli.report.html_style import POLICY, STYLE
from agentgym_cli.report.html_text import element
from agentgym_cli.store.queries import NotInStore
from agentgym_cli.store.snapshot import ANSWER_SECONDS, Snapshots
from agentgym_cli.view.address import BadAddress, Query, read_query
from agentgym_cli.view.episode import episode_page
from agentgym_cli.view.episodes import episodes_page
from agentgym_cli.view.exported import exported_json, exported_page
from agentgym_cli.view.frame import Asked, Kept, TokenReader, framed, standing_words
from agentgym_cli.view.requests import JSON, Answer, Gate, refused
from agentgym_cli.view.runs import run_page, runs_page
from agentgym_cli.view.turns import text_page, turns_page
from agentgym_cli.view.versus import beside_page, compare_page

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Page: TypeAlias = Callable[[Asked], Answer]

AT_ONCE = 4
"""Pages that are made at the same time, and files that are fetched at the same time; others wait, so that memory is bounded."""
_EXPORT_SECONDS = 600.0
"""A file may be long, and whoever fetches it slow."""
_STALLED_SECONDS = 30.0
"""Whoever takes nothing of a file for so long is given up."""
_STATIC = Path(__file__).parent / "static"
_KINDS: Mapping[str, str] = MappingProxyType(
    {"viewer.css": "text/css; charset=utf-8", "viewer.js": "text/javascript; charset=utf-8", "viewer.png": "image/png"}
)


def _report(asked: Asked) -> Answer:
    """The whole report of a run, as ``agentgym report --format html`` has it."""
    asked.query.only("run")
    run = asked.query.needed("run")

    def make() -> bytes:
        return report_page(assemble(read_rows(asked.reading.connection, run))).encode()

    return Answer(body=asked.kept.get(("report", run), make, len, stamp=asked.reading.stamp), headers={"content-security-policy": POLICY})


def _state(asked: Asked) -> Answer:
    """How the copy stands to the store, for a page that is there already."""
    asked.query.only()
    found = {"stamp": asked.reading.stamp, "age": round(asked.reading.age, 1), "said": standing_words(asked.reading)}
    return Answer(kind=JSON, body=json.dumps(found).encode() + b"\n")


def _exported(asked: Asked) -> Answer:
    return exported_page(asked, _file("viewer.css").decode())


_PAGES: Mapping[str, Page] = MappingProxyType(
    {
        "": runs_page,
        "run": run_page,
        "episodes": episodes_page,
        "episode": episode_page,
        "turns": turns_page,
        "text": text_page,
        "compare": compare_page,
        "beside": beside_page,
        "report": _report,
        "state.json": _state,
        "export.html": _exported,
        "export.json": exported_json,
    }
)


@dataclass(slots=True)
class Viewer:
    """Serves one store. Nothing that it answers can change anything."""

    snapshots: Snapshots
    gate: Gate
    runs_dir: Path
    tokens: TokenReader
    kept: Kept = field(default_factory=Kept)
    _room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))
    _files: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            return
        if _is_file(self.gate.inner(scope["path"])):
            async with self._files:
                await self._answered(scope, receive, send)
        else:
            await self._answered(scope, receive, send)

    async def _answered(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = refused(500, "this is a fault of agentgym; the terminal that it runs in says more")
        try:
            async with self._room:
                answer = await asyncio.to_thread(self.answer, scope["method"], scope["path"], scope["query_string"], scope["headers"])
        finally:
            # What nobody foresaw is answered too, with every header; the server writes it down.
            await _send(answer, receive, send, head=scope["method"] == "HEAD")

    def answer(self, method: str, path: str, query: bytes, headers: list[tuple[bytes, bytes]]) -> Answer:
        """The answer to a request; the body of a file comes in pieces, and has to be closed."""
        refusal = self.gate.refuse(method, headers)
        if refusal is not None:
            return refusal
        name = self.gate.inner(path)
        if name is None:
            return refused(404, "no such address; the command printed the one that this server answers to when it started")
        if name.startswith("static/"):
            return _static(name.removeprefix("static/"))
        try:
            return self._page(name, read_query(query))
        except BadAddress as err:
            return refused(400, err.message)

    def _page(self, name: str, query: Query) -> Answer:
        page = _PAGES.get(name)
        if page is None:
            return refused(404, "no such page")
        asked = None
        try:
            with ExitStack() as opened:
                reading = opened.enter_context(self.snapshots.reading(_EXPORT_SECONDS if _is_file(name) else ANSWER_SECONDS))
                asked = Asked(root=f"/{self.gate.token}", query=query, reading=reading, runs_dir=self.runs_dir, tokens=self.tokens, kept=self.kept)
                return _begun(page(asked), opened)
        except BadAddress as err:
            return refused(400, err.message) if asked is None else _sorry(asked, err, 400)
        except StoreError as err:
            return refused(503, err.message) if asked is None else _sorry(asked, err, 404 if isinstance(err, NotInStore) else 503)


def _is_file(name: str | None) -> bool:
    return name is not None and name.startswith("export.")


def _begun(answer: Answer, opened: ExitStack) -> Answer:
    """An answer in pieces takes what is open with it; its first piece is made now, so that what cannot be read is said in its place."""
    if isinstance(answer.body, bytes):
        return answer
    first = next(answer.body, b"")
    body = _held(first, answer.body, opened.pop_all())
    next(body)
    return replace(answer, body=body)


def _held(first: bytes, rest: Iterator[bytes], opened: ExitStack) -> Generator[bytes]:
    with opened:
        yield b""
        yield first
        yield from rest


def _sorry(asked: Asked, err: AgentgymError, status: int) -> Answer:
    body = [element("h1", "This cannot be shown"), element("p", err.message, attributes={"class": "warning", "role": "alert"})]
    body.append(element("p", err.hint or err.general_hint))
    # Live, since what is not there may come with the next load.
    page = framed(asked, "This cannot be shown", [], body, live=True)
    return Answer(status=status, body=page.body)


def _static(name: str) -> Answer:
    if name not in _KINDS:
        return refused(404, "no such file")
    first = STYLE.encode() + b"\n" if name == "viewer.css" else b""
    return Answer(kind=_KINDS[name], body=first + _file(name))


def _file(name: str) -> bytes:
    return (_STATIC / name).read_bytes()


async def _send(answer: Answer, receive: Receive, send: Send, *, head: bool) -> None:
    pieces = None if isinstance(answer.body, bytes) else answer.body
    try:
        await send({"type": "http.response.start", "status": answer.status, "headers": answer.all_headers()})
        if head or pieces is None:
            await send({"type": "http.response.body", "body": b"" if head or not isinstance(answer.body, bytes) else answer.body})
        else:
            await _send_pieces(pieces, receive, send)
    finally:
        if isinstance(pieces, Generator):
            await asyncio.to_thread(pieces.close)


async def _send_pieces(pieces: Iterator[bytes], receive: Receive, send: Send) -> None:
    """A reader who goes away, or takes nothing, ends it; so does a store that cannot be read any further: the file stays without its end."""
    gone = asyncio.ensure_future(_gone(receive))
    try:
        while chunk := await asyncio.to_thread(_some, pieces):
            await asyncio.wait_for(send({"type": "http.response.body", "body": chunk, "more_body": True}), _STALLED_SECONDS)
            if gone.done():
                return
        await send({"type": "http.response.body", "body": b""})
    except (StoreError, TimeoutError):
        return
    finally:
        gone.cancel()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


_CHUNK = 1 << 16


def _some(pieces: Iterator[bytes]) -> bytes:
    """The next pieces, at least 64 KiB of them; nothing at the end."""
    chunk = bytearray()
    for each in pieces:
        chunk += each
        if len(chunk) >= _CHUNK:
            break
    return bytes(chunk)
