"""A folder with an index and what it was made from: written once, from its beginning to its end, and goes on where it was interrupted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

import orjson

from agentgym_envs.searchqa.passages import DataError, Passage, shown
from agentgym_envs.searchqa.search import ENGINE, Bm25, Writer, open_index

FORMAT = 1
_COMMIT_PASSAGES = 100_000
"""So many passages at most are written again after an interruption."""


@dataclass(frozen=True, slots=True)
class Made:
    """What a finished index was made from."""

    passages: int
    digest: str
    """SHA-256 over titles and texts in their order, the same for JSON Lines and Parquet."""
    source: str
    """Name of the corpus file."""
    engine: str = ENGINE
    format: int = FORMAT


def open_folder(folder: Path) -> tuple[Bm25, Made]:
    """The search in a finished index, and what it was made from.

    Raises:
        DataError: there is none, it is not finished, or it is damaged or another version's.
    """
    made = _made(folder)
    if made is None:
        raise DataError(f"{folder}: expected a finished index, got none; make one with python -m agentgym_envs.searchqa.index CORPUS {folder}")
    if (made.format, made.engine) != (FORMAT, ENGINE):
        got = f"one of format {made.format} in {shown(made.engine)}; remove it and make it again"
        raise DataError(f"{folder}: expected an index of format {FORMAT} in {ENGINE}, got {got}")
    search = open_index(folder / "index")
    if len(search) != made.passages:
        raise DataError(f"{folder}: expected an index of {made.passages} passages, got one of {len(search)}")
    return search, made


def fill(folder: Path, passages: Iterable[Passage], *, source: str, progress: Callable[[int, bool], None] = lambda _, __: None) -> Made:
    """Index a corpus into a folder that is new, was left unfinished, or holds the index of the same corpus.

    Args:
        progress: called after each passage with their number so far, and whether it was there already.

    Raises:
        DataError: the folder holds another corpus, wholly or up to where it was interrupted, or something else.
        OSError: the folder cannot be written.
    """
    before = _made(folder)
    if before is not None:
        return _checked(folder, before, passages, progress)
    if not _commits(folder):
        if folder.exists() and any(folder.iterdir()):
            raise DataError(f"{folder}: expected a new or empty folder, or one that was left unfinished, got one with other files")
        (folder / "index").mkdir(parents=True)
        _write(folder / "unfinished.json", {"0": Digest().hex()})
    writer, digest = Writer(folder / "index"), Digest()
    rest = _skip(folder, writer.written, digest.over(passages), digest, progress)
    kept = {str(digest.passages): digest.hex()}
    for number, passage in enumerate(rest, start=writer.written + 1):
        writer.add(passage)
        progress(number, False)
        if number % _COMMIT_PASSAGES == 0:
            kept = _commit(folder, writer, digest, kept)
    _commit(folder, writer, digest, kept)
    writer.finish()
    made = Made(digest.passages, digest.hex(), source)
    _write(folder / "corpus.json", asdict(made))
    return made


class Digest:
    """A digest of the passages that went through it so far."""

    def __init__(self) -> None:
        self.passages = 0
        self._sum = sha256()

    def over(self, passages: Iterable[Passage]) -> Iterator[Passage]:
        """The same passages; each is counted before it is yielded."""
        for passage in passages:
            self._sum.update(orjson.dumps([passage.title, passage.text]))
            self.passages += 1
            yield passage

    def hex(self) -> str:
        """As 64 hex digits."""
        return self._sum.hexdigest()


def _skip(folder: Path, written: int, passages: Iterator[Passage], digest: Digest, progress: Callable[[int, bool], None]) -> Iterator[Passage]:
    """What follows the passages that an interrupted run has left in the index."""
    for _ in zip(range(written), passages, strict=False):
        progress(digest.passages, True)
    if _commits(folder).get(str(written)) != digest.hex():
        raise DataError(f"{folder}: expected the corpus that was being indexed there, got another; choose another folder, or remove this one")
    return passages


def _checked(folder: Path, made: Made, passages: Iterable[Passage], progress: Callable[[int, bool], None]) -> Made:
    digest = Digest()
    for _ in digest.over(passages):
        progress(digest.passages, True)
    if digest.hex() != made.digest:
        expected = f"the {made.passages} passages of {shown(made.source)} that are indexed there"
        raise DataError(f"{folder}: expected {expected}, got other ones; choose another folder")
    open_folder(folder)
    return made


def _made(folder: Path) -> Made | None:
    value = _read(folder / "corpus.json")
    if value is None:
        return None
    try:
        return Made(int(value["passages"]), str(value["digest"]), str(value["source"]), str(value["engine"]), int(value["format"]))
    except (KeyError, ValueError) as err:
        raise DataError(f"{folder / 'corpus.json'}: expected what an index was made from, got {shown(value)}") from err


def _commits(folder: Path) -> dict[str, str]:
    """By number of passages, the digest up to there, of the last commits of an unfinished index; one that was noted may not have happened."""
    return _read(folder / "unfinished.json") or {}


def _commit(folder: Path, writer: Writer, digest: Digest, kept: dict[str, str]) -> dict[str, str]:
    """Note a commit beside the one before it, then make it, so that the index never has one that is not noted; the note of the new one."""
    new = {str(digest.passages): digest.hex()}
    _write(folder / "unfinished.json", {**kept, **new})
    writer.commit()
    return new


def _read(path: Path) -> dict[str, str] | None:
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as err:
        raise DataError(f"{path}: expected JSON as it was written here, got something else") from err
    if not isinstance(value, dict):
        raise DataError(f"{path}: expected a JSON object, got {shown(value)}")
    return value


def _write(path: Path, value: Mapping[str, object]) -> None:
    """The whole file or nothing."""
    aside = path.with_suffix(".part")
    aside.write_text(json.dumps(value, sort_keys=True) + "\n", encoding="utf-8")
    aside.replace(path)
