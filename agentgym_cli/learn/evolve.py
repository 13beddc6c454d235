"""AgentEvol, arXiv 2406.04151: explore with the present policy, keep what was paid enough, learn it beside the demonstrations, repeat.

    D_i = D_0 + {episodes of iteration i with return >= threshold},    L = supervised loss over D_i

The loss and its normalisation are ``supervised.py``'s; every episode of D_i is drawn equally often. An explored episode is learned as the tokens that
were sampled. Assumes that the return tells good episodes from bad ones; each iteration goes on from the weights of the one before.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentgym_cli.episode.types import Trajectory
from agentgym_cli.errors import TrainerError
from agentgym_cli.learn.pairs import Candidate

_FIELDS = {"task", "reward", "success", "token_ids", "action_mask", "policy_version"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Iteration:
    """One exploration and the updates behind it."""

    number: int
    """From 1."""
    first: int
    """Its first step."""
    last: int


def iteration_at(step: int, *, iteration_steps: int, steps: int) -> Iteration:
    """The iteration that ``step`` (the first is 1) belongs to; pure, so a resume needs no state."""
    number = (step - 1) // iteration_steps + 1
    return Iteration(number=number, first=(number - 1) * iteration_steps + 1, last=min(number * iteration_steps, steps))


def kept(candidates: Sequence[Candidate], at_least: float | None) -> list[Candidate]:
    """Episodes worth learning: with a return of ``at_least``, or the successes where it is None."""
    return [each for each in candidates if (each.success if at_least is None else each.reward >= at_least)]


def write_explored(path: Path, candidates: Sequence[Candidate]) -> None:
    """Keep explored episodes for a resume, one JSON object a line, the file whole or not at all. Raises TrainerError."""
    lines = [
        json.dumps(
            {
                "task": each.task,
                "reward": each.reward,
                "success": each.success,
                "token_ids": each.trajectory.token_ids,
                "action_mask": [int(sampled) for sampled in each.trajectory.action_mask],
                "policy_version": each.trajectory.policy_version,
            },
            sort_keys=True,
        )
        for each in candidates
    ]
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        aside.replace(path)
    except OSError as err:
        aside.unlink(missing_ok=True)
        raise TrainerError(f"{path}: cannot write what was explored: {err.strerror or err}", "free some space, then resume the run") from err


def read_explored(path: Path) -> list[Candidate]:
    """What ``write_explored`` wrote; log-probabilities are 0, learning it needs none. Raises TrainerError, naming file:line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as err:
        raise TrainerError(f"{path}: expected the explored episodes of this iteration, got {type(err).__name__}", "start the run anew") from err
    return [_candidate(line, f"{path}:{number}") for number, line in enumerate(lines, start=1)]


def _candidate(line: str, where: str) -> Candidate:
    try:
        said = json.loads(line)
        if not isinstance(said, dict) or set(said) != _FIELDS:
            raise ValueError("another form")
        ids, mask = tuple(int(each) for each in said["token_ids"]), tuple(bool(each) for each in said["action_mask"])
        if len(ids) != len(mask):
            raise ValueError("a mask of another length")
        trajectory = Trajectory(token_ids=ids, action_mask=mask, logprobs=(0.0,) * len(ids), policy_version=int(said["policy_version"]))
        return Candidate(task=int(said["task"]), reward=float(said["reward"]), success=bool(said["success"]), trajectory=trajectory)
    except (ValueError, TypeError, RecursionError) as err:
        raise TrainerError(f"{where}: expected an explored episode, got {str(err)[:100]}", "start the run anew") from err
