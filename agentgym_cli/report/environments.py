"""Runs of several environments side by side: each by its latest evaluations, and the two averages over environments of one policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from agentgym_cli.report.accounting import account_cells, averages
from agentgym_cli.report.conditions import Conditions, Incomparable, incomparable
from agentgym_cli.report.figures import Accounting, Averages, FirstAttempts, Ledger
from agentgym_cli.report.model import Latency
from agentgym_cli.store.task_rows import CellRow

_OF_AN_ENVIRONMENT = frozenset({"environment", "dialect", "success rule", "prompt", "horizon"})
"""Conditions that go with an environment: no two have the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """The latest evaluations of a run's splits, counted together."""

    splits: tuple[str, ...]
    accounting: Accounting
    """Under the retry policy; ``first_attempts`` is without it."""
    ledger: Ledger
    first_attempts: FirstAttempts
    latency: Latency | None
    """Over all turns of the run that were kept; None where none was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """One run as what it shows of its environment."""

    run: str
    policy: str
    conditions: Conditions
    whole: Whole


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentAverages:
    """One policy over the environments that it was judged in."""

    policy: str
    runs: tuple[str, ...]
    averages: Averages | None
    """None where several runs of one environment leave open which of them counts."""
    incomparable: tuple[Incomparable, ...]
    """What differs between these runs beyond what goes with an environment; said beside the averages."""
    why: str | None
    """Why there are none."""


def average_environments(found: Sequence[Environment], cells: Mapping[str, Sequence[CellRow]]) -> Iterator[EnvironmentAverages]:
    """Averages for every policy of several environments, in the order in which policies come.

    Args:
        cells: by run, the tasks that its ``whole`` counts, one kind at a time.
    """
    for policy in dict.fromkeys(each.policy for each in found):
        runs = [each for each in found if each.policy == policy]
        names = [each.conditions.env for each in runs]
        if len(set(names)) > 1:
            pooled = account_cells([cell for each in runs for cell in cells[each.run]])
            yield _average(policy, runs, pooled, sorted({name for name in names if names.count(name) > 1}))


def _average(policy: str, runs: Sequence[Environment], pooled: Accounting, twice: Sequence[str]) -> EnvironmentAverages:
    parts = {each.conditions.env: each.whole.accounting for each in runs}
    return EnvironmentAverages(
        policy=policy,
        runs=tuple(each.run for each in runs),
        averages=None if twice else averages("environments", pooled, parts),
        incomparable=tuple(dict.fromkeys(_unlike(runs))),
        why=f"several runs of {', '.join(twice)}: name one of each environment" if twice else None,
    )


def _unlike(runs: Sequence[Environment]) -> Iterator[Incomparable]:
    for other in runs[1:]:
        for item in incomparable(runs[0].conditions, other.conditions):
            if item.what not in _OF_AN_ENVIRONMENT:
                yield item
