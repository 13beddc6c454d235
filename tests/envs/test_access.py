"""Who may call: tokens over the wire and on the command line, and addresses that other machines reach."""

from __future__ import annotations

import httpx
import pytest

from agentgym_envs.access import AccessError, Token, require_private, token_from
from agentgym_envs.serve import serve
from tests.envs.servers import client_of

SECRET = "t0ken-of-this-test"


def bearing(text: str) -> dict[str, str]:
    return {"authorization": text}


async def test_without_the_token_nothing_is_answered_and_nothing_is_done() -> None:
    async with client_of(token=Token(SECRET)) as client:
        for wrong in (
            {},
            bearing(SECRET),
            bearing(f"Bearer {SECRET}x"),
            bearing(f"Bearer {SECRET[:-1]}"),
            bearing("Bearer "),
            bearing(f"Basic {SECRET}"),
        ):
            for reply in (await client.get("/", headers=wrong), await client.post("/create", json={}, headers=wrong)):
                assert (reply.status_code, reply.json(), reply.headers["www-authenticate"]) == (401, {"detail": "Not authenticated"}, "Bearer")
            assert (await client.get("/metrics", headers=wrong)).status_code == 401
            assert (await client.get("/nowhere", headers=wrong)).status_code == 401
        created = await client.post("/create", json={}, headers=bearing(f"Bearer {SECRET}"))
        again = await client.post("/create", json={}, headers=bearing(f"bearer  {SECRET}"))
    assert (created.json()["id"], again.json()["id"]) == (0, 1)


def test_a_token_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_TOKEN", SECRET)
    assert token_from("WORLD_TOKEN").admits([(b"host", b"x"), (b"authorization", f"Bearer {SECRET}".encode())])
    assert SECRET not in repr(token_from("WORLD_TOKEN"))


@pytest.mark.parametrize("text", ["", "two words", "ünïcode", "line\nfeed"])
def test_a_token_that_no_header_can_carry_is_refused_and_not_shown(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_TOKEN", text)
    with pytest.raises(AccessError) as refused:
        token_from("WORLD_TOKEN")
    assert str(refused.value.args[0]).startswith("--token-variable WORLD_TOKEN: expected a token in that environment variable, got ")
    assert not text or text not in str(refused.value.args)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_an_address_that_other_machines_reach_needs_a_token(host: str) -> None:
    with pytest.raises(AccessError, match="expected a token beside an address that other machines reach"):
        require_private(host, None)
    require_private(host, Token(SECRET))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "localhost"])
def test_this_machine_alone_needs_none(host: str) -> None:
    require_private(host, None)


def test_serving_to_everybody_without_a_token_is_refused_with_exit_code_2(capfd: pytest.CaptureFixture[str]) -> None:
    assert serve(["textcraft", "--host", "0.0.0.0", "--port", "0"]) == 2
    assert capfd.readouterr().err == (
        "error: --host 0.0.0.0: expected a token beside an address that other machines reach, got none\n"
        "hint: put a secret in an environment variable and name it with --token-variable, or leave --host out\n"
    )


def test_a_variable_that_is_not_set_is_refused_with_exit_code_2(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_TOKEN", raising=False)
    assert serve(["textcraft", "--port", "0", "--token-variable", "WORLD_TOKEN"]) == 2
    assert capfd.readouterr().err == (
        "error: --token-variable WORLD_TOKEN: expected a token in that environment variable, got nothing\nhint: export WORLD_TOKEN=...\n"
    )


def test_a_token_given_in_place_of_a_name_is_refused_without_being_shown(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        serve(["textcraft", "--token-variable", SECRET])
    assert exit_.value.code == 2
    err = capfd.readouterr().err
    assert "expected the NAME of an environment variable" in err
    assert SECRET not in err


async def test_a_refused_request_is_not_read() -> None:
    async def endless():  # type: ignore[no-untyped-def]
        raise AssertionError("the body was asked for")
        yield b""

    async with client_of(token=Token(SECRET)) as client:
        assert isinstance(client, httpx.AsyncClient)
        assert (await client.post("/step", content=endless())).status_code == 401
