"""What a folder says of the index in it: ``unfinished.json`` while it is being written, ``corpus.json`` once it is finished. Knows no engine."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path

import orjson

from agentgym_envs.searchqa.passages import DataError, Passage, shown

FORMAT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What a finished index was made from."""

    passages: int
    digest: str
    """SHA-256 over titles and texts in their order, the same for JSON Lines and Parquet."""
    source: str
    """Name of the corpus file."""
    engine: str
    """How the index is written; it is read by the same only."""
    files: Mapping[str, int] = field(compare=False)
    """Bytes of each file of the index, whose names are drawn."""
    format: int = FORMAT


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


def read_made(folder: Path) -> Made | None:
    """What the finished index was made from; None where there is none. DataError for a file that was not written here."""
    file = folder / "corpus.json"
    value = _read(file)
    if value is None:
        return None
    match {"files": {}, **value}:
        case {
            "passages": int(passages),
            "digest": str(digest),
            "source": str(source),
            "engine": str(engine),
            "format": int(number),
            "files": dict(files),
        }:
            if all(isinstance(size, int) for size in files.values()):
                return Made(passages=passages, digest=digest, source=source, engine=engine, format=number, files=files)
    raise DataError(f"{file}: expected what an index was made from, got {shown(value)}, which is damaged; remove the folder and make it again")


def write_made(folder: Path, made: Made) -> None:
    """The index is finished."""
    _write(folder / "corpus.json", asdict(made))


def read_commits(folder: Path) -> Mapping[str, object]:
    """By number of passages, the digest up to there, of the last commits of an unfinished index; one that was noted may not have happened."""
    return _read(folder / "unfinished.json") or {}


def write_commits(folder: Path, commits: Mapping[str, str]) -> None:
    """Note them in place of those before."""
    _write(folder / "unfinished.json", commits)


def sizes(folder: Path) -> dict[str, int]:
    """Bytes of each file of a finished index; the engine's own notes, which begin with a dot, are not read for a search."""
    return {path.name: path.stat().st_size for path in folder.iterdir() if not path.name.startswith(".")}


def _read(path: Path) -> dict[str, object] | None:
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as err:
        raise DataError(f"{path}: expected JSON as it was written here, got something else; remove the folder and make it again") from err
    if not isinstance(value, dict):
        raise DataError(f"{path}: expected a JSON object, got {shown(value)}; remove the folder and make it again")
    return value


def _write(path: Path, value: Mapping[str, object]) -> None:
    """The whole file or nothing."""
    aside = path.with_suffix(".part")
    aside.write_text(json.dumps(value, sort_keys=True) + "\n", encoding="utf-8")
    aside.replace(path)
