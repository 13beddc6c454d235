"""Where a worker of an engine plays: a real world, a sampler that knows the words, and a writer that hears of everything in order."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentgym_cli.env.contract import ServersLost
from agentgym_cli.episode.policies.failures import PolicyUnavailable
from agentgym_cli.episode.policies.sampled import Sampled
from agentgym_cli.episode.tokens import TurnTokens
from agentgym_cli.errors import AgentgymError
from agentgym_cli.learn.verl.rows import Row, evaluation_rows, training_rows, write_rows
from agentgym_cli.learn.verl.setup import Setup, read_setup, setup_of_loops, write_loops
from agentgym_cli.recipe.freeze import freeze
from agentgym_cli.recipe.resolve import resolve
from agentgym_cli.recipe.tasks import select_tasks
from agentgym_cli.store.codec import decode
from agentgym_cli.store.desk import Address, open_desk
from agentgym_cli.store.records import AttemptRecord, OutcomeRecord
from agentgym_cli.verbs.schedules import tasks_of
from agentgym_cli.verbs.site import WorkerSite, open_site
from tests.e2e.commands import RECIPE, start
from tests.episode.llm_server import refusing_address

pytestmark = pytest.mark.e2e
TOKENIZER = Path("recipes/models/textcraft_laptop")
OVERRIDES = ("profile=laptop", "store.keep_tokens=all")
TWICE = ("retry.attempts=2", "retry.pause_seconds=0.01")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """TextCraft with the laptop's recipes, at the address given."""
    with start(tmp_path_factory.mktemp("world"), "serve", "textcraft", "--port", "0", "--", "--book", "laptop") as command:
        assert command.stdout is not None
        try:
            yield str(json.loads(command.stdout.readline())["url"])
        finally:
            command.terminate()
            command.communicate(timeout=60)


