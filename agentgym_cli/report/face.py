"""What stands on the face of a run: its rules of reward and stopping, what was said when it was frozen, and how far it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agentgym_cli.recipe.canonical import canonical_json
from agentgym_cli.report.frozen import at, read_document, whole
from agentgym_cli.report.model import Axis, Matrix, MatrixTask, Setting, Standing
from agentgym_cli.store.diagnosis_rows import AxisRow, MatrixRow
from agentgym_cli.store.rows import CountsRow, MetricRow, RunRow

AXES = ("steps", "turns", "tokens", "seconds")
"""What curves can be drawn against; tokens are those that the policy sampled, seconds those on the clock."""
_REWARD, _STOPPING = "reward and success", "stopping"
_OVERLAP = ("tasks.allow_overlap:", "reported overlap:")


def settings(frozen: str, verb: str) -> tuple[Setting, ...]:
    """Reward definition and stopping rules of a frozen run; empty where it is not known."""
    document = read_document(frozen)
    rules = at(document, "parts", "rules")
    pairs = [(_REWARD, key, value) for key, value in _leaves("reward", at(document, "config", "reward"))]
    pairs += [(_REWARD, str(key), _word(value)) for key, value in (rules.items() if isinstance(rules, dict) else ())]
    for name in ("horizon", "budgets", "retry") if verb == "train" else ("budgets", "retry"):
        pairs += [(_STOPPING, key, value) for key, value in _leaves(name, at(document, "config", name))]
    pairs += [(_STOPPING, key, value) for key, value in _leaves("evaluation.horizon", at(document, "config", "evaluation", "horizon"))]
    return tuple(Setting(about=about, key=key, value=value) for about, key, value in pairs)


def _leaves(name: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(f"{name}.{key}", inner)
    elif value is not None:
        yield name, _word(value)


def _word(value: object) -> str:
    return value if isinstance(value, str) else canonical_json(value)


def said_when_frozen(frozen: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Overlaps of training and evaluation, and other warnings."""
    found = at(read_document(frozen), "warnings")
    said = [str(each) for each in found] if isinstance(found, list) else []
    return tuple(each for each in said if each.startswith(_OVERLAP)), tuple(each for each in said if not each.startswith(_OVERLAP))


def standing(run: RunRow, counts: Sequence[CountsRow], curve: Sequence[MetricRow], splits: Sequence[str], unwritten: Sequence[str] = ()) -> Standing:
    """What a run lacks: outcomes of what it scheduled, and, where it has not finished, what is still to come.

    Args:
        splits: those that it is to be judged on.
        unwritten: schedules that are not all there, in sentences.
    """
    if run.status == "finished":
        return Standing(finished=True, missing=(*_without_outcome(counts), *unwritten))
    return Standing(finished=False, missing=(*_without_outcome(counts), *unwritten, *_to_come(run, counts, curve, splits)))


def _without_outcome(counts: Sequence[CountsRow]) -> Iterator[str]:
    for phase, split, step in dict.fromkeys((row.phase, row.split, row.step) for row in counts):
        rows = [row for row in counts if (row.phase, row.split, row.step) == (phase, split, step)]
        missing, scheduled = sum(row.missing for row in rows), sum(row.scheduled for row in rows)
        if missing:
            yield f"{phase} / {split}: {missing:,} of {scheduled:,} scheduled episodes have no outcome"


def _to_come(run: RunRow, counts: Sequence[CountsRow], curve: Sequence[MetricRow], splits: Sequence[str]) -> Iterator[str]:
    steps = whole(at(read_document(run.frozen or ""), "config", "train", "steps"))
    last = max((row.step for row in curve if row.phase == "train"), default=0)
    if run.verb == "train" and steps is not None and last < steps:
        yield f"training: step {last:,} of {steps:,}"
    wanted = "eval_after" if run.verb == "train" else "eval"
    judged = {row.split for row in counts if row.phase == wanted}
    for split in splits:
        if split not in judged:
            yield f"{wanted} / {split}: not begun"


def axis(rows: Sequence[AxisRow], name: str) -> Axis | None:
    """Positions of training steps on an axis other than steps; None where they were not all kept. A step without its own stands at the last one's."""
    at_steps: list[tuple[int, float]] = []
    for row in rows:
        value = getattr(row, name)
        if value is None:
            return None
        at_steps.append((row.step, max(float(value), at_steps[-1][1] if at_steps else 0.0)))
    return Axis(name=name, at=tuple(at_steps)) if at_steps else None


def matrices(rows: Sequence[MatrixRow]) -> tuple[Matrix, ...]:
    """Tasks by evaluations, a matrix for each split."""
    return tuple(_matrix(split, [row for row in rows if row.split == split]) for split in dict.fromkeys(row.split for row in rows))


def _matrix(split: str, rows: Sequence[MatrixRow]) -> Matrix:
    columns = sorted(dict.fromkeys((row.step, row.phase) for row in rows), key=lambda column: (column[0], column[1] != "eval_before", column[1]))
    cells = {(row.task, row.step, row.phase): row for row in rows}
    categories = {row.task: row.category for row in rows}
    tasks = []
    for task, category in categories.items():
        found = [cells.get((task, *column)) for column in columns]
        tasks.append(MatrixTask(task=task, category=category, cells=tuple(map(_cell, found)), solved=tuple(map(_solved, found))))
    return Matrix(split=split, evaluations=tuple(f"{phase}, step {step}" for step, phase in columns), tasks=tuple(tasks), of=rows[0].tasks)


def _cell(row: MatrixRow | None) -> str | None:
    if row is None:
        return None
    others = [f"{count} {name}" for name, count in (("infra", row.infra_error), ("missing", row.missing)) if count]
    return f"{row.success} of {row.scheduled}" + (f" ({', '.join(others)})" if others else "")


def _solved(row: MatrixRow | None) -> bool | None:
    return None if row is None else row.success == row.scheduled
