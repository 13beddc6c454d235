"""Every way in which a reply can be wrong becomes an EnvFailure with its cause, and never a reward."""

from __future__ import annotations

import pickle

import httpx
import pytest

from agentgym_cli.env import endpoint as endpoint_module
from agentgym_cli.env.contract import EnvFailure, InfraCause, StepReply
from agentgym_cli.env.dialect import load_dialect
from agentgym_cli.env.endpoint import Endpoint, base_url
from agentgym_cli.env.wire import MAX_REPLY_BYTES, Call, RawReply, build_http
from agentgym_cli.errors import RecipeError

TEXTCRAFT = load_dialect("textcraft")


def endpoint(handler, **options) -> Endpoint:
    return Endpoint(build_http(transport=httpx.MockTransport(handler)), TEXTCRAFT, "http://toy/", call_seconds=1, **options)


def answering(status: int, body: bytes, headers: dict[str, str] | None = None) -> Endpoint:
    return endpoint(lambda request: httpx.Response(status, content=body, headers=headers))


GOOD_STEP = b'{"observation": "Got 1 stick", "reward": 0, "done": false}'
LONG = b'{"observation": "' + b"x" * MAX_REPLY_BYTES + b'", "reward": 0, "done": false}'


@pytest.mark.parametrize(
    ("status", "body", "cause"),
    [
        (200, b'{"error": "The id 1 is not valid."}', InfraCause.REPORTED_ERROR),
        (200, b'{"error": "x", "observation": "y", "reward": 1, "done": true}', InfraCause.REPORTED_ERROR),
        (200, b"false", InfraCause.PROTOCOL),
        (200, b"null", InfraCause.PROTOCOL),
        (200, b"", InfraCause.PROTOCOL),
        (204, b"", InfraCause.PROTOCOL),
        (200, b"{bad json", InfraCause.PROTOCOL),
        (200, b"\xff\xfe", InfraCause.PROTOCOL),
        (200, b"<html>hello</html>", InfraCause.PROTOCOL),
        (200, b"[" * 5000, InfraCause.PROTOCOL),
        (200, b'{"observation": "y", "reward": 1}', InfraCause.PROTOCOL),
        (200, b'{"observation": "y", "done": true}', InfraCause.PROTOCOL),
        (200, b'{"reward": 1, "done": true}', InfraCause.PROTOCOL),
        (200, b'{"observation": 5, "reward": 1, "done": true}', InfraCause.PROTOCOL),
        (200, b'{"observation": null, "reward": 1, "done": true}', InfraCause.PROTOCOL),
        (200, b'{"observation": "y", "reward": "1", "done": true}', InfraCause.PROTOCOL),
        (200, b'{"observation": "y", "reward": true, "done": true}', InfraCause.PROTOCOL),
        (200, b'{"observation": "y", "reward": null, "done": true}', InfraCause.PROTOCOL),
        (200, b'{"observation": "y", "reward": NaN, "done": true}', InfraCause.PROTOCOL),
        (200, b'{"observation": "y", "reward": Infinity, "done": true}', InfraCause.PROTOCOL),
        (200, b'{"observation": "y", "reward": 1e999, "done": true}', InfraCause.PROTOCOL),
        (200, b'{"observation": "y", "reward": 1, "done": 1}', InfraCause.PROTOCOL),
        (200, b'{"observation": "y", "reward": 1, "done": "true"}', InfraCause.PROTOCOL),
        (200, b'{"observation": "\\ud800", "reward": 1, "done": true}', InfraCause.PROTOCOL),
        (200, LONG, InfraCause.PROTOCOL),
        (301, b"", InfraCause.PROTOCOL),
        (307, GOOD_STEP, InfraCause.PROTOCOL),
        (404, b'{"detail": "Not Found"}', InfraCause.SERVER_4XX),
        (422, b'{"detail": [{"type": "missing"}]}', InfraCause.SERVER_4XX),
        (429, GOOD_STEP, InfraCause.SERVER_4XX),
        (500, b"Internal Server Error", InfraCause.SERVER_5XX),
        (503, GOOD_STEP, InfraCause.SERVER_5XX),
    ],
)
async def test_promise_02_a_bad_reply_to_a_step_is_a_failure_with_its_cause(status, body, cause):
    with pytest.raises(EnvFailure) as caught:
        await answering(status, body, {"location": "http://elsewhere/step"}).step(1, "inventory")
    assert caught.value.cause is cause
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("failing", ["create", "reset", "observe", "close", "oracle"])
@pytest.mark.parametrize("body", [b'{"error": "CUDA out of memory"}', b"false", b"5", b"[]", b'{"id": true}', b'{"id": ""}', b'{"actions": [1]}'])
async def test_every_other_call_fails_as_loudly(failing, body):
    call = getattr(answering(200, body), failing)
    with pytest.raises(EnvFailure) as caught:
        await call(*{"create": (), "reset": (1, 0)}.get(failing, (1,)))
    assert caught.value.cause in (InfraCause.REPORTED_ERROR, InfraCause.PROTOCOL)


