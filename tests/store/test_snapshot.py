"""A copy of a store for readers who stay: the store is free, the copy is young, and nothing of it is left behind."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentgym_cli.errors import StoreError
from agentgym_cli.store.copying import look_through
from agentgym_cli.store.db import Patience, StoreBusy, connect, rows_of
from agentgym_cli.store.loader import load
from agentgym_cli.store.migrations import MIGRATIONS, migrate
from agentgym_cli.store.queries import run_names
from agentgym_cli.store.snapshot import Snapshots, TookTooLong
from tests.store.builders import make_run, make_segment, write_journal

ONCE = Patience(seconds=0.0)
WRITE = "import duckdb, sys; duckdb.connect(sys.argv[1]).execute('insert into runs select * replace (?  as run) from runs', [sys.argv[2]])"
HOLD = "import duckdb, sys; held = duckdb.connect(sys.argv[1]); print('held', flush=True); sys.stdin.read()"


@dataclass
class Clock:
    """Seconds that pass when a test says so."""

    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def database(tmp_path: Path) -> Path:
    load(write_journal(tmp_path / "r1", [make_run(), make_segment()]), tmp_path / "store.duckdb")
    return tmp_path / "store.duckdb"


@pytest.fixture
def snapshots(database: Path, tmp_path: Path, clock: Clock) -> Iterator[Snapshots]:
    folder = tmp_path / "copies"
    folder.mkdir()
    made = Snapshots(database, folder, clock=clock, patience=ONCE, first_patience=ONCE, prompt=60)
    yield made
    made.close()
    assert list(folder.iterdir()) == []


def runs(snapshots: Snapshots) -> list[str]:
    with snapshots.reading() as reading:
        return run_names(reading.connection)


def in_another_process(program: str, *words: str) -> None:
    subprocess.run([sys.executable, "-c", program, *words], check=True, timeout=60)


@pytest.mark.slow
def test_a_writer_gets_in_while_somebody_reads_and_the_reader_sees_it_seconds_later(snapshots: Snapshots, database: Path, clock: Clock) -> None:
    with snapshots.reading() as reading:
        in_another_process(WRITE, str(database), "r2")
        assert run_names(reading.connection) == ["r1"]
    clock.now += 1
    with snapshots.reading() as reading:
        assert (run_names(reading.connection), reading.age, reading.trouble) == (["r1"], 1.0, None)
    clock.now += 3
    assert runs(snapshots) == ["r1", "r2"]


def test_a_store_that_has_not_changed_is_not_copied_and_its_copy_is_no_older(snapshots: Snapshots, clock: Clock) -> None:
    with snapshots.reading() as reading:
        before = reading.stamp
    clock.now += 1000
    with snapshots.reading() as reading:
        assert (reading.age, reading.trouble, reading.stamp) == (0.0, None, before)


@pytest.mark.slow
def test_while_a_writer_holds_the_store_the_last_copy_is_shown_with_its_age(snapshots: Snapshots, database: Path, clock: Clock) -> None:
    runs(snapshots)
    in_another_process(WRITE, str(database), "r2")
    clock.now += 10
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(database)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        with snapshots.reading() as reading:
            assert (run_names(reading.connection), reading.age) == (["r1"], 10.0)
            assert reading.trouble is not None and "held by process" in reading.trouble
    finally:
        holder.communicate(b"", timeout=60)
    clock.now += 3
    assert runs(snapshots) == ["r1", "r2"]


@pytest.mark.slow
def test_a_reader_keeps_its_copy_until_it_is_done(snapshots: Snapshots, database: Path, clock: Clock) -> None:
    with snapshots.reading() as old:
        in_another_process(WRITE, str(database), "r2")
        clock.now += 10
        assert runs(snapshots) == ["r1", "r2"]
        assert run_names(old.connection) == ["r1"]
    assert runs(snapshots) == ["r1", "r2"]


@pytest.mark.slow
def test_nothing_can_be_written_and_the_store_stays_byte_for_byte(snapshots: Snapshots, database: Path) -> None:
    before = database.read_bytes()
    with pytest.raises(StoreError), snapshots.reading() as reading:
        reading.connection.execute("delete from runs")
    assert (runs(snapshots), database.read_bytes()) == (["r1"], before)


@pytest.mark.slow
def test_a_store_of_an_older_version_is_brought_up_to_date_in_the_copy_alone(tmp_path: Path, clock: Clock) -> None:
    old = tmp_path / "old.duckdb"
    with connect(old, read_only=False, patience=ONCE) as connection:
        migrate(connection, MIGRATIONS[:2])
    before = old.read_bytes()
    folder = tmp_path / "own"
    folder.mkdir()
    snapshots = Snapshots(old, folder, clock=clock)
    assert (runs(snapshots), old.read_bytes(), sorted(path.name for path in tmp_path.iterdir())) == ([], before, ["old.duckdb", "own"])
    snapshots.close()


def test_a_question_that_takes_too_long_is_broken_off(snapshots: Snapshots) -> None:
    with pytest.raises(TookTooLong), snapshots.reading(0.05) as reading:
        rows_of(reading.connection, "select count(*) from range(1000000000) a, range(1000) b where a.range % 7 = b.range % 5")


@pytest.mark.slow
def test_questions_behind_one_that_took_too_long_are_broken_off_too(snapshots: Snapshots) -> None:
    with pytest.raises(TookTooLong), snapshots.reading(0.0) as reading:
        for _ in range(1000):
            rows_of(reading.connection, "select count(*) from range(3000000) a where a.range % 7 = 1")


def test_a_store_that_breaks_keeps_the_last_copy_and_leaves_no_others(snapshots: Snapshots, database: Path, clock: Clock) -> None:
    runs(snapshots)
    database.write_bytes(b"no store any more" * 1000)
    for _ in range(3):
        clock.now += 10
        with snapshots.reading() as reading:
            assert (run_names(reading.connection), reading.trouble is None) == (["r1"], False)
    assert list(snapshots.folder.iterdir()) == []


def damage(database: Path) -> None:
    """Turn some bytes of every block but the first, which says where the others are, over: checksums are wrong, and the store opens."""
    raw = bytearray(database.read_bytes())
    for place in range(12_288 + 262_144 + 1000, len(raw), 262_144):
        raw[place : place + 100] = bytes(255 - each for each in raw[place : place + 100])
    database.write_bytes(raw)


@pytest.mark.parametrize("broken", ["damaged", "cut"])
def test_a_store_that_opens_and_is_damaged_keeps_the_last_good_copy_and_says_so(
    snapshots: Snapshots, database: Path, clock: Clock, broken: str
) -> None:
    runs(snapshots)
    whole = database.read_bytes()
    if broken == "cut":
        database.write_bytes(whole[: len(whole) // 2])
    else:
        damage(database)
    clock.now += 10
    with snapshots.reading() as reading:
        assert run_names(reading.connection) == ["r1"]
        assert reading.trouble is not None and str(database) in reading.trouble and str(snapshots.folder) not in reading.trouble
    database.write_bytes(whole)
    clock.now += 10
    with snapshots.reading() as reading:
        assert (run_names(reading.connection), reading.trouble) == (["r1"], None)


@pytest.mark.parametrize("at", [12288, 500_000])
def test_what_is_said_of_a_store_that_was_cut_names_the_store_and_not_its_copy(database: Path, tmp_path: Path, at: int) -> None:
    database.write_bytes(database.read_bytes()[:at])
    own = tmp_path / "own"
    own.mkdir()
    snapshots = Snapshots(database, own, first_patience=ONCE)
    with pytest.raises(StoreError) as said, snapshots.reading() as reading:
        look_through(reading.connection, own / "1.duckdb", database)
        run_names(reading.connection)
    assert "Could not read" in said.value.message and str(database) in said.value.message and str(own) not in said.value.message
    snapshots.close()


def test_nobody_waits_for_a_copy_that_another_reader_has_begun(snapshots: Snapshots, database: Path, clock: Clock) -> None:
    runs(snapshots)
    database.touch()
    clock.now += 10
    begun, go_on = threading.Event(), threading.Event()

    def hold(_: float) -> None:
        begun.set()
        assert go_on.wait(60)

    snapshots.patience, snapshots.prompt = Patience(seconds=1.0, pause=0.5, sleep=hold), 0.0
    with connect(database, read_only=False, patience=ONCE):
        assert runs(snapshots) == ["r1"]
        assert begun.wait(60), "a copy is being made"
        assert runs(snapshots) == ["r1"]
    go_on.set()


@pytest.mark.slow
def test_a_copy_ends_with_its_process_even_when_that_is_killed(database: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    program = (
        "import sys; from pathlib import Path; from agentgym_cli.store.snapshot import Snapshots\n"
        "with Snapshots(Path(sys.argv[1]), Path(sys.argv[2])).reading(): print('read', flush=True); sys.stdin.read()"
    )
    reader = subprocess.Popen([sys.executable, "-c", program, str(database), str(own)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert reader.stdout is not None and reader.stdout.readline() == b"read\n"
    reader.kill()
    reader.communicate(timeout=60)
    assert list(own.iterdir()) == []


def test_a_store_that_is_held_from_the_start_or_is_none_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError), Snapshots(tmp_path / "none", tmp_path).reading():
        pass
    held = tmp_path / "held.duckdb"
    with connect(held, read_only=False, patience=ONCE), pytest.raises(StoreBusy), Snapshots(held, tmp_path, first_patience=ONCE).reading():
        pass
