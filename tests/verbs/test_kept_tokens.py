"""Which trajectories of a run an exported model is held against."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agentgym_cli.episode.types import Outcome, ScheduledEpisode, Trajectory
from agentgym_cli.recipe.resolve import resolve
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.verbs.progress import Silent
from agentgym_cli.verbs.recorder import Recorder
from tests.verbs.builders import make_attempt, make_episode

pytestmark = pytest.mark.slow
kept_tokens: Any = pytest.importorskip("agentgym_cli.verbs.kept_tokens")


def run_of(*overrides: str, keep: str = "all") -> Run:
    return resolve("textcraft_grpo.yaml", ["profile=rehearsal", f"store.keep_tokens={keep}", *overrides]).run


def trajectory(version: int, mark: int, versions: tuple[tuple[int, int], ...] = ()) -> Trajectory:
    return Trajectory(token_ids=(mark, mark + 1), action_mask=(False, True), logprobs=(0.0, -0.5), policy_version=version, versions=versions)


@contextmanager
def segment(folder: Path, number: int, resumed: int | None) -> Iterator[Recorder]:
    recorder = Recorder(folder=folder, run="r", segment=number, database=folder / "x.duckdb", keep_tokens="all", progress=Silent())
    recorder.begin_segment(resumed, "2026-11-30T12:00:00.000+00:00")
    yield recorder
    recorder.close()


def play(recorder: Recorder, episode: ScheduledEpisode, kept: Trajectory) -> None:
    recorder.schedule([episode])
    recorder.attempt(make_attempt(episode, outcome=Outcome.FAILURE, trajectory=kept))


def first_tokens(folder: Path, run: Run, step: int) -> list[int]:
    return [kept.token_ids[0] for kept in kept_tokens.kept_of(folder, run, step)]


def test_what_the_weights_of_the_step_sampled_and_what_counts_is_taken(tmp_path: Path) -> None:
    with segment(tmp_path, 1, None) as recorder:
        play(recorder, make_episode(step=1), trajectory(0, 10))
        play(recorder, make_episode(step=2), trajectory(1, 20))
        play(recorder, make_episode(step=3), trajectory(2, 30))
    # The second segment goes on from step 1: what the first did behind it is superseded, and was of other weights.
    with segment(tmp_path, 2, 1) as recorder:
        play(recorder, make_episode(step=2), trajectory(1, 40))
        play(recorder, make_episode(step=3), trajectory(2, 50))
        play(recorder, make_episode(step=3, sample=1), trajectory(2, 60, ((2, 1), (3, 1))))
        play(recorder, make_episode(step=3, phase="eval_after"), trajectory(3, 70))
    assert [first_tokens(tmp_path, run_of(), step) for step in (0, 1, 2, 3)] == [[10], [40], [50], [70]]
    assert first_tokens(tmp_path, run_of(keep="none"), 3) == []


def test_the_temperature_is_that_of_what_was_drawn(tmp_path: Path) -> None:
    with segment(tmp_path, 1, None) as recorder:
        play(recorder, make_episode(step=2), trajectory(1, 10))
        play(recorder, make_episode(step=1, phase="eval_during"), trajectory(1, 20))

    def degrees(*overrides: str) -> list[float]:
        return [kept.temperature for kept in kept_tokens.kept_of(tmp_path, run_of("policy.sampling.temperature=0.7", *overrides), 1)]

    assert degrees() == [0.7, 0.7]
    assert degrees("evaluation.temperature=0.4") == [0.7, 0.4]
    assert degrees("evaluation.temperature=greedy") == [0.7, 1.0]
    # Log-probabilities of a part of the vocabulary are not the model's own; a greedy evaluation draws from none.
    assert degrees("policy.sampling.top_k=5", "evaluation.temperature=greedy") == [1.0]
