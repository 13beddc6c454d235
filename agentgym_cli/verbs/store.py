"""``agentgym store check``, ``export`` and ``import``: whether a store can be believed, its tables as files, another program's runs in it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Literal

from agentgym_cli.env.dialect import load_dialect
from agentgym_cli.errors import RecipeError, StoreError
from agentgym_cli.store.check import RunCheck, check_store
from agentgym_cli.store.db import rows_of
from agentgym_cli.store.export import Exported, export_parquet
from agentgym_cli.store.importing.episodes import ForeignEpisode, agentgym_rl_episodes, agentgym_rl_files, agenttraj_episodes
from agentgym_cli.store.importing.journal import Import, refuse_name, write_import
from agentgym_cli.store.loader import load
from agentgym_cli.store.opening import open_for_reading

Format = Literal["agentgym-rl", "agenttraj"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What an import brought."""

    run: str
    folder: Path
    files: int
    episodes: int


def check(database: Path, runs_dir: Path) -> tuple[RunCheck, ...]:
    """What is wrong with a store, run by run. Raises StoreError when there is no store."""
    with open_for_reading(database) as connection:
        return check_store(connection, runs_dir)


def export(database: Path, folder: Path, *, force: bool) -> tuple[Exported, ...]:
    """Every table and view as a Parquet file. Raises StoreError."""
    with open_for_reading(database) as connection:
        return export_parquet(connection, folder, force=force)


def import_run(path: Path, *, form: Format, run: str, database: Path, runs_dir: Path, env: str | None) -> Imported:
    """Import another program's episodes as a run with a folder of its own, and load it; all of it or nothing.

    Raises:
        RecipeError: the name is taken or no name, or a file says something that cannot be meant; names file:line.
        StoreError: the run's folder or the store cannot be written.
    """
    folder = runs_dir / run
    refuse_name(run, folder)
    _refuse_known(run, database)
    files = agentgym_rl_files(path) if form == "agentgym-rl" else [("eval", 0, file) for file in _agenttraj_files(path)]
    about = Import(
        run=run,
        imported=form,
        source_digest=_digest([file for _, _, file in files]),
        verb="train" if any(phase == "train" for phase, _, _ in files) else "eval",
        now=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    count = write_import(folder, about, _episodes(files, form, env))
    try:
        load(folder, database)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return Imported(run=run, folder=folder, files=len(files), episodes=count)


def _refuse_known(run: str, database: Path) -> None:
    if database.is_file():
        with open_for_reading(database) as connection:
            if rows_of(connection, "select 1 from runs where run = ?", [run]):
                raise StoreError(f"{database}: expected no run {run!r}, got one", "choose another name: --run NAME")


def _agenttraj_files(path: Path) -> list[Path]:
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        raise RecipeError(f"{path}: expected files like textcraft_train.json, got none", "name one file, or a folder of them")
    return files


def _digest(files: Sequence[Path]) -> str:
    """Over the digests of the files, in order."""
    whole = sha256()
    for file in files:
        try:
            whole.update(sha256(file.read_bytes()).digest())
        except OSError as err:
            raise RecipeError(f"{file}: cannot read it: {err.strerror or err}", "name a file or folder that is there") from err
    return whole.hexdigest()


def _episodes(files: Sequence[tuple[str, int, Path]], form: Format, env: str | None) -> Iterator[ForeignEpisode]:
    if form == "agenttraj":
        for _, _, file in files:
            yield from agenttraj_episodes(file, env)
        return
    if env is None:
        raise RecipeError("--env: expected the dialect of the logs, whose files do not name it, got none", "e.g. --env textcraft")
    dialect = load_dialect(env)
    for phase, step, file in files:
        yield from agentgym_rl_episodes(file, phase, step, dialect)
