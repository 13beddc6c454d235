"""A world that dies and stays dead: the run waits, ends as interrupted with its name, and goes on where it was when the world is back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym_cli.env.contract import ServersLost
from agentgym_cli.errors import ExitCode
from agentgym_cli.store.db import rows_of
from agentgym_cli.store.opening import open_for_reading
from agentgym_cli.verbs.evaluate import evaluate_policy
from agentgym_cli.verbs.progress import Cell, Silent
from agentgym_cli.verbs.request import PolicyChoice
from tests.drill.faults import Server, request_of, solves

pytestmark = [pytest.mark.drill, pytest.mark.timeout(120)]
EPISODES = 500


class Killing(Silent):
    """Progress that kills the server when 100 episodes are over."""

    def __init__(self, server: Server) -> None:
        super().__init__()
        self._server = server
        self.killed = False

    def advance(self, done: int, cells: Mapping[str, Cell]) -> None:
        """An episode is over."""
        if done >= 100 and not self.killed:
            self.killed = True
            self._server.kill()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.kill()


def counted(folder: Path) -> tuple[dict[str, int], list[str], list[str]]:
    """Episodes by outcome, those with an outcome that is not the truth, and how each segment ended."""
    with open_for_reading(folder / "results.duckdb") as connection:
        ended = rows_of(connection, "select episode, task_index, outcome from episodes_final")
        segments = rows_of(connection, "select status from segments order by segment")
    outcomes = {str(outcome): sum(each == outcome for *_, each in ended) for *_, outcome in ended}
    wrong = [str(episode) for episode, index, outcome in ended if outcome == ("failure" if solves(int(index)) else "success")]
    return outcomes, wrong, [str(status) for (status,) in segments]


def test_promise_10_a_run_whose_world_is_gone_is_interrupted_and_resumes_to_the_whole_schedule(tmp_path: Path, server: Server) -> None:
    url = f"http://127.0.0.1:{server.port}"
    request = request_of(tmp_path, [url], episodes=EPISODES, slots=16, call_seconds=5.0, recovery_seconds=1.5)
    progress = Killing(server)
    with pytest.raises(ServersLost) as caught:
        evaluate_policy(request, progress)
    assert caught.value.exit_code is ExitCode.ENV
    assert caught.value.message.startswith(f"servers of the environment: expected one to answer within 1.5 s, got none from {url} (")
    assert "--resume" in str(caught.value.hint)
    assert sum(f"{url} does not answer and gets no new episode" in warning for warning in progress.warnings) == 1

    outcomes, wrong, segments = counted(tmp_path)
    assert (sum(outcomes.values()), wrong, segments) == (EPISODES, [], ["interrupted"])
    assert outcomes["success"] + outcomes["failure"] >= 100
    assert outcomes["missing"] > 300
    assert "infra_error" not in outcomes

    server.start()
    [folder] = (tmp_path / "runs").iterdir()
    finished = evaluate_policy(replace(request, target=str(folder), resume=True, runs_dir=None, policy=PolicyChoice()), Silent())
    outcomes, wrong, segments = counted(tmp_path)
    assert (finished.degraded, wrong, segments) == (None, [], ["interrupted", "finished"])
    assert outcomes == {"success": 5 * sum(map(solves, range(100))), "failure": EPISODES - 5 * sum(map(solves, range(100)))}
    assert server.sessions() == 0
