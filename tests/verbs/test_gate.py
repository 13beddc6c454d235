"""``agentgym report --gate`` on a store: a checkpoint's evaluation is judged by what trained it, and what was decided is kept."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from agentgym_cli.store.gates import decisions
from agentgym_cli.store.loader import load_into
from agentgym_cli.store.opening import open_for_reading, open_for_writing
from agentgym_cli.store.records import CheckpointRecord, Record
from agentgym_cli.verbs.gate import decide
from tests.store.builders import NOW, make_run, make_scheduled, make_segment, settled, write_journal

FROZEN = '{"config":{"env":{"max_infra_share":0.5}},"parts":{"tasks.train":{"count":"40"}}}'


def write(folder: Path, run: str, records: Sequence[Record], drift: tuple[str, ...] = (), **changes: object) -> None:
    begun, ended = make_segment(run=run, drift=drift), make_segment(run=run, drift=drift, ended=NOW, status="finished")
    write_journal(folder / run, [make_run(run, frozen=FROZEN, **changes), begun, *records, ended])


def store_of(folder: Path) -> Path:
    """A training run whose checkpoint is not the one that acted, an evaluation of another checkpoint, and one that drifted."""
    trained = settled(make_scheduled(50, "t", phase="train", split="train", step=1), "success")
    write(folder, "t", [*trained, CheckpointRecord(run="t", segment=1, step=1, path="checkpoints/1", digest="b" * 64)])
    for run, drift in (("e", ()), ("drifted", ("tasks.train: not what it was frozen with",))):
        episodes = [record for number in range(4) for record in settled(make_scheduled(number, run), "success")]
        write(folder, run, episodes, drift, verb="eval", policy=f"checkpoint of step 1, weights {'a' * 64}")
    database = folder / "s.duckdb"
    with open_for_writing(database) as connection:
        for run in ("t", "e", "drifted"):
            load_into(connection, folder / run)
    return database


def test_a_gate_names_the_run_that_trained_what_acted_and_forgives_only_what_it_says(tmp_path: Path) -> None:
    database, gate = store_of(tmp_path), tmp_path / "gate.yaml"
    gate.write_text("split: test\nheld_out: true\n")
    assert [check.rule for check in decide("e", gate, database).checks if not check.passed] == ["held_out"]
    gate.write_text("split: test\nheld_out: true\ntrained_by: t\n")
    assert decide("e", gate, database).passed
    assert [check.rule for check in decide("drifted", gate, database).checks if not check.passed] == ["no drift"]
    gate.write_text("split: test\nheld_out: true\ntrained_by: t\nallow_drift: true\n")
    assert decide("drifted", gate, database).passed
    with open_for_reading(database) as connection:
        kept = [(row.passed, json.loads(row.evidence)[1]) for row in decisions(connection, "drifted")]
    said = "tasks.train: not what it was frozen with"
    assert sorted((passed, drift["rule"], drift["got"]) for passed, drift in kept) == [
        (False, "no drift", said),
        (True, "no drift", f"allowed by the gate: {said}"),
    ]


def test_a_baseline_that_is_degraded_by_its_own_recipe_sets_no_mark(tmp_path: Path) -> None:
    for run, outcomes in (("base", ("success", "infra_error", "infra_error")), ("r", ("success",) * 3)):
        records = [record for number, outcome in enumerate(outcomes) for record in settled(make_scheduled(number, run), outcome)]
        write(tmp_path, run, records, verb="eval", policy="oracle")
    database, gate = tmp_path / "s.duckdb", tmp_path / "gate.yaml"
    with open_for_writing(database) as connection:
        for run in ("base", "r"):
            load_into(connection, tmp_path / run)
    unknown = "[tasks, dialect, protocol, success rule, prompt, horizon, samples, chosen tasks, attempts]"
    gate.write_text(f"split: test\nbaseline: base\nno_regression: [all]\nallow_different: {unknown}\n")
    failed = [(check.rule, check.got) for check in decide("r", gate, database).checks if not check.passed]
    assert failed == [
        ("baseline not degraded", "infra share: expected at most 50% of scheduled episodes, got eval 66.7% (2 of 3)"),
    ]
