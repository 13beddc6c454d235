"""What a run in the store measured, as a capacity estimate takes it. Reads; computes means and no more."""

from __future__ import annotations

import json
from pathlib import Path

from agentgym_cli.capacity.measured import Measured, Turn, require_enough
from agentgym_cli.errors import StoreError
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.store import capacity_queries as ask
from agentgym_cli.store.opening import open_for_reading
from agentgym_cli.store.queries import find_run
from agentgym_cli.store.rows import RunRow
from agentgym_cli.verbs.estimate import replicas_of


def measurements_of(name: str, database: Path, *, planned: Run, same_devices: bool) -> Measured:
    """Times, turns and tokens of a run's training episodes, or of its evaluations where it trained nothing.

    Args:
        planned: the run that is estimated; times of the policy are taken where the measured run had the same model and engine.
        same_devices: nothing else was asked for on the command line.

    Raises:
        RecipeError: it has too few scored episodes.
        StoreError: there is no such store or run.
    """
    if not database.is_file():
        raise StoreError(f"{database}: expected a store, got no such file", "name it with --store FILE, or make it: agentgym store rebuild")
    with open_for_reading(database) as connection:
        row = find_run(connection, name)
        training = ask.played(connection, row.run, trained=True)
        trained = training.scored > 0
        total = training if trained else ask.played(connection, row.run, trained=False)
        turns = ask.turn_times(connection, row.run, trained=trained)
        counts = ask.episode_turns(connection, row.run, trained=trained)
        grown, steps = ask.growth(connection, row.run, trained=trained), ask.steps(connection, row.run)
    return require_enough(
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
            reset_seconds=None,
            update_seconds=steps.seconds - steps.play if steps.seconds is not None and steps.play is not None else None,
            success=total.success / total.scheduled if total.scheduled else None,
            in_flight=_in_flight(total, steps) if trained else None,
            env_places=1 + _at_worlds(total, steps, turns, trained=trained) / replicas_of(planned),
            same_policy=same_devices and _same_policy(row, planned),
        )
    )


def _in_flight(total: ask.PlayedRow, steps: ask.StepsRow) -> float | None:
    """Seconds of attempts over seconds on the clock: episodes at work at once, on average (Little's law)."""
    if not (total.seconds and steps.steps and steps.play):
        return None
    return total.seconds / (steps.steps * steps.play)


def _at_worlds(total: ask.PlayedRow, steps: ask.StepsRow, turns: list[ask.TurnRow], *, trained: bool) -> float:
    """Calls at work at once, on average (Little's law); 0 where the clock was not kept."""
    if not (trained and total.turns and turns and steps.steps and steps.play):
        return 0.0
    mean = sum(turn.env_seconds for turn in turns) / len(turns)
    return total.turns * mean / (steps.steps * steps.play)


def _same_policy(row: RunRow, planned: Run) -> bool:
    """Whether a run had the planned run's model and engine, by its frozen recipe."""
    try:
        config = json.loads(row.frozen)["config"]
        return bool(config["policy"]["model"]["path"] == planned.policy.own_model.path and config["engine"]["kind"] == planned.engine.kind)
    except (ValueError, KeyError, TypeError):
        return False
