"""An older store is brought up to date with a copy beside it, or left as it was."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb
import pytest

from agentgym_cli.errors import StoreError
from agentgym_cli.store.db import rows_of
from agentgym_cli.store.migrations import MIGRATIONS, migrate
from agentgym_cli.store.opening import open_for_reading, open_for_writing


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A store of the first version with an episode of two turns that was settled."""
    database = tmp_path / "old.duckdb"
    key = "'r1', 1, 'eval/a/0/t_1/0'"
    with duckdb.connect(str(database)) as made:
        migrate(made, MIGRATIONS[:2])
        made.execute("insert into runs values ('r1', 'n', 'eval', 'laptop', 'why', 'local', 'd', 'textcraft', 'random', 7, 'then', '{}', '{}')")
        made.execute("insert into segments values ('r1', 1, null, 'then', null, null)")
        made.execute(f"insert into scheduled values ({key}, 'eval', 'a', 0, 't_1', 1, '', 'depth 1', '', 0, 6)")
        made.execute(
            f"insert into attempts values ({key}, 1, 7, 'done', 'success', false, null, '', false, 1, null, 2, 0, 0, 8, null, 1.5, 1, 0.5,"
            " 'http://a', 'done', 'then', [1, 2], [true, false], [0.5, 0])"
        )
        made.execute(f"insert into turns select {key}, 1, n, 'o', 'x', 'x', true, 1, true, 4, 9, 1, 1 from range(1, 3) as t(n)")
        made.execute(f"insert into outcomes values ({key}, 1, 1, 'success', 'success', 1, false)")
        made.execute("insert into metrics values ('r1', 1, 'eval', 0, 'loss', 0.25)")
    return database


@pytest.mark.slow
def test_a_store_of_the_first_version_keeps_its_rows_and_gets_what_reports_count(old: Path) -> None:
    with open_for_reading(old) as opened:
        assert rows_of(opened, "select episode, outcome, turns_count, spent_attempts, spent_seconds from episodes_final") == [
            ("eval/a/0/t_1/0", "success", 2, 1, 1.5)
        ]
        assert rows_of(opened, "select token_ids, action_mask, logprobs, run_turns from attempts_final") == [
            ([1, 2], [True, False], [0.5, 0.0], None)
        ]
        assert rows_of(opened, "select turn, text, cut from turns order by turn") == [(1, "x", False), (2, "x", False)]
        assert rows_of(opened, "select name, value from metrics_final") == [("loss", 0.25)]
        assert rows_of(opened, "select seed, imported from runs") == [(7, None)]


@pytest.mark.slow
def test_the_copy_is_the_store_as_it_was_and_is_named_after_the_migration(old: Path) -> None:
    before = old.read_bytes()
    with open_for_writing(old):
        pass
    copy = old.with_name("old.duckdb.before-m003_drift")
    assert copy.read_bytes() == before
    with open_for_writing(old):
        pass
    assert sorted(path.name for path in old.parent.iterdir()) == ["old.duckdb", copy.name]


@pytest.mark.slow
def test_another_copy_under_that_name_is_left_alone(old: Path) -> None:
    copy = old.with_name("old.duckdb.before-m003_drift")
    copy.write_bytes(b"mine")
    with open_for_writing(old):
        pass
    assert copy.read_bytes() == b"mine"
    assert old.with_name("old.duckdb.before-m003_drift.2").is_file()


def test_where_no_copy_can_be_written_nothing_is_changed(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: Path, target: Path) -> None:
        target.write_bytes(b"a part")
        raise OSError(28, "No space left on device")

    before = old.read_bytes()
    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(StoreError, match=r"old\.duckdb: expected room for a copy .* got: No space left on device"), open_for_writing(old):
        pass
    assert old.read_bytes() == before
    assert [path.name for path in old.parent.iterdir()] == ["old.duckdb"]


@pytest.mark.slow
def test_a_new_or_empty_store_needs_no_copy(tmp_path: Path) -> None:
    duckdb.connect(str(tmp_path / "empty.duckdb")).close()
    for name in ("new.duckdb", "empty.duckdb"):
        with open_for_writing(tmp_path / name):
            pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty.duckdb", "new.duckdb"]
