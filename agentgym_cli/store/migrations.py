"""How the store got its shape: named functions, each applied in one transaction with its own record, never edited after release."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version

from agentgym_cli.errors import StoreError
from agentgym_cli.store import schema_v1, schema_v5, views_v1, views_v5
from agentgym_cli.store.db import Connection, NotAStore, first_row, rows_of, transaction

Migration = Callable[[Connection], None]

_RECORDS = "create table if not exists migrations (name varchar primary key, applied varchar not null, agentgym varchar not null)"


class NewerStore(StoreError):
    """A newer agentgym made the store."""


def m001_tables(connection: Connection) -> None:
    """The tables of the journal's records, and how far each journal has been loaded."""
    for statement in schema_v1.TABLES:
        connection.execute(statement)


def m002_views(connection: Connection) -> None:
    """What counts, what is superseded, one row per logical episode."""
    for statement in views_v1.VIEWS:
        connection.execute(statement)


def m003_drift(connection: Connection) -> None:
    """What a segment was allowed to run with although it was not as frozen; nothing in segments from before."""
    connection.execute("alter table segments add column drift varchar[] default []")
    connection.execute("alter table segments alter column drift set not null")


def m004_budgets(connection: Connection) -> None:
    """How far a run was at each attempt, which responses were cut, and which servers were given up; nothing of it in records from before."""
    for name, kind in (("run_turns", "bigint"), ("run_tokens_read", "bigint"), ("run_tokens_sampled", "bigint"), ("run_seconds", "double")):
        connection.execute(f"alter table attempts add column {name} {kind}")
    connection.execute("alter table turns add column cut boolean default false")
    connection.execute("alter table turns alter column cut set not null")
    connection.execute(
        "create table servers ("
        "run varchar not null, segment bigint not null, number bigint not null, url varchar not null, event varchar not null, cause varchar,"
        " detail varchar not null, happened varchar not null, primary key (run, segment, number))"
    )
    # A view of all columns of a table keeps those that the table had when the view was made.
    connection.execute(views_v1.ATTEMPTS_FINAL.replace("create view", "create or replace view"))


def m005_episodes(connection: Connection) -> None:
    """What reports count becomes a table; views for the questions people ask; no indexes on episodes; nulls for what imports cannot know."""
    for statement in (*schema_v5.STATEMENTS, *views_v5.VIEWS):
        connection.execute(statement)


def m006_gates(connection: Connection) -> None:
    """What gates decided about runs."""
    connection.execute(
        "create table gates ("
        "run varchar not null, gate varchar not null, gate_digest varchar not null, baseline varchar, passed boolean not null,"
        " evidence varchar not null, decided varchar not null)"
    )


def m007_versions(connection: Connection) -> None:
    """Which weights sampled which tokens of an attempt, where several did; null in attempts from before, which had one version each."""
    for name in ("policy_versions", "policy_version_tokens"):
        connection.execute(f"alter table attempts add column {name} bigint[]")
    connection.execute(views_v5.ATTEMPTS_FINAL)


MIGRATIONS: tuple[Migration, ...] = (m001_tables, m002_views, m003_drift, m004_budgets, m005_episodes, m006_gates, m007_versions)


def pending(connection: Connection, migrations: Sequence[Migration] = MIGRATIONS) -> list[Migration]:
    """Migrations that the store still needs, in order.

    Raises:
        StoreError: the store has a migration that this program does not know (it is newer), or it is another program's database.
    """
    applied = _applied(connection)
    known = {migration.__name__ for migration in migrations}
    for name, made_by in applied.items():
        if name not in known:
            raise NewerStore(
                f"{_file(connection)}: has migration {name}, expected at most {migrations[-1].__name__}",
                hint=f"it needs agentgym {made_by} or newer: pip install 'agentgym-cli>={made_by}'",
            )
    return [migration for migration in migrations if migration.__name__ not in applied]


def _file(connection: Connection) -> str:
    row = first_row(connection, "select path from duckdb_databases() where database_name = current_database()")
    return str(row[0]) if row and row[0] else "store"


def _applied(connection: Connection) -> dict[str, str]:
    tables = {str(row[0]) for row in rows_of(connection, "select table_name from information_schema.tables")}
    columns = {str(row[0]) for row in rows_of(connection, "select column_name from information_schema.columns where table_name = 'migrations'")}
    if tables and not {"name", "applied", "agentgym"} <= columns:
        raise NotAStore(
            f"{_file(connection)}: expected an agentgym store, got a database with tables {', '.join(sorted(tables))[:80]}",
            hint="name another file: --store FILE, or store.database in the recipe",
        )
    if not tables:
        return {}
    return {str(name): str(made_by) for name, made_by in rows_of(connection, "select name, agentgym from migrations")}


def migrate(connection: Connection, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Bring a store up to date; a migration that fails leaves no trace. Raises what ``pending`` raises."""
    for migration in pending(connection, migrations):
        with transaction(connection):
            connection.execute(_RECORDS)
            migration(connection)
            connection.execute(
                "insert into migrations (name, applied, agentgym) values (?, ?, ?)",
                [migration.__name__, datetime.now(UTC).isoformat(timespec="seconds"), version("agentgym-cli")],
            )
