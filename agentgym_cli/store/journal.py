"""The journal of a run: one JSON line per record, one file per segment. The record of what happened; knows no database."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from agentgym_cli.errors import StoreError
from agentgym_cli.store.codec import Malformed, decode, encode
from agentgym_cli.store.records import Record

_READ_BYTES = 1 << 24
_HINT_DISK = "free some space or fix the folder's permissions, then resume the run: agentgym train or eval with its folder and --resume"


class JournalFile(Protocol):
    """What a journal writes to; an unbuffered binary file."""

    def write(self, data: bytes, /) -> int | None: ...
    def fileno(self) -> int: ...
    def close(self) -> None: ...


def create_file(path: Path) -> JournalFile:
    """A new file, unbuffered, so that a returned write has reached the operating system."""
    return path.open("xb", buffering=0)


def journal_folder(run_dir: Path) -> Path:
    """Where the journal of a run is."""
    return run_dir / "journal"


def segment_files(run_dir: Path) -> list[tuple[int, Path]]:
    """Segment numbers and files of a run's journal, in order. Raises StoreError for a file that is no segment."""
    found = []
    for path in journal_folder(run_dir).glob("*.jsonl"):
        if not path.stem.isdecimal():
            raise StoreError(f"{path}: expected a name like 0001.jsonl", hint=f"move {path.name} out of the journal folder")
        found.append((int(path.stem), path))
    return sorted(found)


def next_segment(run_dir: Path) -> int:
    """Number of the segment that a (re)start opens; 1 for a new run."""
    return max((segment for segment, _ in segment_files(run_dir)), default=0) + 1


class Journal:
    """Appends records to ``<run_dir>/journal/<segment>.jsonl``, which it creates and never shares.

    A record is wholly there or it is a torn last line, which reading ignores. After a failed write every later append fails too, so that
    nothing is ever written behind a torn line.
    """

    def __init__(self, run_dir: Path, segment: int, *, create: Callable[[Path], JournalFile] = create_file) -> None:
        """Raises StoreError when the segment exists (another process has this run, or an earlier start) or cannot be created."""
        self.path = journal_folder(run_dir) / f"{segment:04d}.jsonl"
        self.segment = segment
        self._broken = False
        self._closed = False
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = create(self.path)
        except FileExistsError as err:
            raise StoreError(
                f"{self.path}: expected a new segment, got one that exists",
                hint="another process may be running this run; start it again to open the next segment",
            ) from err
        except OSError as err:
            raise StoreError(f"{self.path}: cannot create it: {err.strerror or err}", hint=_HINT_DISK) from err

    def append(self, record: Record) -> None:
        """Write one record and hand it to the operating system. Raises StoreError; a malformed record writes nothing and breaks nothing."""
        if self._broken or self._closed:
            raise StoreError(f"{self.path}: cannot append, an earlier write failed or it is closed", hint=_HINT_DISK)
        try:
            line = encode(record)
        except Malformed as err:
            raise StoreError(f"{self.path}: refused a record: {err}") from err
        try:
            self._write(line)
        except OSError as err:
            self._broken = True
            raise StoreError(f"{self.path}: cannot write: {err.strerror or err}", hint=_HINT_DISK) from err

    def _write(self, line: bytes) -> None:
        written = 0
        while written < len(line):
            written += self._file.write(line[written:]) or 0

    def sync(self) -> None:
        """Force what was appended onto the disk. Raises StoreError."""
        try:
            os.fsync(self._file.fileno())
        except OSError as err:
            self._broken = True
            raise StoreError(f"{self.path}: cannot sync: {err.strerror or err}", hint=_HINT_DISK) from err

    def close(self) -> None:
        """Sync and close; the second call does nothing. Raises StoreError when the sync fails, with the file closed."""
        if self._closed:
            return
        self._closed = True
        try:
            if not self._broken:
                self.sync()
        finally:
            self._file.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class Line:
    """One whole line of a segment file."""

    number: int
    """From 1 at the byte where reading began."""
    end: int
    """Byte offset behind its newline."""
    record: Record


def read_segment(path: Path, start: int = 0) -> Iterator[Line]:
    """Whole lines from byte ``start`` on, which must be the beginning of a line; a torn last line is left out.

    Raises:
        StoreError: naming file:line, for a line that is no record, or the file cannot be read.
    """
    end = start
    try:
        with path.open("rb") as file:
            file.seek(start)
            for number, line in enumerate(file, start=1):
                if not line.endswith(b"\n"):
                    return
                end += len(line)
                yield Line(number, end, decode_line(path, number, start, line))
    except OSError as err:
        raise StoreError(f"{path}: cannot read it: {err.strerror or err}") from err


def read_blocks(path: Path, start: int, size: int) -> Iterator[bytes]:
    """Whole lines from byte ``start`` on, about ``size`` bytes of them at once; a torn last line is left out. Raises StoreError."""
    rest = b""
    try:
        with path.open("rb") as file:
            file.seek(start)
            while read := file.read(size):
                whole, newline, torn = read.rpartition(b"\n")
                if newline:
                    yield rest + whole + newline
                rest = torn if newline else rest + read
    except OSError as err:
        raise StoreError(f"{path}: cannot read it: {err.strerror or err}") from err


def whole_bytes(path: Path) -> int:
    """Bytes of a segment file up to its last newline."""
    return sum(map(len, read_blocks(path, 0, _READ_BYTES)))


def decode_line(path: Path, number: int, start: int, line: bytes) -> Record:
    """The record of line ``number``, counted from 1 at byte ``start``. Raises StoreError, naming file:line."""
    try:
        return decode(line)
    except Malformed as err:
        with path.open("rb") as file:
            before = file.read(start).count(b"\n")
        raise StoreError(f"{path}:{before + number}: {err}", hint="the journal was edited, or written by another version of agentgym") from err


class JournalReader:
    """The records of a run over all its segments in order. ``torn`` counts torn last lines of the files read so far."""

    def __init__(self, run_dir: Path) -> None:
        self.torn = 0
        self._records = self._read(segment_files(run_dir))

    def _read(self, files: list[tuple[int, Path]]) -> Iterator[Record]:
        for _, path in files:
            end = 0
            for line in read_segment(path):
                end = line.end
                yield line.record
            self.torn += torn_line(path, end)

    def __iter__(self) -> Iterator[Record]:
        return self

    def __next__(self) -> Record:
        return next(self._records)


def torn_line(path: Path, end: int) -> int:
    """1 when a line without its newline begins at byte ``end``, else 0; lines that a live run has added since do not count."""
    with path.open("rb") as file:
        file.seek(end)
        rest = file.readline()
    return int(rest != b"" and not rest.endswith(b"\n"))


def read_journal(run_dir: Path) -> JournalReader:
    """Iterate over the records of a run; see JournalReader. Raises StoreError for a broken line, naming file:line."""
    return JournalReader(run_dir)
