"""A record is wholly in the journal or it is not; what stands there is read back, or named."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentgym_cli.errors import ExitCode, StoreError
from agentgym_cli.store.codec import encode
from agentgym_cli.store.journal import Journal, JournalFile, next_segment, read_journal, read_segment
from agentgym_cli.store.records import Record
from tests.store.builders import make_metric, make_run, make_segment, write_journal
from tests.store.strategies import any_record

FIRST, SECOND = make_metric("loss", 1.0, step=1), make_metric("loss", 0.5, step=2)


class Disk:
    """A file that takes at most ``chunk`` bytes a write and is full after ``room`` bytes."""

    def __init__(self, room: int, chunk: int = 1_000_000) -> None:
        self.room, self.chunk, self.written, self.closed = room, chunk, b"", False

    def write(self, data: bytes, /) -> int:
        took = data[: min(self.chunk, self.room - len(self.written))]
        if not took:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.written += bytes(took)
        return len(took)

    def fileno(self) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def close(self) -> None:
        self.closed = True


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=12, deadline=None)
@given(segments=st.lists(st.lists(any_record(), max_size=4), max_size=3))
def test_segments_are_read_back_in_order(tmp_path_factory: pytest.TempPathFactory, segments: list[list[Record]]) -> None:
    run_dir = write_journal(tmp_path_factory.mktemp("run"), *segments)
    assert list(read_journal(run_dir)) == [record for segment in segments for record in segment]


def test_a_record_is_with_the_operating_system_when_append_returns(tmp_path: Path) -> None:
    journal = Journal(tmp_path, 1)
    journal.append(FIRST)
    assert journal.path.read_bytes() == encode(FIRST)
    journal.close()


def test_promise_10_a_torn_last_line_never_happened_and_is_counted(tmp_path: Path) -> None:
    write_journal(tmp_path, [FIRST, SECOND], [SECOND])
    torn = tmp_path / "journal" / "0001.jsonl"
    torn.write_bytes(torn.read_bytes()[:-1])
    reader = read_journal(tmp_path)
    assert list(reader) == [FIRST, SECOND]
    assert reader.torn == 1


@pytest.mark.parametrize("kept", range(len(encode(SECOND))))
def test_wherever_a_line_is_torn_the_lines_before_it_stay(tmp_path: Path, kept: int) -> None:
    write_journal(tmp_path, [FIRST])
    path = tmp_path / "journal" / "0001.jsonl"
    path.write_bytes(encode(FIRST) + encode(SECOND)[:kept])
    reader = read_journal(tmp_path)
    assert list(reader) == [FIRST]
    assert reader.torn == (kept > 0)


def test_a_broken_line_in_the_middle_is_named_with_file_and_line(tmp_path: Path) -> None:
    write_journal(tmp_path, [FIRST, SECOND])
    path = tmp_path / "journal" / "0001.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b'{"kind":"dream"}\n' + lines[1])
    with pytest.raises(StoreError, match=r"0001\.jsonl:2: expected kind to be one of"):
        list(read_journal(tmp_path))
    with pytest.raises(StoreError, match=r"0001\.jsonl:2: "):
        list(read_segment(path, start=len(lines[0])))


def test_a_full_disk_is_a_store_error_and_nothing_is_half_counted(tmp_path: Path) -> None:
    disk = Disk(room=len(encode(FIRST)) + 10)
    journal = Journal(tmp_path, 1, create=lambda path: disk)
    journal.append(FIRST)
    with pytest.raises(StoreError, match="cannot write: No space left on device") as caught:
        journal.append(SECOND)
    assert caught.value.exit_code == ExitCode.STORE
    assert caught.value.hint is not None
    disk.room = 1_000_000
    with pytest.raises(StoreError, match="an earlier write failed"):
        journal.append(SECOND)
    journal.close()
    (tmp_path / "journal" / "0001.jsonl").write_bytes(disk.written)
    reader = read_journal(tmp_path)
    assert (list(reader), reader.torn) == ([FIRST], 1)


def test_the_device_that_is_always_full_is_a_store_error(tmp_path: Path) -> None:
    def full(path: Path) -> JournalFile:
        return Path("/dev/full").open("wb", buffering=0)

    with Journal(tmp_path, 1, create=full) as journal, pytest.raises(StoreError, match="No space left on device"):
        journal.append(FIRST)


def test_short_writes_are_continued(tmp_path: Path) -> None:
    disk = Disk(room=1_000_000, chunk=7)
    Journal(tmp_path, 1, create=lambda path: disk).append(FIRST)
    assert disk.written == encode(FIRST)


def test_a_failing_sync_is_a_store_error_and_closes_the_file(tmp_path: Path) -> None:
    disk = Disk(room=1_000_000)
    journal = Journal(tmp_path, 1, create=lambda path: disk)
    with pytest.raises(StoreError, match="cannot sync: Input/output error"):
        journal.close()
    assert disk.closed
    journal.close()


def test_a_folder_that_cannot_be_made_is_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot create it: Not a directory"):
        Journal(tmp_path / "file", 1)


def test_a_malformed_record_writes_nothing_and_breaks_nothing(tmp_path: Path) -> None:
    with Journal(tmp_path, 1) as journal:
        with pytest.raises(StoreError, match=r"refused a record: metric\.value"):
            journal.append(make_metric("loss", float("nan")))
        journal.append(FIRST)
    assert list(read_journal(tmp_path)) == [FIRST]


def test_a_segment_has_one_writer_and_the_next_is_a_new_file(tmp_path: Path) -> None:
    assert next_segment(tmp_path) == 1
    with Journal(tmp_path, 1), pytest.raises(StoreError, match="expected a new segment, got one that exists"):
        Journal(tmp_path, 1)
    assert next_segment(tmp_path) == 2


def test_a_new_segment_stands_apart_from_a_torn_line(tmp_path: Path) -> None:
    write_journal(tmp_path, [make_run(), make_segment(1), FIRST])
    torn = tmp_path / "journal" / "0001.jsonl"
    torn.write_bytes(torn.read_bytes()[:-5])
    with Journal(tmp_path, next_segment(tmp_path)) as journal:
        journal.append(make_segment(2, resumed=0))
    assert list(read_journal(tmp_path)) == [make_run(), make_segment(1), make_segment(2, resumed=0)]


def test_a_stranger_in_the_journal_folder_is_named(tmp_path: Path) -> None:
    write_journal(tmp_path, [FIRST])
    (tmp_path / "journal" / "copy.jsonl").write_text("")
    with pytest.raises(StoreError, match=r"copy\.jsonl: expected a name like 0001\.jsonl"):
        next_segment(tmp_path)
