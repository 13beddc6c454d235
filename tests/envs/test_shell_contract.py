"""The wire contract: replies, refusals and 422 bodies as upstream's server gave them to the same requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from agentgym_envs.app import MOST_BYTES
from tests.envs.servers import answered, client_of

LAMP = 3
"""Task of the tiny book whose listing has two lines."""


async def test_the_greeting_is_upstreams() -> None:
    async with client_of() as client:
        reply = await client.get("/")
    assert (reply.status_code, reply.headers["content-type"], reply.json()) == (200, "application/json", "This is environment TextCraft.")


async def test_create_numbers_sessions_from_zero_and_starts_the_task_of_that_number() -> None:
    async with client_of() as client:
        replies = [await answered(client, "/create") for _ in range(7)]
        prompts = [(await answered(client, "/reset", id=0, data_idx=index))["observation"] for index in range(5)]  # type: ignore[index]
    assert replies == [{"id": number, "observation": prompts[number % 5], "done": False, "reward": 0} for number in range(7)]


async def test_ids_are_never_used_again() -> None:
    async with client_of() as client:
        await answered(client, "/create")
        assert await answered(client, "/close", id=0) is True
        assert (await answered(client, "/create"))["id"] == 1  # type: ignore[index]


async def test_commands_and_goal_given_to_create_have_no_effect() -> None:
    async with client_of() as client:
        plain = await answered(client, "/create")
        await answered(client, "/close", id=0)
    async with client_of() as client:
        assert await answered(client, "/create", commands="craft 1 a using 1 b", goal="minecraft:a", minecraft_dir="x/") == plain


async def test_an_episode_over_the_wire() -> None:
    async with client_of() as client:
        await answered(client, "/create")
        assert await answered(client, "/step", id=0, action="get 3 flax") == {"observation": "Got 3 flax", "reward": 0, "done": False}
        assert await answered(client, "/step", id=0, action="craft 2 rope using 3 flax") == {
            "observation": "Crafted 2 rope",
            "reward": 1,
            "done": True,
        }
        assert await answered(client, "/step", id=0, action="inventory") == {"error": "The task has finished. Reset the session to start a task."}
        assert (await client.get("/detail", params={"id": 0})).json() == {
            "observation": "Crafted 2 rope",
            "done": True,
            "reward": 1,
            "deleted": False,
        }
        assert (await client.get("/observation", params={"id": 0})).json() == "Crafted 2 rope"
        await answered(client, "/reset", id=0, data_idx=0)
        assert (await client.get("/detail", params={"id": 0})).json()["done"] is False


async def test_observation_is_a_bare_string_and_detail_an_object() -> None:
    async with client_of() as client:
        prompt = (await answered(client, "/create"))["observation"]  # type: ignore[index]
        assert (await client.get("/observation?id=0")).json() == prompt
        assert (await client.get("/detail?id=0")).json() == {"observation": prompt, "done": False, "reward": 0, "deleted": False}


async def test_mended_goal_and_commands_answer() -> None:
    async with client_of() as client:
        await answered(client, "/create")
        await answered(client, "/reset", id=0, data_idx=LAMP)
        assert (await client.get("/goal?id=0")).json() == "lamp"
        assert sorted((await client.get("/commands?id=0")).json().split("\n")) == ["craft 1 lamp using 1 tin, 1 oil", "craft 1 lamp using 2 wax"]


async def test_the_oracle_answers_only_where_it_was_asked_for() -> None:
    async with client_of() as client:
        await answered(client, "/create")
        reply = await client.get("/oracle?id=0")
        assert (reply.status_code, reply.json()) == (404, {"detail": "Not Found"})
    async with client_of(oracle=True) as client:
        await answered(client, "/create")
        assert (await client.get("/oracle?id=0")).json() == {"actions": ["get 3 flax", "craft 2 rope using 3 flax"]}
        assert (await client.get("/oracle?id=7")).json() == {"error": "The id 7 is not valid."}


async def test_an_id_that_is_not_open_is_refused_with_http_200() -> None:
    refusal = {"error": "The id 99 is not valid."}
    async with client_of() as client:
        assert await answered(client, "/step", id=99, action="inventory") == refusal
        assert await answered(client, "/reset", id=99, data_idx=0) == refusal
        for path in ("/observation", "/detail", "/goal", "/commands"):
            reply = await client.get(path, params={"id": 99})
            assert (reply.status_code, reply.json()) == (200, refusal)
        assert await answered(client, "/close", id=99) is False


async def test_a_closed_session_is_not_valid_and_a_second_close_is_false() -> None:
    async with client_of() as client:
        await answered(client, "/create")
        assert await answered(client, "/close", id=0) is True
        assert await answered(client, "/close", id=0) is False
        assert await answered(client, "/step", id=0, action="inventory") == {"error": "The id 0 is not valid."}
        assert await answered(client, "/reset", id=0, data_idx=0) == {"error": "The id 0 is not valid."}


async def test_numbers_are_coerced_as_upstream_does() -> None:
    async with client_of() as client:
        for _ in range(2):
            await answered(client, "/create")
        first, fourth = [await answered(client, "/reset", id=1, data_idx=index) for index in (1, 3)]
        assert await answered(client, "/reset", id="1", data_idx="3") == fourth
        assert await answered(client, "/reset", id=1.0, data_idx=3.0) == fourth
        assert await answered(client, "/reset", id=True, data_idx=True) == first
        assert await answered(client, "/reset", id=1) == await answered(client, "/reset", id=1, data_idx=0)


async def test_mended_a_task_number_that_is_null_or_beyond_the_range_is_refused_in_words() -> None:
    async with client_of() as client:
        await answered(client, "/create")
        assert await answered(client, "/reset", id=0, data_idx=None) == {"error": "The data_idx null is not valid: expected an integer."}
        assert await answered(client, "/reset", id=0, data_idx=5) == {"error": "The data_idx 5 is out of range: expected 0 to 4."}
        assert await answered(client, "/reset", id=0, data_idx="9" * 60) == {"error": f"The data_idx {'9' * 40} is out of range: expected 0 to 4."}


INT_PARSING = "Input should be a valid integer, unable to parse string as an integer"


@pytest.mark.parametrize(
    ("path", "body", "detail"),
    [
        ("/create", b"", {"type": "missing", "loc": ["body"], "msg": "Field required", "input": None}),
        ("/create", b"null", {"type": "missing", "loc": ["body"], "msg": "Field required", "input": None}),
        (
            "/create",
            b"{bad json",
            {
                "type": "json_invalid",
                "loc": ["body", 1],
                "msg": "JSON decode error",
                "input": {},
                "ctx": {"error": "Expecting property name enclosed in double quotes"},
            },
        ),
        ("/create", b'{"goal": 5}', {"type": "string_type", "loc": ["body", "goal"], "msg": "Input should be a valid string", "input": 5}),
        ("/reset", b"{}", {"type": "missing", "loc": ["body", "id"], "msg": "Field required", "input": {}}),
        (
            "/reset",
            b'{"id": 1, "data_idx": 3.5}',
            {
                "type": "int_from_float",
                "loc": ["body", "data_idx"],
                "msg": "Input should be a valid integer, got a number with a fractional part",
                "input": 3.5,
            },
        ),
        ("/step", b'{"id": 1}', {"type": "missing", "loc": ["body", "action"], "msg": "Field required", "input": {"id": 1}}),
        ("/step", b'{"id": "one", "action": ""}', {"type": "int_parsing", "loc": ["body", "id"], "msg": INT_PARSING, "input": "one"}),
        (
            "/step",
            b'{"id": 1, "action": null}',
            {"type": "string_type", "loc": ["body", "action"], "msg": "Input should be a valid string", "input": None},
        ),
        ("/close", b"{}", {"type": "missing", "loc": ["body", "id"], "msg": "Field required", "input": {}}),
        (
            "/close",
            b"[1]",
            {
                "type": "model_attributes_type",
                "loc": ["body"],
                "msg": "Input should be a valid dictionary or object to extract fields from",
                "input": [1],
            },
        ),
    ],
)
async def test_a_body_that_is_not_understood_is_answered_as_upstream_does(path: str, body: bytes, detail: object) -> None:
    async with client_of() as client:
        reply = await client.post(path, content=body)
    assert (reply.status_code, reply.json()) == (422, {"detail": [detail]})


async def test_every_wrong_field_is_named() -> None:
    async with client_of() as client:
        detail = (await client.post("/create", json={"commands": 5, "goal": ["x"]})).json()["detail"]
    assert [(error["loc"], error["input"]) for error in detail] == [(["body", "commands"], 5), (["body", "goal"], ["x"])]


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ("", {"type": "missing", "loc": ["query", "id"], "msg": "Field required", "input": None}),
        ("?id=abc", {"type": "int_parsing", "loc": ["query", "id"], "msg": INT_PARSING, "input": "abc"}),
    ],
)
async def test_a_query_without_an_id_is_answered_as_upstream_does(query: str, detail: object) -> None:
    async with client_of(oracle=True) as client:
        for path in ("/observation", "/detail", "/goal", "/commands", "/oracle"):
            reply = await client.get(path + query)
            assert (reply.status_code, reply.json()) == (422, {"detail": [detail]})


async def test_unknown_paths_and_methods_are_answered_in_json() -> None:
    async with client_of() as client:
        replies = [await client.get("/step"), await client.get("/create"), await client.post("/nope", json={})]
    assert [(reply.status_code, reply.json()) for reply in replies] == [
        (405, {"detail": "Method Not Allowed"}),
        (405, {"detail": "Method Not Allowed"}),
        (404, {"detail": "Not Found"}),
    ]


@pytest.mark.parametrize(
    "body", [b'{"id": NaN}', b'{"id": 0, "action": "\\ud800"}', b"[" * 100_000, b"\xff\xfe", b"[" * 600 + b"]" * 600, b'{"id": ' + b"9" * 5000 + b"}"]
)
async def test_mended_hostile_json_is_a_422_and_never_a_crash(body: bytes) -> None:
    async with client_of() as client:
        reply = await client.post("/step", content=body)
    assert reply.status_code == 422
    assert reply.json()["detail"][0]["loc"][0] == "body"


async def test_mended_a_body_over_the_limit_is_refused_unread() -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 65_536
            yield b" " * 65_536

    async with client_of() as client:
        replies = [await client.post("/step", content=b" " * (MOST_BYTES + 1)), await client.post("/step", content=endless())]
    assert sent < 2 * MOST_BYTES
    assert [(reply.status_code, reply.json()) for reply in replies] == [(413, {"detail": f"The body is longer than {MOST_BYTES} bytes."})] * 2


async def test_an_action_in_other_scripts_or_control_characters_is_echoed_and_no_more() -> None:
    action = "craft \x1b[2J <b>ю𝕏</b> using 1 flax\n'; drop table turns"
    async with client_of() as client:
        await answered(client, "/create")
        assert await answered(client, "/step", id=0, action=action) == {
            "observation": "Could not find enough items to craft \x1b[2J <b>ю𝕏</b>",
            "reward": 0,
            "done": False,
        }


async def test_many_resets_at_once_answer_each_with_its_own_task() -> None:
    async with client_of() as client:
        for _ in range(20):
            await answered(client, "/create")
        alone = [(await answered(client, "/reset", id=0, data_idx=index))["observation"] for index in range(5)]  # type: ignore[index]
        replies = await asyncio.gather(*(answered(client, "/reset", id=number, data_idx=(3 * number) % 5) for number in range(20)))
    assert replies == [{"id": number, "observation": alone[(3 * number) % 5], "done": False, "reward": 0} for number in range(20)]
