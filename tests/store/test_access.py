"""Who may hold a store, for how long, and what the others are told."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentgym_cli.errors import ExitCode, StoreError
from agentgym_cli.store.db import Patience, StoreBusy, rows_of
from agentgym_cli.store.loader import load
from agentgym_cli.store.opening import open_for_reading, open_for_writing
from tests.store.builders import make_run, make_segment, write_journal

HOLD = "import sys, duckdb; held = duckdb.connect(sys.argv[1]); print('held', flush=True); sys.stdin.read()"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    database = tmp_path / "x.duckdb"
    with open_for_writing(database):
        pass
    return database


@pytest.fixture
def holder(store: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has the store open until its standard input ends."""
    with subprocess.Popen([sys.executable, "-c", HOLD, str(store)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        if process.stdin and not process.stdin.closed:
            process.stdin.close()


def release(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    process.wait(timeout=30)


@pytest.mark.slow
def test_a_held_store_is_busy_and_its_holder_is_named(tmp_path: Path, store: Path, holder: subprocess.Popen[str]) -> None:
    run_dir = write_journal(tmp_path / "r1", [make_run(), make_segment()])
    pauses: list[float] = []
    with pytest.raises(StoreBusy, match=rf"held by process {holder.pid} \(python") as caught:
        load(run_dir, store, Patience(seconds=1.0, pause=0.1, sleep=pauses.append))
    assert caught.value.exit_code == ExitCode.STORE
    assert pauses == [0.1, 0.2, 0.4]
    with pytest.raises(StoreBusy), open_for_reading(store, Patience(seconds=0)):
        pass


@pytest.mark.slow
def test_a_store_that_becomes_free_while_waiting_is_used(tmp_path: Path, store: Path, holder: subprocess.Popen[str]) -> None:
    run_dir = write_journal(tmp_path / "r1", [make_run(), make_segment()])
    report = load(run_dir, store, Patience(seconds=1.0, sleep=lambda seconds: release(holder)))
    assert report.records == 2


@pytest.mark.slow
def test_a_store_is_free_again_after_a_load_and_after_a_failed_one(tmp_path: Path, store: Path) -> None:
    load(write_journal(tmp_path / "r1", [make_run(), make_segment()]), store)
    with pytest.raises(StoreError, match="own record"):
        load(write_journal(tmp_path / "r2", [make_segment()]), store)
    code = "import sys, duckdb; print(duckdb.connect(sys.argv[1]).execute('select count(*) from runs').fetchall())"
    done = subprocess.run([sys.executable, "-c", code, str(store)], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[(1,)]\n"


@pytest.mark.slow
def test_several_readers_read_at_once(store: Path) -> None:
    with open_for_reading(store) as first, open_for_reading(store) as second:
        assert rows_of(first, "select count(*) from runs") == rows_of(second, "select count(*) from runs") == [(0,)]


@pytest.mark.slow
def test_a_reader_cannot_write_and_reads_no_files(store: Path) -> None:
    with pytest.raises(StoreError, match="read-only"), open_for_reading(store) as connection:
        connection.execute("delete from runs")
    with pytest.raises(StoreError, match="disabled by configuration"), open_for_reading(store) as connection:
        rows_of(connection, "select * from read_text('/etc/hostname')")


def test_a_missing_store_is_not_made_by_reading(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no store"), open_for_reading(tmp_path / "x.duckdb"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_store_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.duckdb").write_text("hello\n" * 4000)
    for opening in (open_for_reading, open_for_writing):
        with pytest.raises(StoreError, match=r"x\.duckdb: expected a store, got a file of another kind"), opening(tmp_path / "x.duckdb"):
            pass


@pytest.mark.slow
def test_several_runs_load_into_one_store_at_the_same_time(tmp_path: Path, store: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from agentgym_cli.store.loader import load; from agentgym_cli.store.db import Patience\n"
        "load(Path(sys.argv[1]), Path(sys.argv[2]), Patience(seconds=60))"
    )
    runs = [write_journal(tmp_path / run, [make_run(run), make_segment(run=run)]) for run in ("r1", "r2", "r3")]
    loads = [subprocess.Popen([sys.executable, "-c", code, str(run), str(store)]) for run in runs]
    assert [process.wait(timeout=120) for process in loads] == [0, 0, 0]
    with open_for_reading(store) as connection:
        assert rows_of(connection, "select run from runs order by run") == [("r1",), ("r2",), ("r3",)]


def test_a_store_takes_one_core_and_a_bounded_share_of_memory(tmp_path: Path) -> None:
    with open_for_writing(tmp_path / "x.duckdb") as opened:
        assert rows_of(opened, "select current_setting('threads'), current_setting('memory_limit')") == [(1, "1.8 GiB")]