async def test_a_good_reply_is_read_whole():
    assert await answering(200, GOOD_STEP).step(1, "get 1 stick") == StepReply(observation="Got 1 stick", reward=0.0, done=False)
    assert await answering(200, b'"You hold nothing"').observe(1) == "You hold nothing"
    assert await answering(200, b"true").close(1) is None
    assert await answering(200, b'{"actions": ["get 1 stick", "inventory"]}').oracle(1) == ("get 1 stick", "inventory")


async def test_the_first_session_id_may_be_zero():
    assert await answering(200, b'{"id": 0}').create() == 0


@pytest.mark.parametrize("text", ["\x1b]0;owned\x07", "<script>", "'; drop table turns; --", "\u202eevil", "\x00"])
async def test_promise_11_hostile_text_is_passed_on_as_data_and_quoted_in_messages(text):
    body = httpx.Response(200, json={"observation": text, "reward": 0, "done": False}).content
    assert (await answering(200, body).step(1, "x")).observation == text
    with pytest.raises(EnvFailure) as caught:
        await answering(500, text.encode()).step(1, "x")
    assert str(caught.value).isprintable()


async def test_what_is_sent_is_what_the_dialect_says():
    sent: list[tuple[str, str, bytes]] = []

    def handler(request: httpx.Request) -> httpx.Response:
        sent.append((request.method, str(request.url), request.content))
        return httpx.Response(200, json={"id": 7, "observation": "o", "reward": 0, "done": False, "actions": []})

    server = endpoint(handler)
    await server.create()
    await server.reset(7, 3)
    await server.step(7, 'say "é\n"')
    await server.oracle(7)
    assert sent == [
        ("POST", "http://toy/create", b"{}"),
        ("POST", "http://toy/reset", b'{"id":7,"data_idx":3}'),
        ("POST", "http://toy/step", '{"id":7,"action":"say \\"é\\n\\""}'.encode()),
        ("GET", "http://toy/oracle?id=7", b""),
    ]


async def test_an_action_that_is_no_unicode_reaches_the_world_with_a_question_mark():
    sent: list[bytes] = []

    def handler(request: httpx.Request) -> httpx.Response:
        sent.append(request.content)
        return httpx.Response(200, content=GOOD_STEP)

    await endpoint(handler).step(1, "get \ud800")
    assert sent == [b'{"id":1,"action":"get ?"}']


async def test_a_token_is_sent_as_bearer_and_named_in_no_message():
    seen: list[str | None] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("authorization"))
        return httpx.Response(500)

    for token in ("secret", None):
        with pytest.raises(EnvFailure) as caught:
            await endpoint(handler, token=token).create()
        assert "secret" not in str(caught.value)
    assert seen == ["Bearer secret", None]


async def test_a_redirect_is_not_followed():
    asked: list[str] = []

    def handler(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        return httpx.Response(302, headers={"location": "http://elsewhere/"})

    for http in (
        build_http(transport=httpx.MockTransport(handler)),
        httpx.AsyncClient(transport=httpx.MockTransport(handler), follow_redirects=True),
    ):
        with pytest.raises(EnvFailure) as caught:
            await Endpoint(http, TEXTCRAFT, "http://toy", call_seconds=1).create()
        assert caught.value.cause is InfraCause.PROTOCOL
    assert asked == ["http://toy/create", "http://toy/create"]


async def test_a_failure_survives_pickling():
    with pytest.raises(EnvFailure) as caught:
        await answering(500, b"oops").create()
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.cause, copy.message, copy.hint) == (InfraCause.SERVER_5XX, caught.value.message, caught.value.hint)


@pytest.mark.parametrize("text", ["http://127.0.0.1:36001", "https://envs.example/maze/", "http://[::1]:8000"])
def test_addresses_of_servers_are_taken_without_their_last_slash(text):
    assert base_url(text) == text.rstrip("/")


@pytest.mark.parametrize(
    "text", ["", "127.0.0.1:36001", "ftp://host", "http://", "http://user:word@host", "http://host/?a=b", "http://host:x1/", "file:///etc"]
)
def test_promise_08_what_is_no_address_is_refused(text):
    with pytest.raises(RecipeError, match="expected http://HOST:PORT"):
        base_url(text)


async def test_an_oracle_may_take_the_time_that_its_dialect_gives_it_and_no_other_call_does(monkeypatch):
    given: dict[str, float] = {}

    async def exchange(http: httpx.AsyncClient, call: Call, *, seconds: float) -> RawReply:
        given[call.target.url.path] = seconds
        return RawReply(200, b'{"actions": [], "observation": "x", "score": 0, "reward": 0, "done": false}')

    monkeypatch.setattr(endpoint_module, "exchange", exchange)
    for dialect, call_seconds, oracle_seconds in (("sciworld", 1, 300), ("sciworld", 1000, 1000), ("textcraft", 1, 1)):
        server = Endpoint(build_http(transport=httpx.MockTransport(lambda _: None)), load_dialect(dialect), "http://toy", call_seconds=call_seconds)
        await server.oracle(1)
        await server.step(1, "look around")
        assert given == {"/oracle": oracle_seconds, "/step": call_seconds}
