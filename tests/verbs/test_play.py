"""What the phases of a run share."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from agentgym_cli.env.dialect import load_dialect
from agentgym_cli.recipe.resolve import resolve
from agentgym_cli.verbs.history import EMPTY
from agentgym_cli.verbs.play import stage_of
from agentgym_cli.verbs.progress import Silent
from agentgym_cli.verbs.recorder import Recorder
from tests.episode.fakes import FakeEnv
from tests.recipe.builders import RECIPE, has, write_recipe
from tests.verbs.builders import make_task


def test_every_episode_knows_all_pinned_tasks_of_the_run_and_why_a_server_may_number_them_otherwise(tmp_path: Path) -> None:
    run = resolve(write_recipe(tmp_path, RECIPE), survey=has()).run
    dialect = load_dialect("textcraft")
    tasks = [replace(make_task(5), digest="a" * 16), replace(make_task(12, split="test"), digest="b" * 16), make_task(7)]
    recorder = Recorder(folder=tmp_path, run="r", segment=1, database=tmp_path / "r.duckdb", keep_tokens=run.store.keep_tokens, progress=Silent())
    try:
        pinned = stage_of(run, dialect, FakeEnv(), tasks, recorder, EMPTY, Silent()).rules.pinned
    finally:
        recorder.close()
    assert dict(pinned.numbers) == {"a" * 16: 5, "b" * 16: 12}
    assert (pinned.order_note, pinned.content_note) == (dialect.spec.order_note, dialect.spec.content_note)
