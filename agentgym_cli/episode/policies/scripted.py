"""Policies that say known actions: the speaker they share, and the one that reads them from a file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentgym_cli.env.contract import EnvSession
from agentgym_cli.episode.actions import ActionFormat, action_text
from agentgym_cli.episode.clock import EpisodeClock
from agentgym_cli.episode.policies.protocol import PolicyReply
from agentgym_cli.episode.types import ScheduledEpisode, Trajectory
from agentgym_cli.errors import PolicyError, RecipeError

_KEYS = {"task", "actions"}


class Speaker:
    """Says its actions one after the other and nothing ('') after the last; an episode it does not finish is its failure."""

    def __init__(self, actions: Sequence[str], *, action_format: ActionFormat) -> None:
        self._remaining = iter(tuple(actions))
        self._action_format = action_format

    async def act(self, observation: str) -> PolicyReply:
        """The next action, whatever was observed."""
        action = next(self._remaining, None)
        text = "" if action is None else action_text(action, self._action_format)
        return PolicyReply(text=text, response_tokens=0, context_tokens=0, cut=False)

    def trajectory(self) -> Trajectory | None:
        """None: it has no tokens."""
        return None

    async def close(self) -> None:
        """Nothing to release."""


class ScriptedPolicy:
    """Plays a fixed list of actions for each task."""

    name = "scripted"

    def __init__(self, actions: Mapping[str, Sequence[str]], *, action_format: ActionFormat) -> None:
        self._actions = actions
        self._action_format = action_format

    @classmethod
    def from_file(cls, path: Path, *, action_format: ActionFormat) -> ScriptedPolicy:
        """Read JSON lines ``{"task": id, "actions": [text, ...]}``. Raises RecipeError that names file and line."""
        return cls(read_script(path), action_format=action_format)

    def waves(self, episodes: Sequence[ScheduledEpisode]) -> list[list[ScheduledEpisode]]:
        """One list: nobody waits. Raises PolicyError when a task has no line in the script."""
        missing = sorted({episode.task.id for episode in episodes} - self._actions.keys())
        if missing:
            raise PolicyError(f"scripted policy: expected actions for every scheduled task, got none for {', '.join(missing[:5])}")
        return [list(episodes)]

    async def open(self, episode: ScheduledEpisode, *, seed: int, session: EnvSession, clock: EpisodeClock) -> Speaker:
        """Begin at the first action of the task's list."""
        return Speaker(self._actions[episode.task.id], action_format=self._action_format)


def read_script(path: Path) -> dict[str, tuple[str, ...]]:
    """Actions by task id. Raises RecipeError for anything but the two keys, a repeated task, or what is not text."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as err:
        raise RecipeError(f"{path}: expected a readable script, got {err}") from err
    script: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        task, actions = _entry(line, where=f"{path}:{number}")
        if task in script:
            raise RecipeError(f"{path}:{number}: expected every task once, got {task!r} again")
        script[task] = actions
    return script


def _entry(line: str, *, where: str) -> tuple[str, tuple[str, ...]]:
    try:
        entry = json.loads(line)
    except ValueError as err:
        raise RecipeError(f"{where}: expected a JSON object, got {err}") from err
    if not isinstance(entry, dict) or set(entry) != _KEYS:
        got = ", ".join(sorted(entry)) if isinstance(entry, dict) else type(entry).__name__
        raise RecipeError(f"{where}: expected an object with the keys actions and task, got {got}")
    task, actions = entry["task"], entry["actions"]
    if not isinstance(task, str):
        raise RecipeError(f"{where}: expected task to be a string, got {task!r:.200}")
    if not isinstance(actions, list) or not all(isinstance(action, str) for action in actions):
        raise RecipeError(f"{where}: expected actions to be a list of strings, got {actions!r:.200}")
    return task, tuple(actions)
