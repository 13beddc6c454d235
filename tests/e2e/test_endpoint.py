"""``agentgym eval --endpoint`` as people use it: a served world, a served model, whole commands."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.commands import RECIPE, Ended, only_run, run, start, wait_for_line
from tests.episode.llm_server import Fields, LlmStub, refusing_address, served

pytestmark = pytest.mark.e2e
TASKS = 8


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """TextCraft with its oracle, at the address given."""
    with start(tmp_path_factory.mktemp("world"), "serve", "textcraft", "--port", "0", "--oracle") as command:
        assert command.stdout is not None
        try:
            yield str(json.loads(command.stdout.readline())["url"])
        finally:
            command.terminate()
            command.communicate(timeout=60)


@pytest.fixture(scope="module")
def solutions(world: str) -> dict[str, list[str]]:
    """Actions that solve a task, by its first observation; of the tasks that the tests play."""
    rows = (Path("recipes/tasks/textcraft_big.csv").read_text(encoding="utf-8")).splitlines()[1:]
    indices = [int(row.split(",")[0]) for row in rows if row.split(",")[1] == "test"][:TASKS]
    found: dict[str, list[str]] = {}
    with httpx.Client(base_url=world) as client:
        for index in indices:
            session = client.post("/create", json={}).json()["id"]
            observation = client.post("/reset", json={"id": session, "data_idx": index}).json()["observation"]
            found[observation] = client.get("/oracle", params={"id": session}).json()["actions"]
            client.post("/close", json={"id": session})
    return found


def solver(solutions: dict[str, list[str]]) -> Any:
    """A model that plays a task's solution, one action a turn."""

    def say(fields: Fields, number: int) -> str:
        messages: Any = fields["messages"]
        users = [message["content"] for message in messages if message["role"] == "user"]
        actions = solutions.get(users[0], [])
        return f"Thought: step {len(users)}\nAction: {actions[len(users) - 1]}" if len(users) <= len(actions) else "Action: inventory"

    return say


def evaluated(folder: Path, world: str, *words: str) -> Ended:
    return run(folder, "eval", RECIPE, f"env.urls=[{world}]", f"--limit={TASKS}", *words)


def test_a_served_model_that_knows_the_solutions_solves_every_task(tmp_path: Path, world: str, solutions: dict[str, list[str]]) -> None:
    stub = LlmStub(say=solver(solutions), ids=True)
    with served(stub) as url:
        ended = evaluated(tmp_path, world, "--endpoint", url, "--model", "stub", "--samples", "2", "--json", "store.keep_tokens=all")
    assert ended.code == 0, ended.err
    (part,) = ended.json["parts"]
    assert (part["accounting"]["scheduled"], part["accounting"]["success"], part["tasks"], part["left_out"]) == (16, 16, 8, 92)
    header = ended.json["header"]
    assert (header["policy"], header["promise"]) == ("endpoint, chat: stub, owned by 'tests'", "equal schedules")
    assert {"endpoint: model", "endpoint: answer", "endpoint: token ids"} <= {probe["name"] for probe in ended.json["probes"]}
    frozen = json.loads((only_run(tmp_path) / "frozen.json").read_text())
    assert frozen["observed"][f"{url} (policy)"] == "stub, owned by 'tests'"
    # The attempts' own seeds: two samples of a task are asked with different ones.
    assert len({fields["seed"] for fields in stub.asked[1:]}) == 16


def test_a_server_that_dies_in_the_middle_is_never_a_failure(tmp_path: Path, world: str, solutions: dict[str, list[str]]) -> None:
    play = solver(solutions)

    def say(fields: Fields, number: int) -> str:
        if number == 12:
            stub.stop()
        return str(play(fields, number))

    stub = LlmStub(say=say)
    with served(stub) as url:
        quick = ("policy.endpoint.retry_seconds=1", "retry.attempts=2", "engine.slots=2", "retry.give_up_after=100")
        ended = evaluated(tmp_path, world, "--endpoint", f"{url}=stub", "--json", *quick)
    assert ended.code == 9, ended.err
    (part,) = ended.json["parts"]
    counts = part["accounting"]
    assert (counts["scheduled"], counts["failure"], counts["missing"]) == (8, 0, 0)
    assert counts["infra_error"] >= 2
    assert counts["success"] + counts["infra_error"] == 8
    stops = {(stop["reason"], stop["cause"]) for stop in part["stops"] if stop["reason"] != "done"}
    assert stops <= {("policy_unavailable", "connect"), ("policy_unavailable", "reset")}
    assert ("policy_unavailable", "connect") in stops


