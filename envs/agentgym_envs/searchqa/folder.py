"""A folder with an index and what it was made from: written once, from its beginning to its end, and goes on where it was interrupted."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

from agentgym_envs.searchqa.passages import DataError, Passage, shown
from agentgym_envs.searchqa.record import FORMAT, Digest, Made, read_commits, read_made, sizes, write_commits, write_made
from agentgym_envs.searchqa.search import ENGINE, Bm25, Writer, open_index

_COMMIT_PASSAGES = 100_000
"""So many passages at most are written again after an interruption."""
_BEFORE_THE_FIRST_COMMIT = {"lock", "unfinished.part", "index"}
"""What a run that was killed at once may have left."""

Progress = Callable[[int, bool], None]


def open_folder(folder: Path) -> tuple[Bm25, Made]:
    """The search in a finished index, and what it was made from.

    Raises:
        DataError: there is none, it is not finished, or it is damaged or another version's.
    """
    made = read_made(folder)
    if made is None:
        raise DataError(f"{folder}: expected a finished index, got none; make one with python -m agentgym_envs.searchqa.index CORPUS {folder}")
    if (made.format, made.engine) != (FORMAT, ENGINE):
        got = f"one of format {made.format} in {shown(made.engine)}; remove it and make it again"
        raise DataError(f"{folder}: expected an index of format {FORMAT} in {ENGINE}, got {got}")
    # Before the engine looks at them: it panics over some files that were cut short.
    if odd := sorted(set(made.files.items()) ^ set(_sizes(folder).items())):
        raise DataError(f"{folder}: expected the files of its index as they were written, got a damaged {odd[0][0]}; remove it and make it again")
    search = open_index(folder / "index")
    if len(search) != made.passages:
        raise DataError(f"{folder}: expected an index of {made.passages} passages, got one of {len(search)}")
    return search, made


def fill(folder: Path, passages: Iterable[Passage], *, source: str, progress: Progress = lambda _, __: None) -> Made:
    """Index a corpus into a folder that is new, was left unfinished, or holds the index of the same corpus.

    Args:
        progress: called after each passage with their number so far, and whether it was there already.

    Raises:
        DataError: the corpus is empty; the folder holds another one, wholly or up to where it was interrupted, or something else; another process
            writes there.
        OSError: the folder cannot be written.
    """
    before = read_made(folder)
    if before is not None:
        return _checked(folder, before, passages, progress)
    rest = iter(passages)
    # Nothing is made for a corpus that cannot be read.
    first = next(rest, None)
    if first is None:
        raise DataError(f"{source}: expected a passage at least, got none")
    _require_ours(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder):
        return _written(folder, chain((first,), rest), source, progress)


def _require_ours(folder: Path) -> None:
    """DataError for a folder with other files than those of an unfinished index."""
    # Listed before the commits are read: another process notes its first before it puts anything into the index.
    names = {path.name for path in folder.iterdir()} if folder.exists() else set()
    empty = not any((folder / "index").iterdir()) if "index" in names else True
    if (names - _BEFORE_THE_FIRST_COMMIT or not empty) and not read_commits(folder):
        raise DataError(f"{folder}: expected a new or empty folder, or one that was left unfinished, got one with other files")


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Nobody else writes there meanwhile; the lock ends with the process, however that ends."""
    with (folder / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as err:
            raise DataError(
                f"{folder}: expected a folder that nobody else writes, got one that another process is indexing into; wait for it"
            ) from err
        yield


def _written(folder: Path, passages: Iterable[Passage], source: str, progress: Progress) -> Made:
    if not read_commits(folder):
        write_commits(folder, {"0": Digest().hex()})
    (folder / "index").mkdir(exist_ok=True)
    writer, digest = Writer(folder / "index"), Digest()
    _add_rest(folder, writer, digest, _skip(folder, writer.written, digest.over(passages), digest, progress), progress)
    writer.finish()
    made = Made(passages=digest.passages, digest=digest.hex(), source=source, engine=ENGINE, files=sizes(folder / "index"))
    write_made(folder, made)
    return made


def _skip(folder: Path, written: int, passages: Iterator[Passage], digest: Digest, progress: Progress) -> Iterator[Passage]:
    """What follows the passages that an interrupted run has left in the index."""
    for _ in zip(range(written), passages, strict=False):
        progress(digest.passages, True)
    if read_commits(folder).get(str(written)) != digest.hex():
        raise DataError(f"{folder}: expected the corpus that was being indexed there, got another; choose another folder, or remove this one")
    return passages


def _add_rest(folder: Path, writer: Writer, digest: Digest, rest: Iterator[Passage], progress: Progress) -> None:
    kept = {str(digest.passages): digest.hex()}
    for number, passage in enumerate(rest, start=writer.written + 1):
        writer.add(passage)
        progress(number, False)
        if number % _COMMIT_PASSAGES == 0:
            kept = _commit(folder, writer, digest, kept)
    _commit(folder, writer, digest, kept)


def _commit(folder: Path, writer: Writer, digest: Digest, kept: dict[str, str]) -> dict[str, str]:
    """Note a commit beside the one before it, then make it, so that the index never has one that is not noted; the note of the new one."""
    new = {str(digest.passages): digest.hex()}
    write_commits(folder, {**kept, **new})
    writer.commit()
    return new


def _checked(folder: Path, made: Made, passages: Iterable[Passage], progress: Progress) -> Made:
    digest = Digest()
    for _ in digest.over(passages):
        progress(digest.passages, True)
    if digest.hex() != made.digest:
        expected = f"the {made.passages} passages of {shown(made.source)} that are indexed there"
        raise DataError(f"{folder}: expected {expected}, got other ones; choose another folder")
    open_folder(folder)
    return made


def _sizes(folder: Path) -> dict[str, int]:
    """Of the files of the index; none where it is gone."""
    return sizes(folder / "index") if (folder / "index").is_dir() else {}
