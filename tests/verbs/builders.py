"""Small episodes, attempts and results for the tests of verbs."""

from __future__ import annotations

from agentgym_cli.env.contract import InfraCause
from agentgym_cli.episode.runner import EpisodeResult
from agentgym_cli.episode.types import AttemptResult, Outcome, ScheduledEpisode, StopReason, Task, Trajectory, Turn


def make_task(index: int = 0, split: str = "train") -> Task:
    return Task(id=f"textcraft_{index}", index=index, split=split, category="depth 1", goal="craft a lamp", digest="")


def make_episode(index: int = 0, *, phase: str = "train", step: int = 1, sample: int = 0) -> ScheduledEpisode:
    return ScheduledEpisode(phase=phase, step=step, task=make_task(index), sample=sample, horizon=4)


def make_turn(*, valid: bool = True, reward: float | None = 0.0) -> Turn:
    return Turn(
        observation="a shelf",
        text="Action: inventory",
        action="inventory",
        valid=valid,
        reward=reward,
        done=False,
        response_tokens=3,
        context_tokens=20,
        policy_seconds=0.5,
        env_seconds=0.25,
    )


def make_attempt(
    episode: ScheduledEpisode,
    *,
    attempt: int = 1,
    outcome: Outcome = Outcome.SUCCESS,
    turns: tuple[Turn, ...] = (),
    cause: InfraCause | None = None,
    trajectory: Trajectory | None = None,
) -> AttemptResult:
    scored = outcome in (Outcome.SUCCESS, Outcome.FAILURE)
    return AttemptResult(
        episode=episode,
        attempt=attempt,
        seed=7,
        stop=StopReason.DONE if outcome is Outcome.SUCCESS else StopReason.HORIZON if scored else StopReason.ENV_ERROR,
        outcome=outcome,
        truncated=outcome is Outcome.FAILURE,
        cause=cause,
        detail="",
        action_induced=False,
        reward=(1.0 if outcome is Outcome.SUCCESS else 0.0) if scored else None,
        final_observation="done",
        turns=turns,
        trajectory=trajectory,
        prompt_tokens=20,
        action_tokens=3 * len(turns),
        seconds=1.5,
        policy_seconds=1.0,
        env_seconds=0.5,
        replica="http://127.0.0.1:1",
    )


def make_result(episode: ScheduledEpisode, *attempts: AttemptResult) -> EpisodeResult:
    return EpisodeResult(episode=episode, attempts=attempts)
