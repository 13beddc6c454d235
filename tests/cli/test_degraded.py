"""How a command ends whose run is degraded, and what is shown of worlds that say hostile things."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym_cli.cli.show import run_and_report
from agentgym_cli.env.contract import EnvFailure, InfraCause, StepReply
from agentgym_cli.errors import Degraded, ExitCode
from agentgym_cli.store.db import rows_of
from agentgym_cli.store.opening import open_for_reading
from agentgym_cli.verbs.play import stage_of
from agentgym_cli.verbs.prepare import Prepared
from agentgym_cli.verbs.progress import Progress
from agentgym_cli.verbs.request import Request
from agentgym_cli.verbs.segment import Finished, open_segment
from tests.episode.fakes import FakeEnv, FakePolicy, Fault
from tests.episode.virtual_time import run_virtual
from tests.verbs.builders import make_episode
from tests.verbs.frozen_runs import started, toy

pytestmark = pytest.mark.slow

EPISODES = [make_episode(number, phase="eval", step=0) for number in range(20)]
HOSTILE = "\x1b[2J\x1b]0;owned\x07 a shelf \u202e"


def evaluated(run: Prepared, env: FakeEnv) -> Callable[[Request, Progress], Finished]:
    """A verb that plays twenty episodes of one turn in a world of the test's own."""

    def verb(request: Request, progress: Progress) -> Finished:
        policy = FakePolicy(say=lambda episode, observation, turn: f"Action: a{turn}")
        with open_segment(run, verb="eval", policy="oracle", resumed_from_step=None, progress=progress) as (recorder, history):
            stage = stage_of(run.run, run.dialect, env, [], recorder, history, progress)
            run_virtual(stage.play(EPISODES, policy, announce=None))
        return Finished(prepared=run, degraded=stage.infra.sentence(), store_trouble=recorder.store_trouble)

    return verb


def broken_on(tasks: int) -> FakeEnv:
    """A world that fails at the step of the first ``tasks`` tasks, and says hostile things."""

    def answer(task: int, action: str, turn: int) -> StepReply:
        if task < tasks:
            raise EnvFailure(InfraCause.SERVER_5XX, f"POST /step: {HOSTILE}")
        return StepReply(observation=HOSTILE, reward=1.0, done=True)

    return FakeEnv(answer=answer)


def request_of(run: Prepared, *, allow_degraded: bool = False) -> Request:
    return Request(target=str(run.folder), overrides=[], allow_degraded=allow_degraded)


ONCE = "retry.attempts=1"


def test_a_run_above_the_infra_limit_is_reported_and_exits_9(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = started(toy(tmp_path), ONCE)
    with pytest.raises(Degraded, match=r"infra share: expected at most 5% of scheduled episodes, got eval 10\.0% \(2 of 20\)") as caught:
        run_and_report(evaluated(run, broken_on(2)), request_of(run), as_json=False)
    assert caught.value.exit_code is ExitCode.DEGRADED
    assert "[DEGRADED]" in capsys.readouterr().out


def test_a_run_at_the_infra_limit_is_not_degraded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = started(toy(tmp_path), ONCE)
    run_and_report(evaluated(run, broken_on(1)), request_of(run), as_json=False)
    assert "DEGRADED" not in capsys.readouterr().out.upper()


def test_a_degraded_run_that_is_allowed_is_written_and_marked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = started(toy(tmp_path), ONCE)
    run_and_report(evaluated(run, broken_on(2)), request_of(run, allow_degraded=True), as_json=True)
    shown = capsys.readouterr()
    assert json.loads(shown.out)["header"]["degraded"] == "infra share: expected at most 5% of scheduled episodes, got eval 10.0% (2 of 20)"
    assert "infra share" in shown.err


def test_errors_that_an_action_provokes_have_a_limit_and_a_sentence_of_their_own(tmp_path: Path) -> None:
    run = started(toy(tmp_path), "env.max_infra_share=0.5", "env.max_action_induced_share=0.05")
    with pytest.raises(Degraded, match=r"^errors that came back on the same action: expected at most 5% .* got eval 10\.0% \(2 of 20\)$"):
        run_and_report(evaluated(run, broken_on(2)), request_of(run), as_json=False)


def test_an_error_that_does_not_come_back_provokes_nothing(tmp_path: Path) -> None:
    def fault(call: str, session: int) -> Fault:
        return EnvFailure(InfraCause.SERVER_5XX, "broken") if call == "step" and session < 10 else None

    run = started(toy(tmp_path), "env.max_infra_share=0", "env.max_action_induced_share=0")
    run_and_report(evaluated(run, replace(broken_on(0), fault=fault)), request_of(run), as_json=False)


def test_promise_11_what_a_world_says_is_stored_as_it_came_and_shown_without_escapes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = started(toy(tmp_path), ONCE)
    run_and_report(evaluated(run, broken_on(1)), request_of(run), as_json=False)
    with open_for_reading(run.database) as connection:
        assert rows_of(connection, "select distinct final_observation from attempts where outcome = 'success'") == [(HOSTILE,)]
        assert rows_of(connection, "select detail from attempts where outcome = 'infra_error'") == [(f"POST /step: {HOSTILE}",)]
    shown = capsys.readouterr()
    assert "POST /step: a shelf" in " ".join(shown.out.split())
    assert not {"\x1b", "\x07", "\u202e"} & set(shown.out + shown.err)