class Writer:
    """Hears what a site says, and knows what an earlier segment recorded."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.records: list[AttemptRecord | OutcomeRecord] = []
        self.known: dict[str, Any] = {"outcome": None, "attempts": []}
        self.stops: list[Mapping[str, Any]] = []

    def __call__(self, message: Mapping[str, Any]) -> dict[str, Any]:
        self.said.append(message["do"])
        if message["do"] == "begin":
            phase = "train" if message["phase"] == "train" else "eval_before"
            return {"phase": phase, "step": message["step"]}
        if message["do"] == "recorded":
            return self.known
        if message["do"] == "record":
            record = decode(message["line"].encode())
            assert isinstance(record, AttemptRecord | OutcomeRecord)
            self.records.append(record)
        if message["do"] == "stop":
            self.stops.append(message)
        return {}


class Speaker:
    """Samples the same words every time, as tokens; the first ``broken`` calls fail."""

    def __init__(self, text: str, *, broken: int = 0) -> None:
        self._tokens = TurnTokens.from_file(TOKENIZER / "tokenizer.json", "words")
        self._text, self._broken = text, broken
        self.asked: list[tuple[int, ...]] = []

    async def sample(self, context: Sequence[int], *, most: int, stop_ids: frozenset[int]) -> Sampled:
        self.asked.append(tuple(context))
        if len(self.asked) <= self._broken:
            raise PolicyUnavailable("no server")
        ids = self._tokens.action(self._text)[:most]
        version = len(self.asked)
        return Sampled(token_ids=ids, logprobs=(-0.5,) * len(ids), version=version)


@asynccontextmanager
async def opened(folder: Path, url: str, writer: Writer, *overrides: str) -> AsyncIterator[tuple[WorkerSite, list[Row]]]:
    """A site, and its rows of training."""
    async with open_desk(writer, broken=unheard) as desk:
        site, rows = written(folder, url, desk, *overrides)
        try:
            yield site, rows
        finally:
            await site.aclose()


def written(folder: Path, url: str, desk: Address, *overrides: str) -> tuple[WorkerSite, list[Row]]:
    """The same, not closed."""
    resolved = resolve(RECIPE, [*OVERRIDES, *(overrides or TWICE)])
    frozen = freeze(resolved)
    frozen.write(folder / "frozen.json")
    run = frozen.run
    assert run.train is not None
    lists = select_tasks(run.tasks, env="textcraft", beside=frozen.beside)
    train = tasks_of(lists.train, env="textcraft", split="train")
    judged = {name: tasks_of(rows, env="textcraft", split=name) for name, rows in lists.evaluation.items()}
    rows = list(training_rows(train, run.train, run.horizon, seed=run.seed))
    write_rows(folder / "train", rows)
    write_rows(folder / "evaluation", evaluation_rows(judged, horizon=3, limit=2))
    setup = Setup(
        frozen=str(folder / "frozen.json"),
        run="a-run",
        segment=1,
        tokenizer=str(TOKENIZER.absolute()),
        urls=(url,),
        rows={"train": str(folder / "train"), "evaluation": str(folder / "evaluation")},
        desk=desk,
        slots=4,
    )
    setup.write(folder / "setup.json")
    write_loops(folder / "loops.yaml", site="x:y", setup=folder / "setup.json")
    assert setup_of_loops(folder / "loops.yaml") == read_setup(folder / "setup.json") == setup
    assert (folder / "setup.json").stat().st_mode & 0o077 == 0
    return WorkerSite(setup), rows


def unheard(trouble: Exception) -> None:
    raise AssertionError(trouble)


async def test_a_site_that_cannot_be_opened_ends_the_run_and_says_why(tmp_path: Path) -> None:
    writer = Writer()
    async with open_desk(writer, broken=unheard) as desk:
        site, _ = written(tmp_path, "http://127.0.0.1:1", desk)
        await site.aclose()
        # The disk that all machines should see is not there on this one.
        moved = replace(read_setup(tmp_path / "setup.json"), tokenizer=str(tmp_path / "nothing"))
        moved.write(tmp_path / "moved.json")
        with pytest.raises(AgentgymError):
            await open_site(tmp_path / "moved.json")
    assert [stop["interrupted"] for stop in writer.stops] == [False]
    assert str(tmp_path / "nothing") in writer.stops[0]["message"]


async def test_promise_05_an_episode_is_learned_from_as_it_was_sampled(tmp_path: Path, world: str) -> None:
    writer, speaker = Writer(), Speaker("inventory")
    async with opened(tmp_path, world, writer) as (site, rows):
        played = await site.play(site.row("train", 0), member=1, step=1, sampler=speaker)
    assert played is not None
    # Eight turns at step 1, none of which solves anything; the tokens are those of the last request and its response.
    assert rows[0].horizon == 8 and played.turns == 8
    assert played.trajectory.token_ids[: len(speaker.asked[-1])] == speaker.asked[-1]
    sampled = [each for each, action in zip(played.trajectory.token_ids, played.trajectory.action_mask, strict=True) if action]
    assert sampled == [*speaker._tokens.action("inventory")] * 8
    assert played.trajectory.action_mask[-1]
    assert played.reward == 0.0
    assert played.trajectory.runs == tuple((version, len(sampled) // 8) for version in range(1, 9))
    # The schedule is written down before the world is asked, and records come before the episode counts.
    assert writer.said == ["begin", "recorded", "record", "record"]
    attempt, outcome = writer.records
    assert isinstance(attempt, AttemptRecord) and isinstance(outcome, OutcomeRecord)
    assert (attempt.episode, attempt.stop, attempt.outcome) == (f"train/train/1/{rows[0].task.id}/1", "horizon", "failure")
    assert attempt.tokens is not None and attempt.tokens.token_ids == played.trajectory.token_ids
    assert attempt.tokens.policy_versions == (1, 2, 3, 4, 5, 6, 7, 8)
    assert attempt.tokens.policy_version_tokens == (len(sampled) // 8,) * 8
    assert attempt.run_turns is None, "the writer knows how far the run is"


async def test_promise_02_a_policy_that_cannot_be_reached_gives_nothing_to_learn_from(tmp_path: Path, world: str) -> None:
    writer = Writer()
    async with opened(tmp_path, world, writer) as (site, _):
        assert await site.play(site.row("train", 3), member=0, step=1, sampler=Speaker("inventory", broken=99)) is None
    assert [record.outcome for record in writer.records] == ["infra_error"] * 3
    assert [record.attempt for record in writer.records] == [1, 2, 2]


async def test_promise_03_a_retry_is_an_attempt_of_the_same_episode(tmp_path: Path, world: str) -> None:
    writer = Writer()
    async with opened(tmp_path, world, writer) as (site, _):
        played = await site.play(site.row("train", 3), member=0, step=1, sampler=Speaker("inventory", broken=1))
    assert played is not None
    assert [(record.attempt, record.outcome) for record in writer.records] == [(1, "infra_error"), (2, "failure"), (2, "failure")]


async def test_an_evaluation_that_is_recorded_is_not_played_again(tmp_path: Path, world: str) -> None:
    writer, speaker = Writer(), Speaker("inventory")
    writer.known = {"outcome": "success", "attempts": []}
    async with opened(tmp_path, world, writer) as (site, _):
        assert await site.play(site.row("evaluation", 0), member=0, step=0, sampler=speaker) is None
    assert speaker.asked == [] and writer.said == ["begin", "recorded"]


async def test_a_world_that_is_gone_for_good_stops_the_run_and_makes_no_record(tmp_path: Path) -> None:
    writer = Writer()
    # A server that did not answer once is left alone for a minute, and a run without another waits a tenth of a second for it.
    gone = ("retry.recovery_seconds=0.1", "retry.give_up_after=1", "retry.attempts=1", "retry.pause_seconds=60", "retry.longest_pause_seconds=60")
    async with opened(tmp_path, refusing_address().removesuffix("/v1"), writer, *gone) as (site, _):
        assert await site.play(site.row("train", 0), member=0, step=1, sampler=Speaker("inventory")) is None
        with pytest.raises(ServersLost):
            await site.play(site.row("train", 0), member=1, step=1, sampler=Speaker("inventory"))
    assert [stop["interrupted"] for stop in writer.stops] == [True]
    assert [record.outcome for record in writer.records] == ["infra_error"] * 2
    assert {record.episode.rpartition("/")[2] for record in writer.records} == {"0"}
