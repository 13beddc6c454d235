"""What a run in the store measured, as a capacity estimate takes it. Reads; computes means and no more."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from agentgym_cli.capacity.measured import ALL, Measured, Turn, require_enough
from agentgym_cli.errors import RecipeError, StoreError
from agentgym_cli.recipe.problems import validated
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.recipe.wording import shown
from agentgym_cli.store import capacity_queries as ask
from agentgym_cli.store.db import Connection
from agentgym_cli.store.opening import open_for_reading
from agentgym_cli.store.queries import find_run
from agentgym_cli.store.rows import RunRow
from agentgym_cli.verbs.likeness import Stored, gpu_of, on_gpus, use_of
from agentgym_cli.verbs.workload import replicas_of

_CHOSEN = ("profile", "profile_reason")
"""Keys of a stored recipe that no recipe may say."""


def measurements_of(name: str, database: Path, *, planned: Run, folders: Sequence[Path], same_devices: bool, gpu: str | None) -> Measured:
    """Times, turns and tokens of a run's training episodes; of its evaluations where it trained nothing, or nothing is to be trained.

    Args:
        planned: the run that is estimated, with which the measured one is compared.
        folders: where the planned run's files are.
        same_devices: nothing else was asked for on the command line.
        gpu: kind of GPU that was asked for there.

    Raises:
        RecipeError: it has too few scored episodes, or its recipe cannot be read.
        StoreError: there is no such store or run.
    """
    if not database.is_file():
        raise StoreError(f"{database}: expected a store, got no such file", "name it with --store FILE, or make it: agentgym store rebuild")
    with open_for_reading(database) as connection:
        row = find_run(connection, name)
        total, trained = _played(connection, row.run, trains=planned.train is not None)
        turns = ask.turn_times(connection, row.run, trained=trained)
        counts = ask.episode_turns(connection, row.run, trained=trained)
        grown, steps = ask.growth(connection, row.run, trained=trained), ask.steps(connection, row.run)
        resets = ask.resets(connection, row.run, trained=trained)
    stored = _stored(row, trained=trained)
    replicas, in_flight = replicas_of(stored.run), _in_flight(total, steps) if trained else None
    places = 1 + _at_worlds(total, steps, turns, trained=trained) / replicas
    found = require_enough(
        Measured(
            source=f"run {row.run}",
            episodes=total.scored,
            turns=tuple(each.turns for each in counts),
            horizon=total.horizon or max((each.turns for each in counts), default=1),
            sampled_turns=tuple(Turn(policy_seconds=turn.policy_seconds, env_seconds=turn.env_seconds) for turn in turns),
            prompt_tokens=total.prompt_tokens,
            response_tokens=total.sampled / total.turns if total.sampled and total.turns else None,
            observation_tokens=grown.observed / grown.turns if grown.observed is not None and grown.turns else None,
            failures=total.infra_errors / total.attempts if total.attempts else 0.0,
            reset_seconds=None
            if resets.seconds is None
            else max(0.0, resets.seconds) / _line(places, in_flight or stored.run.engine.slots, replicas),
            update_seconds=steps.seconds - steps.play if steps.seconds is not None and steps.play is not None else None,
            success=total.success / total.scheduled if total.scheduled else None,
            in_flight=in_flight,
            env_places=places,
            use=ALL,
        )
    )
    use = use_of(stored, found, planned=planned, folders=folders, same_devices=same_devices, gpu=gpu)
    return replace(found, use=use, gpu=gpu_of(stored) if on_gpus(stored.run) else None)


def _played(connection: Connection, run: str, *, trains: bool) -> tuple[ask.PlayedRow, bool]:
    """Episodes of the phase that is planned, where the run has scored any of it, else of the other; and whether they are of training."""
    for trained in (trains, not trains):
        found = ask.played(connection, run, trained=trained)
        if found.scored:
            return found, trained
    return found, trained


def _stored(row: RunRow, *, trained: bool) -> Stored:
    """A run as it is compared. Keys that this version has and its recipe did not are taken as left out."""
    try:
        document = json.loads(row.frozen)
        config = {key: value for key, value in document["config"].items() if key not in _CHOSEN}
        run = validated(config, profile=row.profile, reason=row.profile_reason)
        parts = {str(name): {str(key): str(value) for key, value in part.items()} for name, part in document["parts"].items()}
        folders = tuple(Path(folder) for folder in document["folders"])
    except (ValueError, KeyError, TypeError, AttributeError) as err:
        raise RecipeError(
            f"--from run {row.run}: expected a run whose recipe can be compared with this one, got {type(err).__name__}: {shown(str(err)[:200])}",
            "runs of train and eval have one; imported ones and those of some other versions have none (docs/capacity.md)",
        ) from err
    return Stored(run=run, parts=parts, folders=folders, fingerprint=row.fingerprint, policy=row.policy, trained=trained)


def _in_flight(total: ask.PlayedRow, steps: ask.StepsRow) -> float | None:
    """Seconds of attempts over seconds on the clock: episodes at work at once, on average (Little's law)."""
    if not (total.seconds and steps.steps and steps.play):
        return None
    return total.seconds / (steps.steps * steps.play)


def _line(places: float, in_flight: float, replicas: int) -> float:
    """How many times its own reset an episode waits for on average: all in flight are reset together, by replicas that serve ``places`` at once."""
    return max(1.0, (in_flight / replicas + 1) / 2 / places)


def _at_worlds(total: ask.PlayedRow, steps: ask.StepsRow, turns: list[ask.TurnRow], *, trained: bool) -> float:
    """Calls at work at once, on average (Little's law); 0 where the clock was not kept."""
    if not (trained and total.turns and turns and steps.steps and steps.play):
        return 0.0
    mean = sum(turn.env_seconds for turn in turns) / len(turns)
    return total.turns * mean / (steps.steps * steps.play)
