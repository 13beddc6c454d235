"""Runs that end early, of themselves: a spent budget, servers that are gone. What was not run is missing, and a resume runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym_cli.env.contract import ServersLost
from agentgym_cli.errors import ExitCode, Interrupted, RecipeError
from agentgym_cli.store.journal import read_journal
from agentgym_cli.store.records import AttemptRecord, OutcomeRecord, Record, SegmentRecord
from agentgym_cli.verbs.folders import FROZEN_FILE
from agentgym_cli.verbs.interrupts import run_interruptible
from agentgym_cli.verbs.play import stage_of
from agentgym_cli.verbs.prepare import Prepared
from agentgym_cli.verbs.progress import Silent
from agentgym_cli.verbs.segment import open_segment
from tests.episode.fakes import FakeEnv, FakePolicy, solve_in
from tests.episode.virtual_time import run_virtual
from tests.verbs.builders import make_episode
from tests.verbs.frozen_runs import prepared, started, toy

pytestmark = pytest.mark.slow

EPISODES = [make_episode(number, phase="eval", step=0) for number in range(6)]
POLICY = FakePolicy(say=lambda episode, observation, turn: f"Action: a{turn}")


class GoneEnv(FakeEnv):
    """Its servers go away for good when a number of sessions were asked for."""

    last = 3

    async def ready(self) -> None:
        if self.asked >= self.last:
            raise ServersLost("servers of the environment: expected one to answer within 300 s, got none from http://a")


def play(run: Prepared, env: FakeEnv | None = None) -> None:
    """Play all episodes in one segment of a run: two turns each, of 10 and 20 tokens read and 2 sampled; two at once."""
    with open_segment(run, verb="eval", policy="oracle", resumed_from_step=0 if run.resumed else None, progress=Silent()) as (recorder, history):
        world = env or FakeEnv(answer=solve_in(2), seconds=lambda call, session: 1.0)
        stage = stage_of(run.run, run.dialect, world, [], recorder, history, Silent())
        run_virtual(stage.play(EPISODES, POLICY, announce=None))


def statuses(records: list[Record]) -> list[str]:
    return [record.status for record in records if isinstance(record, SegmentRecord) and record.status is not None]


def attempts(records: list[Record]) -> list[AttemptRecord]:
    return [record for record in records if isinstance(record, AttemptRecord)]


def ids(records: list[Record]) -> list[str]:
    """Episodes that have an outcome."""
    return [record.episode for record in records if isinstance(record, OutcomeRecord)]


SMALL = ("engine.slots=2", "budgets.run_tokens=80")


def test_promise_10_a_run_that_spent_its_budget_is_interrupted_and_goes_on_where_it_is_given_more(tmp_path: Path) -> None:
    run = started(toy(tmp_path), *SMALL)
    with pytest.raises(Interrupted, match=r"budgets\.run_tokens: expected fewer than 80 tokens before a policy call, got 92; 4 of 6 episodes"):
        play(run)
    records = list(read_journal(run.folder))
    assert statuses(records) == ["interrupted"]
    assert [(a.outcome, a.stop, a.attempt) for a in attempts(records)] == [("success", "done", 1)] * 2 + [("missing", "run_budget", 1)] * 2
    assert len(ids(records)) == 2

    play(prepared(run.folder, "budgets.run_tokens=1000", resume=True))
    records = list(read_journal(run.folder))
    assert statuses(records) == ["interrupted", "finished"]
    assert sorted(ids(records)) == sorted(episode.id for episode in EPISODES)
    again = [a for a in attempts(records) if a.segment == 2]
    assert [(a.outcome, a.attempt) for a in again] == [("success", 1)] * 4
    stopped = {a.episode: a.seed for a in attempts(records) if a.outcome == "missing"}
    assert {a.episode: a.seed for a in again if a.episode in stopped} == stopped


def test_a_resume_that_is_given_no_more_ends_at_once_and_counts_what_was_spent(tmp_path: Path) -> None:
    run = started(toy(tmp_path), *SMALL)
    for _ in range(2):
        with pytest.raises(Interrupted, match="got 92; 4 of 6 episodes"):
            play(run)
        run = prepared(run.folder, resume=True)
    assert len(attempts(list(read_journal(run.folder)))) == 4


def test_how_far_the_run_is_stands_with_every_attempt_over_all_segments(tmp_path: Path) -> None:
    """The two finished episodes took 34 tokens each, the two that were stopped 12 each, before the other four were played whole."""
    run = started(toy(tmp_path), *SMALL)
    with pytest.raises(Interrupted):
        play(run)
    play(prepared(run.folder, "budgets.run_tokens=1000", resume=True))
    made = attempts(list(read_journal(run.folder)))
    assert [(a.run_turns, a.run_tokens_read, a.run_tokens_sampled) for a in made] == [
        (2, 30, 4),
        (4, 60, 8),
        (5, 70, 10),
        (6, 80, 12),
        (8, 110, 16),
        (10, 140, 20),
        (12, 170, 24),
        (14, 200, 28),
    ]
    seconds = [a.run_seconds or 0.0 for a in made]
    assert seconds == sorted(seconds) and seconds[0] > 0


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("budgets.run_tokens=0", "budgets.run_tokens: expected"),
        ("budgets.run_tokens=many", "budgets.run_tokens: expected"),
        ("budgets.response_tokens=9", "expected no overrides of a frozen run, got 'budgets.response_tokens=9'"),
    ],
)
def test_a_resume_is_given_whole_limits_of_the_run_and_nothing_else(tmp_path: Path, override: str, message: str) -> None:
    run = started(toy(tmp_path), *SMALL)
    with pytest.raises(RecipeError, match=message):
        prepared(run.folder, override, resume=True)


def test_a_limit_of_the_run_is_outside_its_digest(tmp_path: Path) -> None:
    run = started(toy(tmp_path), *SMALL)
    other = prepared(run.folder / FROZEN_FILE, "budgets.run_tokens=81")
    assert (other.frozen.digest, other.run.budgets.run_tokens) == (run.frozen.digest, 81)


def test_a_resume_takes_other_addresses_of_the_servers_beside_other_limits(tmp_path: Path) -> None:
    run = started(toy(tmp_path), *SMALL, "env.urls=[http://127.0.0.1:1]")
    other = prepared(run.folder, "env.urls=[http://127.0.0.1:2,http://127.0.0.1:3]", "budgets.run_tokens=81", resume=True)
    assert other.run.env.urls == ("http://127.0.0.1:2", "http://127.0.0.1:3")
    assert (other.frozen.digest, other.run.budgets.run_tokens) == (run.frozen.digest, 81)


def test_a_resume_keeps_fewer_checkpoints_and_knows_no_cluster_where_there_is_none(tmp_path: Path) -> None:
    run = started(toy(tmp_path), *SMALL)
    other = prepared(run.folder, "train.keep_checkpoints=2", resume=True)
    assert other.run.train is not None
    assert (other.frozen.digest, other.run.train.keep_checkpoints) == (run.frozen.digest, 2)
    with pytest.raises(RecipeError, match=r"cluster\.gpus_per_node"):
        prepared(run.folder, "cluster.ray_address=127.0.0.1:6379", resume=True)


def test_a_resume_with_an_address_that_is_none_is_refused(tmp_path: Path) -> None:
    run = started(toy(tmp_path), *SMALL)
    with pytest.raises(RecipeError, match=r"env\.urls"):
        prepared(run.folder, "env.urls=[5]", resume=True)


def test_a_run_whose_servers_are_gone_is_interrupted_says_which_and_has_missing_episodes_but_no_failed_ones(tmp_path: Path) -> None:
    run = started(toy(tmp_path), "engine.slots=1")
    with pytest.raises(ServersLost) as caught:
        play(run, GoneEnv(answer=solve_in(2)))
    assert caught.value.exit_code is ExitCode.ENV
    records = list(read_journal(run.folder))
    assert statuses(records) == ["interrupted"]
    assert [a.outcome for a in attempts(records)] == ["success"] * 3
    assert len(ids(records)) == 3

    play(prepared(run.folder, resume=True))
    assert sorted(ids(list(read_journal(run.folder)))) == sorted(episode.id for episode in EPISODES)


def test_a_run_that_ends_early_of_itself_says_how_to_go_on() -> None:
    async def work() -> None:
        raise ServersLost("gone")

    with pytest.raises(ServersLost) as caught:
        run_interruptible(work(), "agentgym eval runs/x --resume")
    assert (caught.value.message, caught.value.hint) == ("gone", "agentgym eval runs/x --resume")