def test_a_server_that_stays_away_interrupts_the_run_and_a_resume_runs_the_rest(tmp_path: Path, world: str, solutions: dict[str, list[str]]) -> None:
    stub = LlmStub(say=lambda fields, number: (stub.stop(), "Action: inventory")[1] if number == 12 else "Action: inventory")
    quick = ("policy.endpoint.retry_seconds=0", "engine.slots=1", "evaluation.horizon=4", "retry.give_up_after=2")
    with served(stub) as url:
        ended = evaluated(tmp_path, world, "--endpoint", f"{url}=stub", *quick)
    assert ended.code == 4, ended.err
    assert f"{url}: expected an answer from the model's server, got none to 2 calls in a row" in ended.message[0]
    with served(LlmStub(say=solver(solutions))) as url:
        again = run(tmp_path, "eval", str(only_run(tmp_path)), "--resume", "--endpoint", url, "--json")
    assert again.code == 0, again.err
    counts = again.json["parts"][0]["accounting"]
    assert (counts["scheduled"], counts["infra_error"], counts["missing"]) == (8, 0, 0)


def test_an_interrupted_evaluation_goes_on_where_the_server_is_now(tmp_path: Path, world: str, solutions: dict[str, list[str]]) -> None:
    words = ("eval", RECIPE, f"env.urls=[{world}]", f"--limit={TASKS}", "engine.slots=1")
    with served(LlmStub(say=solver(solutions), seconds=0.2)) as url, start(tmp_path, *words, "--endpoint", url) as command:
        # A line of progress comes at once for the first episode, and every five seconds.
        wait_for_line(command, "evaluate", "episode")
        command.send_signal(signal.SIGINT)
        command.communicate(timeout=60)
    assert command.returncode == 130
    folder = only_run(tmp_path)
    with served(LlmStub(say=solver(solutions))) as url:
        other = run(tmp_path, "eval", str(folder), "--resume", "--endpoint", f"{url}=another")
        assert other.code == 2
        assert "expected what the run was frozen with, which asks the model 'stub', got another" in other.message[0]
        ended = run(tmp_path, "eval", str(folder), "--resume", "--endpoint", url, "--json")
    assert ended.code == 0, ended.err
    assert [segment["status"] for segment in ended.json["segments"]] == ["interrupted", "finished"]
    counts = ended.json["parts"][0]["accounting"]
    assert (counts["scheduled"], counts["success"], counts["missing"]) == (8, 8, 0)


def test_several_endpoints_are_runs_of_their_own_in_one_table(tmp_path: Path, world: str, solutions: dict[str, list[str]]) -> None:
    good, silent = LlmStub(say=solver(solutions), models=[{"id": "good"}]), LlmStub(say=lambda fields, number: "", models=[{"id": "silent"}])
    with served(good) as one, served(silent) as two:
        ended = evaluated(
            tmp_path, world, "--endpoint", one, "--endpoint", f"{refusing_address()}=gone", "--endpoint", f"{two}=silent", "evaluation.horizon=4"
        )
        as_json = evaluated(tmp_path, world, "--endpoint", one, "--endpoint", two, "--json", "evaluation.horizon=4")
    assert ended.code == 5
    assert "Connect call failed" in ended.message[0]
    rows = [line.split()[:6] for line in ended.out.splitlines() if " test " in line]
    assert rows == [["1", "test", "8", "of", "100", "8"], ["3", "test", "8", "of", "100", "8"]]
    assert as_json.code == 0, as_json.err
    first, second = as_json.json
    assert (first["policy"], second["failure"]) == (f"the model at {one}", None)
    assert first["report"]["header"]["run"] != second["report"]["header"]["run"]
    assert second["report"]["parts"][0]["accounting"]["success"] == 0
    assert first["report"]["parts"][0]["accounting"]["success"] > 0


def test_what_is_no_llm_server_or_has_another_model_ends_before_the_first_episode(tmp_path: Path, world: str) -> None:
    with served(LlmStub(models=[{"id": "qwen"}])) as url:
        wrong = evaluated(tmp_path, world, "--endpoint", f"{url}=qwne")
    assert wrong.code == 5
    assert wrong.message[0].startswith("error: policy.endpoint.model: expected a model that http://127.0.0.1:")
    assert wrong.message[1] == "hint: it has 'qwen'; did you mean 'qwen'?"
    assert f"{url} is asked for its models and one token, for up to 60 s" in " ".join(wrong.err.split())
    no_server = evaluated(tmp_path, world, "--endpoint", f"{world}=qwen")
    assert (no_server.code, "policy.endpoint" in no_server.message[0]) == (5, True)
    no_key = evaluated(tmp_path, world, "--endpoint", f"{url}=qwen", "policy.endpoint.key_variable=NO_SUCH_KEY")
    assert (no_key.code, "expected the environment variable NO_SUCH_KEY to be set" in no_key.message[0]) == (5, True)
    assert not (tmp_path / "runs").exists()


def test_chosen_tasks_leave_the_others_visible(tmp_path: Path) -> None:
    words = ("eval", "recipes/package_prep.yaml", "--tasks", "package_prep_99,103-104", "--tasks", "110", "--json")
    ended = run(tmp_path, *words)
    assert ended.code == 0, ended.err
    (part,) = ended.json["parts"]
    assert (part["tasks"], part["accounting"]["scheduled"], part["left_out"]) == (4, 4, 20)
    wrong = run(tmp_path, *words[:2], "--tasks", "textcraft_3")
    assert (wrong.code, "evaluation.only.ids: expected tasks of package_prep, got 'textcraft_3'" in wrong.message[0]) == (2, True)
