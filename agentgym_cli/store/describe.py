"""Every table, view and column with its meaning, as Markdown. ``python -m agentgym_cli.store.describe docs/store.md`` brings the page up to date."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from agentgym_cli.store import records
from agentgym_cli.store.db import Connection, Patience, connect, rows_of
from agentgym_cli.store.gates import GateRow
from agentgym_cli.store.migrations import migrate
from agentgym_cli.store.tables import ATTEMPTS, OUTCOMES, SCHEDULED, TABLES, TURNS, Table

BLOCK = re.compile(r"(?<=<!-- store columns -->\n).*?(?=<!-- end -->)", re.DOTALL)
_FINAL = "the latest segment's where several count; superseded ones are left out"
_MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "migrations": "What has been applied to this store.",
        "gates": " ".join((GateRow.__doc__ or "").split()),
        "journals": "How far each journal file has been loaded, so that loading again is cheap.",
        "segment_limits": "Up to which position the records of a segment still count.",
        "episode_positions": "Where each episode stands in its run: 0 in phases `warm_start`, `eval_before` and `eval`, else its step.",
        "scheduled_final": f"Scheduled episodes that count, one row each: {_FINAL}.",
        "attempts_final": f"Attempts that count: {_FINAL}.",
        "outcomes_final": f"Outcomes that count: {_FINAL}.",
        "metrics_final": f"Metrics that count: {_FINAL}.",
        "checkpoints_final": f"Checkpoints that count: {_FINAL}.",
        "episodes_final": "One row per scheduled episode that counts, with its outcome and the attempt behind it. What reports count. A table, "
        "brought up to date by each load.",
        "episodes_now": "What `episodes_final` must hold, made from the records; `agentgym store check` compares them.",
        "denominators": "Scheduled episodes and what became of them, by run, phase, split, step and category. Counts only.",
        "per_task": "The same by task, with the rewards.",
        "learning_curve": "Training by optimizer step: outcomes, rewards, and what it had cost up to there.",
        "errors_by_cause": "Episodes that ended in the world's failure, by how they stopped and why.",
        "horizon_stages": "Spans of training steps with one horizon.",
        "throughput": "What all attempts that count have spent, failed ones and retries included.",
        "superseded": "Records that a later segment superseded: kept, counted here, and nowhere else.",
        "unscheduled": "Attempts and outcomes that would count, of episodes that are not scheduled; always empty in a store that can be believed.",
    }
)
_BY_PART = ("denominators", "per_task", "errors_by_cause", "throughput")
_BY_STEP = ("learning_curve", "horizon_stages")
_SPENT: Mapping[str, str] = MappingProxyType(
    {
        "spent_attempts": "Attempts at it that count.",
        "spent_infra_errors": "Of these, ended by the world's failure.",
        "spent_turns": "Turns of all of these; null when none is known.",
        "spent_prompt_tokens": "Tokens of the first contexts of all of these.",
        "spent_action_tokens": "Tokens sampled in all of these.",
        "spent_seconds": "Wall seconds of all of these.",
        "spent_policy_seconds": "Of these, in the policy.",
        "spent_env_seconds": "Of these, in the world.",
        "first_ended": "When the first of these ended; UTC, ISO 8601.",
        "last_ended": "When the last of these ended.",
    }
)
_SUMS: Mapping[str, str] = MappingProxyType(
    {
        "scheduled": "Scheduled episodes that count.",
        "success": "Of these, successes.",
        "failure": "Of these, failures.",
        "infra_error": "Of these, ended by the world's failure.",
        "missing": "Of these, without an outcome.",
        "action_induced": "Infra errors that came back on the same action of the same task.",
        "truncated": "Ended by a horizon, the context or a deadline in the policy.",
        "first_success": "Successes, had no episode been tried again.",
        "first_failure": "Failures, likewise.",
        "first_infra_error": "Infra errors, likewise.",
        "first_missing": "Missing, likewise.",
        "retried": "Episodes with more than one attempt.",
        "reward_sum": "Sum of the rewards; null when there is none.",
        "rewards": "How many episodes have a reward.",
        "turns": "Turns of all these attempts.",
        "prompt_tokens": "Tokens of their first contexts.",
        "action_tokens": "Tokens sampled in them.",
        "seconds": "Wall seconds of them, added up.",
        "policy_seconds": "Of these, in the policy.",
        "env_seconds": "Of these, in the world.",
        "first_ended": "When the first of them ended; UTC, ISO 8601.",
        "last_ended": "When the last of them ended.",
    }
)
_OWN_COLUMNS: Mapping[str, str] = MappingProxyType(
    {
        "migrations.name": "Name of the function.",
        "migrations.applied": "UTC, ISO 8601.",
        "migrations.agentgym": "Version that applied it; the least that can use it.",
        "journals.loaded": "Bytes of the segment's file that are in the store.",
        "journals.mark": "SHA-256 of the first and last bytes of these, by which another file is noticed.",
        "segment_limits.kept_to": "Highest position that counts; null when everything does.",
        "episode_positions.position": "Compared with `resumed_from_step` of later segments.",
        "episodes_final.outcome": "`missing` where no outcome was written.",
        "episodes_final.first_outcome": "What it would have counted as without retries; `missing` likewise.",
        "episodes_final.attempts": "How many were made; 0 where no outcome was written.",
        **{f"{name}.{column}": text for name in ("episodes_final", "episodes_now") for column, text in _SPENT.items()},
        **{f"{view}.step": "Null in phases `train` and `warm_start`, which span steps." for view in _BY_PART},
        **{f"{view}.{column}": text for view in (*_BY_PART, *_BY_STEP) for column, text in _SUMS.items()},
        "denominators.by_verifier": "Outcomes that the verifier decided.",
        "per_task.turns": "Of the attempts that count.",
        "learning_curve.turns": "Of all attempts at the step's episodes; likewise tokens and seconds.",
        "learning_curve.turns_so_far": "Of this step and all before it; likewise tokens and seconds.",
        "learning_curve.action_tokens_so_far": "Tokens sampled up to here.",
        "learning_curve.seconds_so_far": "Seconds of attempts up to here; attempts run side by side, so this is more than the clock's.",
        "errors_by_cause.episodes": "How many.",
        "errors_by_cause.tasks": "Of how many tasks.",
        "errors_by_cause.replicas": "On how many servers.",
        "errors_by_cause.example": "A message of one of them; foreign text.",
        "horizon_stages.stage": "From 1.",
        "horizon_stages.first_step": "First step with an episode of this horizon.",
        "horizon_stages.last_step": "Last such step.",
        "horizon_stages.turns": "Of the attempts that count.",
        "throughput.attempts": "All that count: retries too.",
        "throughput.infra_error": "Of these, ended by the world's failure.",
        "superseded.kind": "Table of the records.",
        "superseded.records": "How many.",
        "unscheduled.kind": "Table of the record.",
    }
)


def describe_store(connection: Connection) -> str:
    """Markdown for every table and view of a migrated store, tables in the order of records, then views."""
    found = rows_of(connection, "select table_name, column_name, data_type, is_nullable from information_schema.columns order by ordinal_position")
    columns: dict[str, list[tuple[str, str]]] = {}
    for table, name, kind, nullable in found:
        columns.setdefault(table, []).append((name, kind.lower() + (" or null" if nullable == "YES" and table in _TABLES else "")))
    order = [table.name for table in TABLES] + list(_MEANINGS)
    assert set(order) == set(columns), "every table and view has a meaning"
    return "\n".join(_section(name, columns[name]) for name in order)


_TABLES = {*(table.name for table in TABLES), "episodes_final"}


def _section(name: str, columns: list[tuple[str, str]]) -> str:
    table = next((table for table in TABLES if table.name == name), None)
    meaning = _MEANINGS[name] if table is None else f"{_docstrings(table)['']}"
    rows = [f"| `{column}` | {kind} | {_meaning(name, column)} |" for column, kind in columns]
    return "\n".join([f"### {name}", "", meaning, "", "| column | type | meaning |", "|---|---|---|", *rows, ""])


def _meaning(name: str, column: str) -> str:
    own = _OWN_COLUMNS.get(f"{name}.{column}")
    if own is not None:
        return own
    if name == "gates":
        return class_docstrings(GateRow)[column]
    base = name.removesuffix("_final").removesuffix("_now")
    sources = [table for table in TABLES if table.name == base] or [SCHEDULED, OUTCOMES, ATTEMPTS]
    if sources[0] is TURNS:
        sources = [TURNS, ATTEMPTS]
    for table in sources:
        documented = _docstrings(table)
        if column in documented:
            return documented[column].replace("``", "`").replace("|", "\\|")
    raise LookupError(f"{name}.{column} has no meaning")


def _docstrings(table: Table) -> dict[str, str]:
    """Docstrings of a record's fields by name, and the record's own under ''."""
    found = (dict(class_docstrings(table.imported)) if table.imported else {}) | dict(class_docstrings(table.record))
    if table is ATTEMPTS:
        tokens = class_docstrings(records.TokensRecord)
        found |= {name: f"{text} Null when tokens are not kept." for name, text in tokens.items() if name}
    return found


@cache
def class_docstrings(record: type) -> Mapping[str, str]:
    """Docstrings of a class's fields by name, where they have one, and the class's own under ''."""
    tree = ast.parse(inspect.getsource(record)).body[0]
    assert isinstance(tree, ast.ClassDef)
    found = {"": " ".join((ast.get_docstring(tree) or "").replace("``", "`").split())}
    for field, after in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(after, ast.Expr):
            assert isinstance(after.value, ast.Constant)
            found[field.target.id] = " ".join(str(after.value.value).split())
    return found


def current_page(page: str) -> str:
    """The text of docs/store.md with its block as it should be now."""
    connection = connect(Path(":memory:"), read_only=False, patience=Patience())
    try:
        migrate(connection)
        described = describe_store(connection)
    finally:
        connection.close()
    return BLOCK.sub(lambda _: f"\n{described}\n", page)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.write_text(current_page(target.read_text(encoding="utf-8")), encoding="utf-8")
