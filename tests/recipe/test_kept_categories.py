"""A frozen run keeps how many tasks of each category its evaluation splits have: for reports, outside the digest, and not there in older files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from agentgym_cli.recipe.canonical import canonical_json
from agentgym_cli.recipe.freeze import freeze
from agentgym_cli.recipe.frozen_file import parse_frozen, read_frozen
from agentgym_cli.recipe.resolve import resolve


def test_categories_are_kept_and_change_no_digest(tmp_path: Path) -> None:
    frozen = freeze(resolve("textcraft_grpo.yaml", ["profile=laptop"]))
    assert sum(frozen.categories["unseen_tasks"].values()) == int(frozen.parts["tasks.evaluation.unseen_tasks"]["count"])
    assert replace(frozen, categories={}).digest == frozen.digest
    frozen.write(tmp_path / "frozen.json")
    assert read_frozen(tmp_path / "frozen.json").categories == {split: dict(counts) for split, counts in frozen.categories.items()}


def test_a_frozen_run_from_before_this_was_kept_is_read() -> None:
    document = json.loads(freeze(resolve("textcraft_grpo.yaml", ["profile=laptop"])).to_json())
    del document["categories"]
    assert parse_frozen(canonical_json(document), where="old").categories == {}
