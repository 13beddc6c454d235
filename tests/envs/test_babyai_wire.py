"""BabyAI over its wire: AgentGym's replies, recorded, and what is refused; a whole server under the full probe."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from agentgym_cli.env.dialect import load_dialect
from agentgym_cli.env.launch import launch
from agentgym_cli.env.probe import probe
from agentgym_envs.app import MOST_BYTES
from agentgym_envs.babyai.world import BabyAI
from tests.envs.servers import answered, client_of

pytestmark = pytest.mark.worlds

RECORDED = json.loads(Path(__file__).parents[1].joinpath("env/data/babyai_upstream.json").read_text(encoding="utf-8"))
MENDED = {
    '{"error":"0"}': {"error": "The session has no task. Reset it first."},
    '{"error":"Seed must be greater or equal to zero, actual value: -1"}': {"error": "The data_idx -1 is out of range: expected 0 to 3999999."},
}
"""From a reply of AgentGym's server to ours, where they differ."""
TINY = 3


async def test_every_recorded_reply_of_agentgyms_server_is_ours_too() -> None:
    async with client_of(BabyAI()) as client:
        for call in RECORDED:
            reply = await client.request(call["method"], call["path"], content=call["body"] or None)
            expected = MENDED.get(call["reply"], json.loads(call["reply"]))
            assert (reply.status_code, reply.json()) == (call["status"], expected), call


async def test_rewards_and_fields_are_written_as_agentgym_writes_them() -> None:
    async with client_of(BabyAI()) as client:
        await answered(client, "/create")
        first = await client.post("/reset", json={"id": 0, "data_idx": TINY})
        assert list(first.json()) == ["observation", "reward", "score", "deleted", "done"]
        assert '"reward":0,"score":0,"deleted":false,"done":false}' in first.text
        assert '"reward":0,"score":0,"done":false}' in (await client.post("/step", json={"id": 0, "action": "turn left"})).text
        await client.post("/step", json={"id": 0, "action": "turn right"})
        last = await client.post("/step", json={"id": 0, "action": "go to blue key 1"})
        # Four moves of 16.
        assert '"reward":0.775,"score":0.775,"done":true}' in last.text


async def test_mended_after_done_the_last_observation_and_the_picture_can_be_had() -> None:
    async with client_of(BabyAI()) as client:
        await answered(client, "/create")
        await answered(client, "/reset", id=0, data_idx=TINY)
        last = await answered(client, "/step", id=0, action="go to blue key 1")
        assert await answered(client, "/step", id=0, action="turn left") == {"error": "The task with environment 0 has finished."}
        shown = (await client.get("/observation?id=0")).json()
        assert shown == {**last, "observation": "Your goal: go to the blue key\n" + last["observation"], "deleted": False}  # type: ignore[dict-item, index]
        assert str(await answered(client, "/render", id=0)).startswith("data:image/png;base64,")


async def test_mended_a_session_that_was_never_reset_is_closed() -> None:
    async with client_of(BabyAI(), max_sessions=1) as client:
        for number in range(3):
            assert await answered(client, "/create") == {"id": number}
            assert await answered(client, "/close", id=number) is True
            assert await answered(client, "/close", id=number) is False


async def test_mended_looking_before_the_first_reset_is_refused_in_words() -> None:
    async with client_of(BabyAI(), oracle=True) as client:
        await answered(client, "/create")
        refused = {"error": "The session has no task. Reset it first."}
        assert await answered(client, "/render", id=0) == refused
        assert (await client.get("/oracle?id=0")).json() == refused


async def test_the_oracle_is_there_where_it_was_asked_for() -> None:
    async with client_of(BabyAI(), oracle=True) as client:
        await answered(client, "/create")
        await answered(client, "/reset", id=0, data_idx=TINY)
        assert (await client.get("/oracle?id=0")).json() == {"actions": ["go to blue key 1"]}
        await answered(client, "/reset", id=0, data_idx=25)
        assert "Nobody knows" in (await client.get("/oracle?id=0")).json()["error"]
    async with client_of(BabyAI()) as client:
        await answered(client, "/create")
        assert (await client.get("/oracle?id=0")).status_code == 404


@pytest.mark.parametrize("body", [{"id": 0}, {"id": 0, "data_idx": None}, {"id": 0, "data_idx": "one"}, {"data_idx": 0}])
async def test_a_reset_without_a_task_number_is_http_422(body: dict[str, object]) -> None:
    async with client_of(BabyAI()) as client:
        await answered(client, "/create")
        assert (await client.post("/reset", json=body)).status_code == 422


async def test_actions_that_are_huge_or_hostile_are_ordinary_steps() -> None:
    async with client_of(BabyAI()) as client:
        await answered(client, "/create")
        await answered(client, "/reset", id=0, data_idx=TINY)
        for action in ("a" * (MOST_BYTES - 100), "\x00\x1b]0;x\x07", "craft 1 stick using 1 stone", "<answer>left</answer>"):
            reply = await answered(client, "/step", id=0, action=action)
            assert str(reply["observation"]).startswith("The action is not recognized.")  # type: ignore[index]
        assert (await client.post("/step", json={"id": 0, "action": "a" * MOST_BYTES})).status_code == 413


async def test_sessions_that_are_played_at_once_answer_as_alone() -> None:
    actions = ["turn left", "move forward", "turn right", "check available actions"]

    async def play(task: int) -> list[object]:
        number = (await answered(client, "/create"))["id"]  # type: ignore[index]
        said = [await answered(client, "/reset", id=number, data_idx=task)]
        return said + [await answered(client, "/step", id=number, action=action) for action in actions]

    async with client_of(BabyAI()) as client:
        alone = [await play(task) for task in range(40)]
        assert await asyncio.gather(*map(play, range(40))) == alone


@pytest.mark.slow
async def test_a_server_passes_every_check_of_the_full_probe_that_applies() -> None:
    async with launch("babyai", oracle=True, start_seconds=120) as urls:
        report = await probe(urls, load_dialect("babyai"), size=BabyAI().task_count, level="full")
    others = {check.name: check.result for server in report.servers for check in server.checks if check.result != "pass"}
    assert others == {"content": "n/a", "replicas": "n/a", "hostile_text": "n/a"}
