"""A store with the runs that pages are tested on, made once, and a viewer that is asked without a network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentgym_cli.errors import PolicyError
from agentgym_cli.store.loader import load_into
from agentgym_cli.store.opening import open_for_writing
from agentgym_cli.store.rows import RunRow
from agentgym_cli.store.snapshot import Snapshots
from agentgym_cli.view.app import Viewer
from agentgym_cli.view.requests import Answer, Gate
from tests.store.builders import write_journal
from tests.view.stories import RUNS

TOKEN, PORT = "secret-token", 4321


class Spelled:
    """Reads tokens by their numbers. Token 7 ends an action, token 6 would be encoded otherwise; the tokenizer of run ``b`` is gone."""

    def texts(self, run: RunRow, token_ids: Sequence[int]) -> tuple[Sequence[str], frozenset[int]]:
        if run.run == "b":
            raise PolicyError("tokenizer.json: expected a file, got none")
        return [f"<{each}>" for each in token_ids], frozenset({7})

    def differing(self, run: RunRow, token_ids: Sequence[int]) -> Sequence[bool]:
        return [each == 6 for each in token_ids]


@dataclass(frozen=True, slots=True)
class Page:
    """What came back."""

    status: int
    text: str
    headers: dict[str, str]


@dataclass(slots=True)
class Reader:
    """Asks a viewer as a browser on this machine would."""

    viewer: Viewer

    def answer(self, path: str, query: str = "", *, method: str = "GET", token: str = TOKEN, **headers: str) -> tuple[Answer, bytes]:
        given = {"host": f"127.0.0.1:{PORT}"} | {name.replace("_", "-"): value for name, value in headers.items()}
        raw = [(name.encode(), value.encode()) for name, value in given.items()]
        answer = self.viewer.answer(method, f"/{token}/{path}", query.encode(), raw)
        return answer, answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)

    def __call__(self, path: str, query: str = "", **words: str) -> Page:
        answer, body = self.answer(path, query, **words)  # type: ignore[arg-type]
        headers = {name.decode(): value.decode() for name, value in answer.all_headers()}
        return Page(answer.status, body.decode(), headers)


@pytest.fixture(scope="session")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("view")
    with open_for_writing(folder / "results.duckdb") as connection:
        for name, segments in RUNS.items():
            load_into(connection, write_journal(folder / "runs" / name, *segments))
    return folder / "results.duckdb"


@pytest.fixture(scope="session")
def read(database: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    snapshots = Snapshots(database, tmp_path_factory.mktemp("copies"))
    yield Reader(Viewer(snapshots, Gate(token=TOKEN, port=PORT), database.parent / "runs", Spelled()))
    snapshots.close()
