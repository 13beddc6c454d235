"""package_prep over its wire: the routes, and a status of its own for every refusal."""

from __future__ import annotations

import httpx
import pytest

from agentgym_envs.package_prep.world import PackagePrep
from tests.envs.servers import answered, client_of

ACTIONS = ["inspect mug", "take mug", "take bubble wrap", "pack mug in bubble wrap", "verify", "dispatch"]


async def status(client: httpx.AsyncClient, path: str, **body: object) -> tuple[int, object]:
    reply = await client.post(path, json=body)
    return reply.status_code, reply.json()


async def test_an_episode_over_the_wire_is_judged_by_the_verifier() -> None:
    async with client_of(PackagePrep(), oracle=True) as client:
        assert (await client.get("/")).json() == {"world": "package_prep", "tasks": 120}
        assert await answered(client, "/create") == {"session": 0}
        prompt = await answered(client, "/reset", session=0, task=0)
        assert (await client.get("/observation?session=0")).json() == prompt
        assert (await client.get("/goal?session=0")).json() == {"goal": "ship the mug to Eastmere"}
        assert (await client.get("/oracle?session=0")).json() == {"actions": ACTIONS}
        for action in ACTIONS:
            assert (await client.get("/verify?session=0")).json() == {"success": False}
            last = await answered(client, "/step", session=0, action=action)
        assert last == {"observation": "The carrier takes the package to Eastmere.", "reward": 1, "done": True}
        assert (await client.get("/verify?session=0")).json() == {"success": True}
        assert await answered(client, "/close", session=0) == {"closed": True}


async def test_saying_that_the_mug_was_shipped_does_not_ship_it() -> None:
    async with client_of(PackagePrep()) as client:
        await answered(client, "/create")
        await answered(client, "/reset", session=0, task=0)
        reply = await answered(client, "/step", session=0, action="I shipped the mug")
        assert (reply["reward"], reply["done"]) == (0, False)  # type: ignore[index]
        assert (await client.get("/verify?session=0")).json() == {"success": False}


async def test_every_refusal_has_a_status_of_its_own() -> None:
    async with client_of(PackagePrep(), max_sessions=1) as client:
        await answered(client, "/create")
        assert (await status(client, "/create"))[0] == 503
        before = (409, {"error": "The session has no task. Reset it first."})
        assert await status(client, "/step", session=0, action="verify") == before
        assert (await client.get("/verify?session=0")).status_code == 409
        assert (await client.get("/observation?session=0")).status_code == 409
        assert await status(client, "/reset", session=0, task=120) == (409, {"error": "The task 120 is out of range: expected 0 to 119."})
        assert await status(client, "/step", session=7, action="verify") == (404, {"error": "The id 7 is not valid."})
        assert await status(client, "/close", session=7) == (404, {"error": "The id 7 is not valid."})
        assert (await client.get("/oracle?session=0")).status_code == 404
        assert (await status(client, "/close", session=0))[0] == 200
        assert (await status(client, "/close", session=0))[0] == 404


@pytest.mark.parametrize(
    "body", [{"session": "0", "action": "verify"}, {"session": 0.0, "action": "verify"}, {"session": 0, "action": 5}, {"session": 0}]
)
async def test_nothing_is_coerced(body: dict[str, object]) -> None:
    async with client_of(PackagePrep()) as client:
        await answered(client, "/create")
        assert (await client.post("/step", json=body)).status_code == 422
