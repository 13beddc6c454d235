"""The wire of SearchQA: replies in upstream's form, and refusals by status where upstream crashes."""

from __future__ import annotations

import pytest

from agentgym_cli.env.dialect import load_dialect
from agentgym_envs.app import MOST_BYTES
from tests.envs.questions import tiny_searchqa
from tests.envs.servers import answered, client_of

PROMPTS = ["Question: Who composed The Amber Letter?\nYou may answer once.", "Question: Where was its composer born?\nYou may answer once."]


async def test_an_episode_over_the_wire() -> None:
    async with client_of(tiny_searchqa()) as client:
        assert (await client.get("/")).json() == "ok"
        assert await answered(client, "/create", id=0) == 0
        assert (await client.get("/observation?env_idx=0")).json() == PROMPTS[0]
        assert await answered(client, "/reset", env_idx=0, id=1) == PROMPTS[1]
        assert await answered(client, "/step", env_idx=0, action="<search>born in</search>") == {
            "observation": "<information>\nDoc 1 (Title: Ilva Torsen) Ilva Torsen was born in Korveld.\n</information>",
            "reward": 0.0,
            "done": False,
            "info": None,
        }
        last = await client.post("/step", json={"env_idx": 0, "action": "<answer>Korveld</answer>"})
        assert last.text == (
            '{"observation":"Congratulations! Your answer is correct.","reward":1.0,"done":true,"info":{"exact_match":1.0,"f1":1.0}}'
        )
        assert (await client.get("/observation?env_idx=0")).json() == "Congratulations! Your answer is correct."
        assert await answered(client, "/close", env_idx=0) is True
        assert await answered(client, "/close", env_idx=0) is False


async def test_sessions_are_numbered_from_zero_and_start_the_task_that_create_names() -> None:
    async with client_of(tiny_searchqa()) as client:
        assert [await answered(client, "/create", id=task) for task in (1, 0, 1)] == [0, 1, 2]
        assert [(await client.get("/observation", params={"env_idx": number})).json() for number in range(3)] == [PROMPTS[1], PROMPTS[0], PROMPTS[1]]
        await answered(client, "/close", env_idx=1)
        assert await answered(client, "/create", id=0) == 3


async def test_mended_an_unknown_session_is_http_404_and_not_a_crash() -> None:
    async with client_of(tiny_searchqa(), oracle=True) as client:
        replies = [
            await client.post("/step", json={"env_idx": 7, "action": "x"}),
            await client.post("/reset", json={"env_idx": 7, "id": 0}),
            *[await client.get(path, params={"env_idx": 7}) for path in ("/observation", "/metadata", "/oracle")],
        ]
    assert [(reply.status_code, reply.json()) for reply in replies] == [(404, {"error": "The id 7 is not valid."})] * 5


async def test_mended_a_question_that_is_not_there_is_http_409_and_uses_up_no_room() -> None:
    async with client_of(tiny_searchqa(), max_sessions=1) as client:
        for task in (2, -1):
            reply = await client.post("/create", json={"id": task})
            assert (reply.status_code, reply.json()) == (409, {"error": f"The id {task} is out of range: expected 0 to 1."})
        number = await answered(client, "/create", id=0)
        assert number == 2
        for task, why in ((2, "The id 2 is out of range: expected 0 to 1."), (None, "The id null is not valid: expected an integer.")):
            reply = await client.post("/reset", json={"env_idx": number, "id": task})
            assert (reply.status_code, reply.json()) == (409, {"error": why})
        assert (await client.get("/observation", params={"env_idx": number})).json() == PROMPTS[0]


async def test_mended_a_step_after_done_is_http_409() -> None:
    async with client_of(tiny_searchqa()) as client:
        await answered(client, "/create", id=1)
        await answered(client, "/step", env_idx=0, action="<answer>Oslo</answer>")
        reply = await client.post("/step", json={"env_idx": 0, "action": "<answer>Korveld</answer>"})
        assert (reply.status_code, reply.json()) == (409, {"error": "The task has finished. Reset the session to start a task."})


async def test_mended_a_full_server_is_http_503_until_a_session_closes() -> None:
    async with client_of(tiny_searchqa(), max_sessions=2) as client:
        for _ in range(2):
            await answered(client, "/create", id=0)
        assert (await client.post("/create", json={"id": 0})).status_code == 503
        await answered(client, "/close", env_idx=0)
        assert await answered(client, "/create", id=0) == 2


async def test_a_hundred_creates_without_close_are_a_hundred_sessions() -> None:
    async with client_of(tiny_searchqa()) as client:
        assert [await answered(client, "/create", id=number % 2) for number in range(100)] == list(range(100))


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/create", {}),
        ("/create", {"id": None}),
        ("/create", {"id": "one"}),
        ("/reset", {"id": 0}),
        ("/step", {"env_idx": 0}),
        ("/step", {"env_idx": 0, "action": None}),
        ("/step", {"env_idx": 0, "action": ["<answer>"]}),
        ("/close", {}),
    ],
)
async def test_a_body_of_other_fields_or_types_is_http_422(path: str, body: dict[str, object]) -> None:
    async with client_of(tiny_searchqa()) as client:
        await answered(client, "/create", id=0)
        assert (await client.post(path, json=body)).status_code == 422


async def test_mended_a_body_over_the_limit_is_refused_and_an_action_of_a_megabyte_is_called_invalid() -> None:
    async with client_of(tiny_searchqa()) as client:
        await answered(client, "/create", id=1)
        reply = await client.post("/step", json={"env_idx": 0, "action": "x" * MOST_BYTES})
        assert reply.status_code == 413
        reply = await client.post("/step", json={"env_idx": 0, "action": "<search>" * 130_000})
        assert reply.json()["observation"] == "Your previous action is invalid: it is longer than 100000 characters."
        assert (await answered(client, "/step", env_idx=0, action="<answer>Korveld</answer>"))["reward"] == 1.0  # type: ignore[index]


async def test_metadata_names_the_guesses_the_corpus_and_the_questions() -> None:
    async with client_of(tiny_searchqa(unlimited_guesses=True)) as client:
        await answered(client, "/create", id=1)
        assert (await client.get("/metadata?env_idx=0")).json() == {
            "id": "q1",
            "category": "two hops",
            "questions": "d" * 64,
            "corpus": "c" * 64,
            "unlimited_guesses": True,
        }


async def test_the_oracle_answers_only_where_it_was_asked_for() -> None:
    async with client_of(tiny_searchqa()) as client:
        await answered(client, "/create", id=1)
        assert (await client.get("/oracle?env_idx=0")).status_code == 404
    async with client_of(tiny_searchqa(), oracle=True) as client:
        await answered(client, "/create", id=1)
        assert (await client.get("/oracle?env_idx=0")).json() == {
            "actions": ["<search>Amber Letter</search>", "<search>Ilva Torsen</search>", "<answer>Korveld</answer>"]
        }


async def test_the_dialect_finds_the_question_and_knows_an_invalid_action() -> None:
    spec = load_dialect("searchqa").spec
    async with client_of(tiny_searchqa()) as client:
        await answered(client, "/create", id=1)
        reply = await client.post("/step", json={"env_idx": 0, "action": "get 1 flax"})
    assert spec.goal_in(PROMPTS[1]) == "Where was its composer born?"
    assert spec.says_invalid(reply.json()["observation"])
