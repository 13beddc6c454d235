"""A store as Parquet files: everything that is in it, nothing overwritten unasked."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from agentgym_cli.errors import StoreError
from agentgym_cli.store.db import rows_of
from agentgym_cli.store.export import export_parquet
from agentgym_cli.store.loader import load
from agentgym_cli.store.opening import open_for_reading
from tests.store.builders import make_run, make_scheduled, make_segment, settled, write_journal


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    name = "out; drop table runs"
    records = [make_run(name), make_segment(run=name), *settled(make_scheduled(0, run=name), "success")]
    load(write_journal(folder / "r1", records), folder / "x.duckdb")
    return folder / "x.duckdb"


@pytest.mark.slow
def test_every_table_and_view_is_a_file_with_the_same_rows(database: Path, tmp_path: Path) -> None:
    with open_for_reading(database) as connection:
        files = export_parquet(connection, tmp_path / "out")
        for file in files:
            read = parquet.read_table(file.path)
            assert read.num_rows == file.rows == rows_of(connection, f"select count(*) from {file.name}")[0][0]
        names = {file.name for file in files}
    assert {"runs", "scheduled", "attempts", "turns", "outcomes", "episodes_final", "denominators", "per_task", "throughput"} <= names
    assert parquet.read_table(tmp_path / "out" / "turns.parquet").column("action").to_pylist() == ["get 1 log"] * 2
    assert parquet.ParquetFile(tmp_path / "out" / "turns.parquet").metadata.row_group(0).column(0).compression == "ZSTD"


@pytest.mark.slow
def test_promise_11_a_runs_name_is_a_value_and_never_a_path(database: Path, tmp_path: Path) -> None:
    with open_for_reading(database) as connection:
        files = export_parquet(connection, tmp_path / "deep" / "out")
    assert {path.parent for path in tmp_path.rglob("*.parquet")} == {tmp_path / "deep" / "out"}
    assert len(files) == len(list(tmp_path.rglob("*.parquet")))


@pytest.mark.slow
def test_files_that_are_there_are_kept_unless_force_is_given(database: Path, tmp_path: Path) -> None:
    (tmp_path / "turns.parquet").write_bytes(b"mine")
    with open_for_reading(database) as connection:
        with pytest.raises(StoreError, match=r"expected no files of that name, got turns\.parquet"):
            export_parquet(connection, tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["turns.parquet"]
        export_parquet(connection, tmp_path, force=True)
    assert parquet.read_table(tmp_path / "turns.parquet").num_rows == 2


def test_a_folder_that_cannot_be_made_is_named(database: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with open_for_reading(database) as connection, pytest.raises(StoreError, match="cannot write"):
        export_parquet(connection, tmp_path / "file")
