"""Foreign conversations as episodes: what is in the files and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agentgym_cli.env.dialect import Dialect
from agentgym_cli.errors import RecipeError
from agentgym_cli.store.importing.rows import Row, read_rows

_STEP = re.compile(r"step([0-9]{1,9})")
_BATCH = re.compile(r"steptest_batch_([0-9]{1,9})")
_RANK = re.compile(r"([0-9]{1,6})\.json")
_TASK = re.compile(r"(?P<env>[A-Za-z][A-Za-z0-9_.-]{0,63})_(?P<number>[0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class ForeignTurn:
    """What was said to the policy since its last words, and its answer."""

    observation: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignEpisode:
    """One conversation."""

    phase: str
    step: int
    env: str
    number: int
    reward: float | None
    outcome: str | None
    """By the success rule; None without a reward."""
    turns: tuple[ForeignTurn, ...]
    final_observation: str


def agentgym_rl_files(path: Path) -> list[tuple[str, int, Path]]:
    """Phase, step and file of every ``step{N}/{rank}.json`` and ``steptest_batch_{i}/{rank}.json`` in a folder, in order.

    Raises:
        RecipeError: there is none.
    """
    found = []
    for folder in path.glob("step*"):
        step, batch = _STEP.fullmatch(folder.name), _BATCH.fullmatch(folder.name)
        for file in folder.glob("*.json") if step or batch else ():
            rank = _RANK.fullmatch(file.name)
            if rank and step:
                found.append(("train", int(step[1]), 0, int(rank[1]), file))
            elif rank and batch:
                found.append(("eval", 0, int(batch[1]), int(rank[1]), file))
    if not found:
        raise RecipeError(f"{path}: expected step1/0.json, step1/1.json and so on, got none", "name the folder that rollout_log_dir named")
    return [(phase, step, file) for phase, step, _, _, file in sorted(found)]


def agentgym_rl_episodes(file: Path, phase: str, step: int, dialect: Dialect) -> Iterator[ForeignEpisode]:
    """Episodes of one file of AgentGym-RL: a list of {item_id, conversations: [{role, content}], reward}. Raises RecipeError, naming file:line."""
    for row in read_rows(file):
        row.only("item_id", "conversations", "reward")
        number = row.value["item_id"]
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 10**9:
            raise row.wrong("item_id to be a whole number from 0", number)
        spoken = [(_role(row, str(m["role"]), "assistant", ("user", "system")), str(m["content"])) for m in row.messages("role", "content")]
        # AgentGym-RL puts its instructions and a canned answer before the first observation.
        given = [who for who, _ in spoken[:3]] == [False, True, False]
        turns, last = _turns(spoken[2:] if given else spoken)
        reward = row.number("reward")
        met = dialect.spec.success.met([reward])
        yield ForeignEpisode(
            phase=phase,
            step=step,
            env=dialect.name,
            number=number,
            reward=reward,
            outcome="success" if met else "failure",
            turns=turns,
            final_observation=last,
        )


def agenttraj_episodes(file: Path, env: str | None) -> Iterator[ForeignEpisode]:
    """Episodes of one file of AgentTraj: a list of {item_id, conversations: [{from, value, loss}]}. Raises RecipeError, naming file:line.

    Args:
        env: what to call the environment; None takes the beginning of ``item_id``, which must be the same in all rows then.
    """
    seen = env
    for row in read_rows(file):
        row.only("item_id", "conversations")
        task = _TASK.fullmatch(row.value["item_id"]) if isinstance(row.value["item_id"], str) else None
        if task is None:
            raise row.wrong("item_id to be a name and a number like textcraft_31", row.value["item_id"])
        seen = seen or task["env"]
        if env is None and task["env"] != seen:
            raise row.wrong(f"tasks of {seen}, or --env", row.value["item_id"])
        messages = row.messages("from", "value", ("loss",))
        spoken = [(_role(row, str(m["from"]), "gpt", ("human", "system")), str(m["value"])) for m in messages]
        given = len(spoken) > 1 and [who for who, _ in spoken[:2]] == [False, True] and messages[1].get("loss") is not True
        turns, last = _turns(spoken[2:] if given else spoken)
        if not turns:
            raise row.wrong("a turn of the policy", "none")
        yield ForeignEpisode(
            phase="eval", step=0, env=seen, number=int(task["number"]), reward=None, outcome=None, turns=turns, final_observation=last
        )


def _role(row: Row, role: str, policy: str, others: tuple[str, ...]) -> bool:
    """True when the policy speaks."""
    if role != policy and role not in others:
        raise row.wrong(f"who speaks to be {policy}, {' or '.join(others)}", role)
    return role == policy


def _turns(spoken: list[tuple[bool, str]]) -> tuple[tuple[ForeignTurn, ...], str]:
    turns, heard = [], list[str]()
    for by_policy, text in spoken:
        if by_policy:
            turns.append(ForeignTurn("\n".join(heard), text))
            heard = []
        else:
            heard.append(text)
    return tuple(turns), "\n".join(heard)
