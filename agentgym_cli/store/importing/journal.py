"""Another program's run as a run's folder with a journal, so that a store can be made again from it."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from agentgym_cli.errors import RecipeError, StoreError
from agentgym_cli.recipe.wording import shown
from agentgym_cli.store.importing.episodes import ForeignEpisode
from agentgym_cli.store.journal import Journal
from agentgym_cli.store.records import (
    ImportedAttemptRecord,
    ImportedRunRecord,
    ImportedScheduledRecord,
    ImportedTurnRecord,
    OutcomeRecord,
    Record,
    SegmentRecord,
)

SPLIT = "imported"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """What an import is called and where it came from."""

    run: str
    imported: str
    """``agentgym-rl`` or ``agenttraj``."""
    source_digest: str
    """SHA-256 over the files."""
    verb: str
    now: str
    """UTC, ISO 8601."""


def refuse_name(run: str, folder: Path) -> None:
    """Raises RecipeError for a name that could leave the folder of runs, or that a run there has."""
    if not _NAME.fullmatch(run):
        raise RecipeError(f"--run: expected letters, digits, '.', '_' and '-', got {shown(run)}", "choose another name")
    if folder.exists():
        raise RecipeError(f"{folder}: expected no run of that name, got one", "choose another name: --run NAME")


def write_import(folder: Path, about: Import, episodes: Iterable[ForeignEpisode]) -> int:
    """Make the folder of a run from foreign episodes, whole or not at all; returns how many there are.

    Raises:
        RecipeError: the files hold none, or one of them is refused.
        StoreError: the folder cannot be written.
    """
    partial = folder.with_name(f".{folder.name}.importing")
    count = 0
    try:
        partial.mkdir(parents=True)
        with Journal(partial, 1) as journal:
            for record in _records(about, episodes):
                journal.append(record)
                count += isinstance(record, ImportedAttemptRecord)
        if not count:
            raise RecipeError(f"{about.run}: expected episodes in the files, got none", "docs/store.md says what each format looks like")
        partial.rename(folder)
    except OSError as err:
        raise StoreError(f"{folder}: cannot write: {err.strerror or err}", "free some space, or name another place: --runs-dir DIR") from err
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return count


def _records(about: Import, episodes: Iterable[ForeignEpisode]) -> Iterator[Record]:
    samples: Counter[tuple[str, int, str]] = Counter()
    opened = False
    for episode in episodes:
        if not opened:
            yield from _opening(about, episode.env)
            opened = True
        yield from _episode(about, episode, samples)
    if opened:
        yield SegmentRecord(run=about.run, segment=1, resumed_from_step=None, started=about.now, ended=about.now, status="finished")


def _opening(about: Import, env: str) -> Iterator[Record]:
    yield ImportedRunRecord(
        run=about.run,
        name=about.run,
        verb=about.verb,
        env=env,
        created=about.now,
        imported=about.imported,
        source_digest=about.source_digest,
    )
    yield SegmentRecord(run=about.run, segment=1, resumed_from_step=None, started=about.now)


def _episode(about: Import, episode: ForeignEpisode, samples: Counter[tuple[str, int, str]]) -> Iterator[Record]:
    task = f"{episode.env}_{episode.number}"
    place = (episode.phase, episode.step, task)
    sample = samples[place]
    samples[place] += 1
    key = f"{episode.phase}/{SPLIT}/{episode.step}/{task}/{sample}"
    yield ImportedScheduledRecord(
        run=about.run,
        segment=1,
        episode=key,
        phase=episode.phase,
        split=SPLIT,
        step=episode.step,
        task=task,
        task_index=episode.number,
        task_digest="",
        category="",
        goal="",
        sample=sample,
    )
    yield ImportedAttemptRecord(
        run=about.run,
        segment=1,
        episode=key,
        attempt=1,
        outcome=episode.outcome,
        detail="",
        reward=episode.reward,
        turns_count=len(episode.turns),
        final_observation=episode.final_observation,
        turns=tuple(
            ImportedTurnRecord(turn=number, observation=turn.observation, text=turn.text) for number, turn in enumerate(episode.turns, start=1)
        ),
    )
    if episode.outcome is not None:
        yield OutcomeRecord(
            run=about.run,
            segment=1,
            episode=key,
            attempt=1,
            attempts=1,
            outcome=episode.outcome,
            first_outcome=episode.outcome,
            reward=episode.reward,
            by_verifier=False,
        )
