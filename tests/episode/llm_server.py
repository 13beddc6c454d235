"""A server of OpenAI's protocol for tests: a real one on the loopback or an app in this process, with every fault a test can ask for."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from agentgym_cli.env.pointer import Json

Fields = dict[str, Json]
END = 3
"""The id that ends a response of ``spell``."""


def spell(text: str) -> list[int]:
    """Ids of a text in the server's vocabulary: a letter's code and 100; nothing is special but END."""
    return [100 + ord(letter) for letter in text]


def last_words(fields: Fields) -> str:
    """What the server was told last."""
    messages = fields.get("messages")
    assert isinstance(messages, list) and isinstance(messages[-1], dict)
    return str(messages[-1]["content"])


@dataclass
class LlmStub:
    """Answers by ``say(fields, number)``, where ``number`` counts the requests for completions from 0, the check's own included.

    ``fault(number)`` replaces an answer: a status, a status with headers and a body, bytes, ``hang``, ``html``, ``broken`` JSON or ``huge``.
    """

    say: Callable[[Fields, int], str | Fields] = lambda fields, number: f"said {number}"
    """A text, which is cut at the limit that is asked for, or a whole choice."""
    fault: Callable[[int], Fault | None] = lambda number: None
    models: Sequence[Mapping[str, Json]] | None = ({"id": "stub", "object": "model", "owned_by": "tests"},)
    """None answers 404."""
    listing: Callable[[int], Fault | None] = lambda number: None
    """Replaces an answer of the list of models, as ``fault`` does the others."""
    listed: int = 0
    """How often the list was asked for."""
    ids: bool = False
    """Give token ids and log-probabilities as vLLM does."""
    logprob: float = -0.5
    prompt_ids: Callable[[Fields], list[int]] | None = None
    """Ids of a prompt; by default every message spelled out, each ended by END."""
    unknown: tuple[str, ...] = ()
    """Fields that are refused with 400."""
    key: str | None = None
    usage: bool = True
    seconds: float = 0.0
    asked: list[Fields] = field(default_factory=list)
    open: int = 0
    most_open: int = 0
    started: list[float] = field(default_factory=list)
    dead: bool = False
    """Requests are no longer answered: each waits until the server that serves it ends, and is reset then."""
    stop: Callable[[], None] = lambda: None
    """Ends the server that serves it, without another answer; ``say`` may call it, and its own request is the last that is answered."""

    def app(self) -> Starlette:
        """The server as an ASGI app, its base address ending in /v1."""
        return Starlette(
            routes=[
                Route("/v1/models", self._models),
                Route("/v1/chat/completions", self._complete, methods=["POST"]),
                Route("/v1/completions", self._complete, methods=["POST"]),
            ]
        )

    async def _models(self, request: Request) -> Response:
        if self.key is not None and request.headers.get("authorization") != f"Bearer {self.key}":
            return _error(401, "Incorrect API key provided", "invalid_api_key")
        fault, self.listed = self.listing(self.listed), self.listed + 1
        if fault is not None:
            return _faulty(fault)
        if self.models is None:
            return _error(404, "Not Found")
        return _json({"object": "list", "data": [dict(model) for model in self.models]})

    async def _complete(self, request: Request) -> Response:
        fields: Fields = orjson.loads(await request.body())
        number = len(self.asked)
        self.asked.append(fields)
        self.started.append(asyncio.get_running_loop().time())
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            if self.dead:
                await asyncio.sleep(10_000)
            await asyncio.sleep(self.seconds)
            return await self._answer(request.url.path, fields, number)
        finally:
            self.open -= 1

    async def _answer(self, path: str, fields: Fields, number: int) -> Response:
        fault = self.fault(number)
        if fault == "hang":
            await asyncio.sleep(10_000)
        if fault is not None:
            return _faulty(fault)
        refused = [name for name in self.unknown if name in fields]
        if refused:
            return _error(400, f"Unrecognized request argument supplied: {refused[0]}", "invalid_request_error")
        if fields["model"] not in [model["id"] for model in self.models or ({"id": "stub"},)]:
            return _error(404, f"The model `{fields['model']}` does not exist.", "model_not_found")
        return _json(self._completion(fields, number, chat=path.endswith("/chat/completions")))

    def _completion(self, fields: Fields, number: int, *, chat: bool) -> Fields:
        said = self.say(fields, number)
        prompt = self._prompt(fields)
        sampled = [*spell(said if isinstance(said, str) else ""), END]
        limit = fields.get("max_tokens", fields.get("max_completion_tokens"))
        assert isinstance(limit, int)
        if isinstance(said, str):
            cut, sampled, said = len(sampled) > limit, sampled[:limit], said[:limit]
        choice: Fields = dict(said) if isinstance(said, dict) else {"finish_reason": "length" if cut else "stop"}
        if not isinstance(said, dict):
            choice |= {"message": {"role": "assistant", "content": said}} if chat else {"text": said}
        body: Fields = {"id": f"c{number}", "choices": [{"index": 0, **choice}]}
        if self.usage:
            body["usage"] = {"prompt_tokens": len(prompt), "completion_tokens": len(sampled), "total_tokens": len(prompt) + len(sampled)}
        if self.ids and fields.get("return_token_ids"):
            self._give_ids(body, [*prompt], [*sampled], chat=chat, wanted="logprobs" in fields)
        return body

    def _prompt(self, fields: Fields) -> list[int]:
        if self.prompt_ids is not None:
            return self.prompt_ids(fields)
        if "prompt" in fields:
            prompt = fields["prompt"]
            assert isinstance(prompt, list)
            return [int(str(token)) for token in prompt]
        messages = fields["messages"]
        assert isinstance(messages, list)
        return [token for message in messages if isinstance(message, dict) for token in (*spell(str(message["content"])), END)]

    def _give_ids(self, body: Fields, prompt: list[Json], sampled: list[Json], *, chat: bool, wanted: bool) -> None:
        """As vLLM does: the prompt's ids beside the choices of a chat, and inside a plain completion's."""
        choices = body["choices"]
        assert isinstance(choices, list) and isinstance(choices[0], dict)
        choices[0]["token_ids"] = sampled
        (body if chat else choices[0])["prompt_token_ids"] = prompt
        if wanted and chat:
            choices[0]["logprobs"] = {"content": [{"token": "?", "logprob": self.logprob} for _ in sampled]}
        elif wanted:
            choices[0]["logprobs"] = {"token_logprobs": [self.logprob for _ in sampled]}


Fault = int | str | bytes | tuple[int, Mapping[str, str], Json]


def _faulty(fault: Fault) -> Response:
    if fault == "html":
        return HTMLResponse("<html><title>nginx</title></html>")
    if fault == "broken":
        return Response('{"choices": [', media_type="application/json")
    if fault == "huge":
        return Response(b" " * (9 * 1024 * 1024), media_type="application/json")
    if isinstance(fault, bytes):
        return Response(fault, media_type="application/json")
    if isinstance(fault, int):
        return _error(fault, "out of order")
    assert isinstance(fault, tuple)
    status, headers, body = fault
    return Response(orjson.dumps(body), status_code=status, headers=dict(headers), media_type="application/json")


def _json(body: Fields) -> Response:
    return Response(orjson.dumps(body), media_type="application/json")


def _error(status: int, message: str, code: str | None = None) -> Response:
    return Response(orjson.dumps({"error": {"message": message, "type": "error", "code": code}}), status_code=status, media_type="application/json")


class _Server(uvicorn.Server):
    """A server in a thread, whose signals are not its own."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextmanager
def served(stub: LlmStub) -> Iterator[str]:
    """The stub on a free loopback port, at the address given, for as long as the block runs."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = _Server(uvicorn.Config(stub.app(), lifespan="off", log_config=None, access_log=False, timeout_graceful_shutdown=1))

        def stop() -> None:
            stub.dead = server.should_exit = True

        stub.stop = stop
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        finally:
            stop()
            thread.join()


@contextmanager
def breaking(reply: bytes) -> Iterator[str]:
    """A loopback server that reads a request, writes ``reply`` and resets the connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(reply)
                # A linger of no time ends the connection with a reset.
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        finally:
            thread.join()


def refusing_address() -> str:
    """The address of a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
