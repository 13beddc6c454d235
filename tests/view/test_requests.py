"""Who is answered: this machine, with the token, from no other page, and only to read."""

from __future__ import annotations

import httpx
import pytest

from agentgym_cli.view.requests import POLICY, Answer, Gate
from tests.view.conftest import PORT, TOKEN, Reader


@pytest.mark.slow
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"])
def test_nothing_but_reading_is_answered(read: Reader, method: str) -> None:
    page = read("", method=method)
    assert (page.status, page.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:4321", "127.0.0.1", "127.0.0.1:1", "127.0.0.1.evil.example:4321", "", "[::1]:4321"])
def test_a_name_turned_against_this_machine_is_refused(read: Reader, host: str) -> None:
    assert read("", host=host).status == 403


@pytest.mark.parametrize("host", ["127.0.0.1:4321", "localhost:4321", "LocalHost:4321"])
def test_this_machine_is_answered(read: Reader, host: str) -> None:
    assert read("", host=host).status == 200


def test_two_host_headers_are_refused() -> None:
    twice = [(b"host", b"127.0.0.1:4321"), (b"host", b"evil.example")]
    assert isinstance(Gate(token=TOKEN, port=PORT).refuse("GET", twice), Answer)


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1", "http://localhost:4321.evil.example"])
def test_another_origin_is_refused(read: Reader, origin: str) -> None:
    assert read("state.json", origin=origin).status == 403


@pytest.mark.parametrize("name", ["host", "origin", "sec-fetch-site", "sec-fetch-mode"])
def test_a_header_that_decides_is_refused_when_it_comes_twice(name: str) -> None:
    good = {"host": f"127.0.0.1:{PORT}", "origin": f"http://127.0.0.1:{PORT}", "sec-fetch-site": "same-origin", "sec-fetch-mode": "cors"}
    once = [(each.encode(), value.encode()) for each, value in good.items()]
    gate = Gate(token=TOKEN, port=PORT)
    assert gate.refuse("GET", once) is None
    for first in ([(name.encode(), b"http://evil.example")], [(name.encode(), good[name].encode())]):
        refusal = gate.refuse("GET", [*first, *once])
        assert refusal is not None and refusal.status == 400


def test_the_own_origin_is_answered(read: Reader) -> None:
    assert read("state.json", origin="http://127.0.0.1:4321").status == 200


def test_a_fetch_of_another_site_is_refused_and_a_link_is_not(read: Reader) -> None:
    assert read("state.json", sec_fetch_site="cross-site", sec_fetch_mode="no-cors").status == 403
    assert read("state.json", sec_fetch_site="same-site", sec_fetch_mode="cors").status == 403
    assert read("", sec_fetch_site="cross-site", sec_fetch_mode="navigate").status == 200


@pytest.mark.parametrize("token", ["", "secret-toke", "secret-token2", "SECRET-TOKEN", "..", "\u00e9"])
def test_without_the_token_there_is_nothing(read: Reader, token: str) -> None:
    page = read("static/viewer.css", token=token)
    assert (page.status, "secret" in page.text) == (404, False)


@pytest.mark.parametrize("name", ["../app.py", "viewer.css/../../app.py", "..%2fapp.py", "", "viewer.css\0", "/etc/passwd", "app.py"])
def test_promise_11_no_path_leaves_the_files_of_the_page(read: Reader, name: str) -> None:
    assert read(f"static/{name}").status == 404


@pytest.mark.parametrize("path", ["", "run?run=a", "episodes?run=a", "nothing", "static/viewer.js", "run?run=zzz"])
def test_every_answer_forbids_what_the_page_does_not_need(read: Reader, path: str) -> None:
    headers = read(*path.partition("?")[::2]).headers
    assert headers["content-security-policy"] == POLICY
    assert {name: headers[name] for name in ("x-content-type-options", "referrer-policy", "x-frame-options", "cache-control")} == {
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "x-frame-options": "DENY",
        "cache-control": "no-store",
    }


def test_the_policy_lets_no_inline_script_or_style_and_no_other_host_in() -> None:
    assert "unsafe" not in POLICY and "http" not in POLICY and "*" not in POLICY
    assert POLICY.startswith("default-src 'none'")


async def test_a_head_says_what_a_get_would_without_a_body(read: Reader) -> None:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=read.viewer), base_url=f"http://127.0.0.1:{PORT}/{TOKEN}/") as client:
        got, head = await client.get("episodes?run=a"), await client.head("episodes?run=a")
        streamed = await client.get("export.json?run=a&episode=eval/test/0/textcraft_3/0")
    assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", str(len(got.content)))
    assert streamed.json()[0]["item_id"] == "textcraft_3"
