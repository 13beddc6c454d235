"""The server's answers as an ASGI application: who may ask, which page is meant, and the page, made in a thread beside the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from agentgym_cli.errors import AgentgymError, StoreError
from agentgym_cli.report.assemble import assemble
from agentgym_cli.report.build import read_rows
from agentgym_cli.report.html_report import report_page
from agentgym_cli.report.html_style import POLICY, STYLE
from agentgym_cli.report.html_text import element
from agentgym_cli.store.snapshot import ANSWER_SECONDS, Snapshots, TookTooLong
from agentgym_cli.view.address import BadAddress, Query, read_query
from agentgym_cli.view.episode import episode_page
from agentgym_cli.view.episodes import episodes_page
from agentgym_cli.view.exported import exported_json, exported_page
from agentgym_cli.view.frame import Asked, Kept, TokenReader, framed
from agentgym_cli.view.requests import JSON, Answer, Gate, refused
from agentgym_cli.view.runs import run_page, runs_page
from agentgym_cli.view.turns import text_page, turns_page
from agentgym_cli.view.versus import beside_page, compare_page

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Page: TypeAlias = Callable[[Asked], Answer]

AT_ONCE = 4
"""Pages that are made at the same time; others wait, so that memory is bounded."""
_EXPORT_SECONDS = 600.0
"""A file may be long, and whoever fetches it slow."""
_STATIC = Path(__file__).parent / "static"
_KINDS: Mapping[str, str] = MappingProxyType(
    {"viewer.css": "text/css; charset=utf-8", "viewer.js": "text/javascript; charset=utf-8", "viewer.png": "image/png"}
)


def _report(asked: Asked) -> Answer:
    """The whole report of a run, as ``agentgym report --format html`` has it."""
    asked.query.only("run")
    run = asked.query.needed("run")
    made = asked.kept.get(("report", asked.reading.stamp, run), lambda: report_page(assemble(read_rows(asked.reading.connection, run))).encode())
    return Answer(body=made, headers={"content-security-policy": POLICY})


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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            return
        head = scope["method"] == "HEAD"
        async with self._room:
            with ExitStack() as opened:
                answer = await asyncio.to_thread(self.answer, scope["method"], scope["path"], scope["query_string"], scope["headers"], opened)
                await _send(answer, send, head=head)

    def answer(self, method: str, path: str, query: bytes, headers: list[tuple[bytes, bytes]], opened: ExitStack) -> Answer:
        """The answer to a request; what a streamed one needs stays open in ``opened``."""
        refusal = self.gate.refuse(method, headers)
        if refusal is not None:
            return refusal
        name = self.gate.inner(path)
        if name is None:
            return refused(404, "no such address; the command printed the one that this server answers to when it started")
        if name.startswith("static/"):
            return _static(name.removeprefix("static/"))
        try:
            return self._page(name, read_query(query), opened)
        except BadAddress as err:
            return _told(err, 400)

    def _page(self, name: str, query: Query, opened: ExitStack) -> Answer:
        try:
            seconds = _EXPORT_SECONDS if name.startswith("export.") else ANSWER_SECONDS
            reading = opened.enter_context(self.snapshots.reading(seconds))
        except StoreError as err:
            return refused(503, err.message)
        asked = Asked(root=f"/{self.gate.token}", query=query, reading=reading, runs_dir=self.runs_dir, tokens=self.tokens, kept=self.kept)
        if name == "state.json":
            return _state(asked)
        page = _PAGES.get(name)
        if page is None:
            return refused(404, "no such page")
        try:
            return page(asked)
        except BadAddress as err:
            return _sorry(asked, err, 400)
        except StoreError as err:
            return _sorry(asked, err, 503 if isinstance(err, TookTooLong) else 404)


def _state(asked: Asked) -> Answer:
    age = f"{asked.reading.age:.1f}"
    return Answer(kind=JSON, body=f'{{"stamp": "{asked.reading.stamp}", "age": {age}}}\n'.encode())


def _sorry(asked: Asked, err: AgentgymError, status: int) -> Answer:
    body = [element("h1", "This cannot be shown"), element("p", err.message, attributes={"class": "warning", "role": "alert"})]
    body.append(element("p", err.hint or err.general_hint))
    page = framed(asked, "This cannot be shown", [], body)
    return Answer(status=status, body=page.body)


def _told(err: AgentgymError, status: int) -> Answer:
    return refused(status, err.message)


def _static(name: str) -> Answer:
    if name not in _KINDS:
        return refused(404, "no such file")
    first = STYLE.encode() + b"\n" if name == "viewer.css" else b""
    return Answer(kind=_KINDS[name], body=first + _file(name))


def _file(name: str) -> bytes:
    return (_STATIC / name).read_bytes()


async def _send(answer: Answer, send: Send, *, head: bool) -> None:
    await send({"type": "http.response.start", "status": answer.status, "headers": answer.all_headers()})
    if head or isinstance(answer.body, bytes):
        body = b"" if head or not isinstance(answer.body, bytes) else answer.body
        await send({"type": "http.response.body", "body": body})
        return
    while chunk := await asyncio.to_thread(_some, answer.body):
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


_CHUNK = 1 << 16


def _some(pieces: Iterator[bytes]) -> bytes:
    """The next pieces, at least 64 KiB of them; nothing at the end."""
    chunk = bytearray()
    for each in pieces:
        chunk += each
        if len(chunk) >= _CHUNK:
            break
    return bytes(chunk)
