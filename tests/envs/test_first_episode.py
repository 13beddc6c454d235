"""The first episode of the documentation is what the world does: every action on the page is played, and every reply and state compared."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

from agentgym_cli.env.dialect import load_dialect
from agentgym_cli.episode.actions import read_action
from agentgym_envs.package_prep.state import State
from agentgym_envs.package_prep.world import PackagePrep
from tests.envs.servers import answered, client_of

HOUSE = Path(__file__).parents[2]
PAGE = (HOUSE / "docs/first-episode.md").read_text(encoding="utf-8")
TASK = 96


def block(name: str) -> list[str]:
    """The lines of the page's block of this name."""
    found = re.search(rf"<!-- {name} -->\n```text\n(.*?)\n```\n<!-- end -->", PAGE, re.DOTALL)
    assert found is not None, name
    return found[1].split("\n")


def state_line(state: State) -> str:
    """The hidden state as the page shows it."""
    hands = ", ".join(sorted(state.hands)) or "empty"
    package = ", ".join(f"{thing} in {material}" for thing, material in state.package.items()) or "empty"
    return f"hands: {hands}; package: {package}; changes: {state.changes}, checked at: {state.checked_at}; shipped: {state.shipped is not None}"


def test_the_first_observation_is_the_worlds() -> None:
    assert "\n".join(block("observation")) == PackagePrep().open().reset(TASK).observation


def test_what_the_model_says_is_read_as_the_page_says() -> None:
    parsed = read_action("\n".join(block("said")), load_dialect("package_prep").rules().actions["react"])
    assert ([parsed.action], parsed.valid) == (block("read"), True)


def test_every_action_is_answered_and_changes_the_state_as_the_page_says() -> None:
    lines = block("episode")
    session = PackagePrep().open()
    session.reset(TASK)
    assert lines[0] == state_line(session.state)
    for action, reply, state in zip(lines[1::3], lines[2::3], lines[3::3], strict=True):
        step = session.step(action.removeprefix("> "))
        assert reply == f"< {step.observation} [reward {step.reward}, done {json.dumps(step.done)}]"
        assert state == state_line(session.state)
    assert [json.dumps({"success": session.verify()})] == block("verifier")


async def test_the_right_end_is_verified_over_the_wire() -> None:
    async with client_of(PackagePrep()) as client:
        await answered(client, "/create")
        await answered(client, "/reset", session=0, task=TASK)
        for line in block("right"):
            if line.startswith("> "):
                step = await answered(client, "/step", session=0, action=line.removeprefix("> "))
                assert isinstance(step, dict)
                last = f"< {step['observation']} [reward {step['reward']}, done {json.dumps(step['done'])}]"
            else:
                assert line == last
        assert (await client.get("/verify?session=0")).json() == {"success": True}


def test_the_task_is_the_first_of_the_split_that_the_recipe_evaluates() -> None:
    with (HOUSE / "recipes/tasks/package_prep.csv").open(encoding="utf-8") as lines:
        assert next(row["index"] for row in csv.DictReader(lines) if row["split"] == "test") == str(TASK)
