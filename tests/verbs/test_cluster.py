"""The driver's side of a launch on verl: what workers hand in becomes the run's records, once, and what ends the run ends it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agentgym_cli.env.contract import InfraCause
from agentgym_cli.episode.runner import EpisodeResult
from agentgym_cli.episode.types import AttemptResult, Outcome, ScheduledEpisode, StopReason, Turn
from agentgym_cli.errors import Degraded, ExitCode, Interrupted, TrainerError
from agentgym_cli.recipe.freeze import freeze
from agentgym_cli.recipe.resolve import resolve
from agentgym_cli.recipe.tasks import select_tasks
from agentgym_cli.store.codec import encode
from agentgym_cli.store.journal import read_journal
from agentgym_cli.store.records import AttemptRecord, CheckpointRecord, MetricRecord, OutcomeRecord, ScheduledRecord
from agentgym_cli.verbs.cluster import Work
from agentgym_cli.verbs.history import EMPTY, History
from agentgym_cli.verbs.prepare import Prepared
from agentgym_cli.verbs.progress import Silent
from agentgym_cli.verbs.recorder import Recorder
from agentgym_cli.verbs.recording import attempt_record, outcome_record
from agentgym_cli.verbs.schedules import tasks_of
from agentgym_cli.verbs.spoken import spoken_dialect
from agentgym_cli.verbs.verl_checkpoints import VerlCheckpoint


def prepared_in(folder: Path, *overrides: str) -> Prepared:
    """The rehearsal of the shipped recipe, in a folder of its own."""
    frozen = freeze(resolve("textcraft_grpo.yaml", ["profile=rehearsal", *overrides]))
    run = frozen.run
    lists = select_tasks(run.tasks, env="textcraft", beside=frozen.beside)
    (folder / "run").mkdir()
    return Prepared(
        run=run,
        frozen=frozen,
        name="run",
        folder=folder / "run",
        database=folder / "x.duckdb",
        resumed=False,
        drift=None,
        allowed=(),
        dialect=spoken_dialect(run, beside=frozen.beside),
        train_tasks=tasks_of(lists.train, env="textcraft", split="train"),
        evaluation_tasks={name: tasks_of(rows, env="textcraft", split=name) for name, rows in lists.evaluation.items()},
    )


@asynccontextmanager
async def working(
    folder: Path, *overrides: str, found: VerlCheckpoint | None = None, history: History = EMPTY
) -> AsyncIterator[tuple[Work, Prepared]]:
    prepared = prepared_in(folder, *overrides)
    assert prepared.run.train is not None
    recorder = Recorder(folder=prepared.folder, run="run", segment=1, database=prepared.database, keep_tokens="none", progress=Silent())
    try:
        yield Work(prepared, prepared.run.train, found, recorder, history, Silent()), prepared
    finally:
        recorder.close()


def records(prepared: Prepared, kind: type) -> list[Any]:
    return [record for record in read_journal(prepared.folder) if isinstance(record, kind)]


def attempt(episode: ScheduledEpisode, *, induced: bool = False, cause: InfraCause | None = None, context: int = 10) -> AttemptResult:
    """A finished attempt: a failure, or an infra error, which with ``induced`` came back on the same action."""
    cause = InfraCause.SERVER_5XX if induced else cause
    infra = cause is not None
    turn = Turn(
        observation="o",
        text="t",
        action="a",
        valid=True,
        reward=None if infra else 0.0,
        done=False,
        response_tokens=3,
        context_tokens=context,
        policy_seconds=0.1,
        env_seconds=0.2,
    )
    return AttemptResult(
        episode=episode,
        attempt=1,
        seed=1,
        stop=StopReason.ENV_ERROR if infra else StopReason.HORIZON,
        outcome=Outcome.INFRA_ERROR if infra else Outcome.FAILURE,
        truncated=not infra,
        cause=cause,
        detail="",
        action_induced=induced,
        reward=None if infra else 0.0,
        final_observation="o",
        turns=(turn,),
        trajectory=None,
        prompt_tokens=context,
        action_tokens=3,
        seconds=1.0,
        policy_seconds=0.1,
        env_seconds=0.2,
        replica="http://w",
    )


def hand_in(work: Work, episode: ScheduledEpisode, **facts: Any) -> None:
    result = attempt(episode, **facts)
    for record in (
        attempt_record(result, run="run", segment=1, keep_tokens="none"),
        outcome_record(EpisodeResult(episode=episode, attempts=(result,)), run="run", segment=1),
    ):
        work.take({"do": "record", "line": encode(record).decode()})


async def test_promise_01_a_steps_schedule_is_written_once_before_its_first_episode(tmp_path: Path) -> None:
    async with working(tmp_path) as (work, prepared):
        # Every one of its sixteen loops says that it begins.
        answers = [work.take({"do": "begin", "phase": "train", "step": 2, "at": 2}) for _ in range(16)]
    assert answers == [{"phase": "train", "step": 2}] * 16
    written = records(prepared, ScheduledRecord)
    assert len(written) == len({each.episode for each in written}) == 16
    assert {(each.phase, each.step, each.horizon) for each in written} == {("train", 2, 3)}


@pytest.mark.parametrize(("step", "phase"), [(0, "eval_before"), (2, "eval_during"), (3, "eval_after")])
async def test_an_evaluation_is_the_one_of_its_weights(tmp_path: Path, step: int, phase: str) -> None:
    async with working(tmp_path) as (work, prepared):
        assert work.take({"do": "begin", "phase": "evaluation", "step": step, "at": step}) == {"phase": phase, "step": step}
    assert [(each.phase, each.step, each.horizon) for each in records(prepared, ScheduledRecord)] == [(phase, step, 4)] * 2


async def test_the_watch_knows_how_long_a_world_may_be_down(tmp_path: Path) -> None:
    async with working(tmp_path, "retry.recovery_seconds=1200") as (work, _):
        work.take({"do": "mark", "phase": "episodes", "step": 1})
        assert work.watch.bound() == 2400.0


async def test_records_get_how_far_the_run_is(tmp_path: Path) -> None:
    async with working(tmp_path) as (work, prepared):
        work.take({"do": "begin", "phase": "train", "step": 1, "at": 1})
        first, second = work._training(1)[:2]
        hand_in(work, first)
        hand_in(work, second, context=20)
    assert [(each.run_turns, each.run_tokens_read, each.run_tokens_sampled) for each in records(prepared, AttemptRecord)] == [(1, 10, 3), (2, 30, 6)]
    assert [each.outcome for each in records(prepared, OutcomeRecord)] == ["failure"] * 2


async def test_a_spent_budget_ends_the_run_as_interrupted(tmp_path: Path) -> None:
    async with working(tmp_path, "budgets.run_tokens=30") as (work, _):
        first, second, third = work._training(1)[:3]
        hand_in(work, first)
        hand_in(work, second)
        assert work.watch.stop is None
        # 13 tokens each: the third reaches 39.
        hand_in(work, third)
        assert isinstance(work.watch.stop, Interrupted) and "budgets.run_tokens" in work.watch.stop.message


async def test_a_policy_that_crashes_its_world_does_not_go_on(tmp_path: Path) -> None:
    async with working(tmp_path) as (work, _):
        schedule = work._training(1)
        for number, episode in enumerate(schedule):
            hand_in(work, episode, induced=number < 4)
        # Four of sixteen is more than a fifth.
        work.take({"do": "metrics", "step": 1, "values": {}})
        assert isinstance(work.watch.stop, TrainerError) and "got 4 of 16" in work.watch.stop.message


async def test_promise_01_a_step_over_without_an_outcome_of_every_episode_is_the_last(tmp_path: Path) -> None:
    async with working(tmp_path) as (work, _):
        *most, last = work._training(1)
        for episode in most:
            hand_in(work, episode)
        work.take({"do": "metrics", "step": 1, "values": {}})
        assert isinstance(work.watch.stop, TrainerError)
        assert work.watch.stop.message == f"step 1: expected an outcome of each of its 16 episodes, got none of 1, {last.id} among them"
    (tmp_path / "whole").mkdir()
    async with working(tmp_path / "whole") as (work, _):
        for episode in work._training(1):
            hand_in(work, episode)
        work.take({"do": "metrics", "step": 1, "values": {}})
        assert work.watch.stop is None


async def test_numbers_have_the_stores_names_and_the_scheduled_horizon(tmp_path: Path) -> None:
    async with working(tmp_path) as (work, prepared):
        said = {"actor/pg_loss": 0.5, "timing_s/gen": 2.0, "perf/throughput": 9.0, "critic/score/max": None, "agentgym/trajectories": 16}
        work.take({"do": "metrics", "step": 2, "values": said})
    found = {each.name: each.value for each in records(prepared, MetricRecord)}
    assert found == {
        "horizon": 3.0,
        "stage": 2.0,
        "verl_step": 2.0,
        "policy_version": 1.0,
        "loss": 0.5,
        "time/play_seconds": 2.0,
        "time/verl/perf/throughput": 9.0,
        "verl/critic/score/max": None,
        "trajectories": 16.0,
    }


async def test_a_checkpoint_is_recorded_where_it_is_in_the_runs_folder(tmp_path: Path) -> None:
    async with working(tmp_path) as (work, prepared):
        path = prepared.folder.absolute() / "verl/checkpoints/global_step_1"
        work.take({"do": "checkpoint", "step": 1, "path": str(path)})
    assert [(each.step, each.path) for each in records(prepared, CheckpointRecord)] == [(1, "verl/checkpoints/global_step_1")]


async def test_what_a_worker_cannot_go_on_with_ends_the_run_and_the_first_reason_counts(tmp_path: Path) -> None:
    async with working(tmp_path) as (work, _):
        work.take({"do": "stop", "message": "no server takes sessions", "interrupted": True})
        work.take({"do": "stop", "message": "another", "interrupted": False})
        assert isinstance(work.watch.stop, Interrupted) and work.watch.stop.message == "no server takes sessions"


async def test_a_resume_evaluates_only_what_is_left(tmp_path: Path) -> None:
    last = VerlCheckpoint(folder=tmp_path, step=3, ranks=1, shards=tmp_path)
    async with working(tmp_path, found=last) as (work, prepared):
        ids = [episode.id for episode in work._evaluation("eval_after", 3)]
        assert {name: len(tasks) for name, tasks in work.left_to_evaluate().items()} == {"test": 2}
        known = History(segments=1, scheduled=frozenset(ids), outcomes={ids[0]: "success"}, attempts={})
        again = Work(prepared, work._spec, last, work._recorder, known, Silent())
        assert [task.id for task in again.left_to_evaluate()["test"]] == [ids[1].split("/")[3]]
        assert again.take({"do": "recorded", "episode": ids[0]}) == {"outcome": "success", "attempts": []}


@pytest.mark.parametrize("every", ["null", "3"])
async def test_in_the_middle_no_evaluation_comes_first(tmp_path: Path, every: str) -> None:
    async with working(tmp_path, f"evaluation.every={every}", found=VerlCheckpoint(folder=tmp_path, step=2, ranks=1, shards=tmp_path)) as (work, _):
        assert work.left_to_evaluate() == {}


async def test_promise_01_an_evaluation_in_the_middle_that_a_kill_cut_short_comes_first(tmp_path: Path) -> None:
    # verl writes its checkpoint before it evaluates.
    last = VerlCheckpoint(folder=tmp_path, step=2, ranks=1, shards=tmp_path)
    async with working(tmp_path, "evaluation.every=2", found=last) as (work, prepared):
        assert {name: len(tasks) for name, tasks in work.left_to_evaluate().items()} == {"test": 2}
        done = {episode.id: "failure" for episode in work._evaluation("eval_during", 2)}
        known = History(segments=1, scheduled=frozenset(done), outcomes=done, attempts={})
        assert Work(prepared, work._spec, last, work._recorder, known, Silent()).left_to_evaluate() == {}


def complete(prepared: Prepared, step: int) -> None:
    place = prepared.folder / "verl/checkpoints" / f"global_step_{step}"
    (place / "actor").mkdir(parents=True)
    (place / "agentgym.json").write_text(json.dumps({"digest": prepared.frozen.digest, "step": step, "ranks": 1}))


async def test_a_launch_is_done_with_its_last_steps_checkpoint_and_its_last_evaluation(tmp_path: Path) -> None:
    async with working(tmp_path) as (work, prepared):
        for step in (1, 2, 3):
            work.take({"do": "metrics", "step": step, "values": {}})
        complete(prepared, 2)
        with pytest.raises(TrainerError, match="got 3 steps and a checkpoint of step 2"):
            work._require_done()
        complete(prepared, 3)
        first, second = work._evaluation("eval_after", 3)
        hand_in(work, first)
        with pytest.raises(TrainerError, match="got none for some of 1 tasks") as refused:
            work._require_done()
        assert refused.value.hint is not None and "--resume" in refused.value.hint
        hand_in(work, second)
        work._require_done()


async def test_a_step_in_which_every_episode_fails_by_its_world_ends_the_run_with_counts_and_causes(tmp_path: Path) -> None:
    async with working(tmp_path) as (work, prepared):
        work.take({"do": "begin", "phase": "train", "step": 1, "at": 1})
        for number, episode in enumerate(work._training(1)):
            hand_in(work, episode, cause=InfraCause.TIMEOUT if number < 4 else InfraCause.CONNECT)
        work.take({"do": "empty", "step": 1})
    stopped = work.watch.stop
    assert isinstance(stopped, Degraded)
    assert stopped.exit_code == ExitCode.DEGRADED
    assert stopped.message == "step 1: expected an episode to learn from, got none: the world failed in 16 of 16 (connect 12, timeout 4)"
    # Nothing is lost, and no failure is a reward.
    assert [(each.outcome, each.reward) for each in records(prepared, OutcomeRecord)] == [("infra_error", None)] * 16


async def test_a_step_that_is_empty_since_its_actions_crash_the_world_is_called_that(tmp_path: Path) -> None:
    async with working(tmp_path) as (work, _):
        work.take({"do": "begin", "phase": "train", "step": 1, "at": 1})
        for episode in work._training(1):
            hand_in(work, episode, induced=True)
        work.take({"do": "empty", "step": 1})
    assert isinstance(work.watch.stop, TrainerError)
    assert "their own action provokes, got 16 of 16" in work.watch.stop.message


async def test_older_checkpoints_are_removed_once_a_newer_one_is_complete(tmp_path: Path) -> None:
    async with working(tmp_path, "train.keep_checkpoints=1") as (work, prepared):
        for step in (1, 2):
            complete(prepared, step)
            work.take({"do": "checkpoint", "step": step, "path": str(prepared.folder.absolute() / f"verl/checkpoints/global_step_{step}")})
    assert [path.name for path in (prepared.folder / "verl/checkpoints").iterdir()] == ["global_step_2"]
