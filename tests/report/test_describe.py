"""The JSON form is what its page says, and cannot change without its number being thought of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path

import pytest

from agentgym_cli.recipe.canonical import digest_of
from agentgym_cli.report.compare import Comparisons, compare_all
from agentgym_cli.report.describe import current_page, names_of, objects
from agentgym_cli.report.gate import Decision, GateCheck
from agentgym_cli.report.jsonout import to_json
from agentgym_cli.report.model import SCHEMA, Report
from agentgym_cli.store.db import Connection
from tests.report.runs import report_of, trained_run
from tests.report.sides import make_side, make_task

PAGE = Path(__file__).resolve().parents[2] / "docs" / "report-json.md"
FORMS = {2: "5407ea2490641a4c7c28c9f1e2a5913b5d2cc3d4e76c805f1824d81a4d76c2db"}
"""Digest of all names and types of each form. Where a name goes or changes, the form gets the next number; where one is added, a new digest."""


@pytest.mark.slow
def test_the_page_is_current() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == current_page(page), "python -m agentgym_cli.report.describe docs/report-json.md brings it up to date"


def test_the_form_is_the_one_that_its_number_stands_for() -> None:
    form = {kind.__name__: names_of(kind) for kind in objects()}
    assert len(form) == len(objects()), "no two objects have one name"
    assert digest_of(form) == FORMS[SCHEMA], "a name went or changed: raise SCHEMA; one was added: put its digest here"


def test_what_is_printed_has_the_names_and_types_of_the_page(store: Connection, tmp_path: Path) -> None:
    report = report_of(store, tmp_path / "r1", trained_run())
    tasks = [make_task(number, number % 2) for number in range(4)]
    comparisons = compare_all(make_side("a", tasks), [make_side("b", [make_task(number, 1) for number in range(4)])])
    check = GateCheck(rule="r", expected="e", got="g", passed=True, rows="")
    decision = Decision(
        run="r", gate="g", gate_digest="d", split="test", evaluation=None, baseline=None, passed=True, checks=(check,), decided="2025-01-01"
    )
    documents = ((Report, json.loads(to_json(report))), (Comparisons, said(comparisons)), (Decision, said(decision)))
    for kind, document in documents:
        assert list(strangers(kind.__name__, document)) == []
        assert document["schema"] == SCHEMA


def said(value: Comparisons | Decision) -> dict[str, object]:
    found: dict[str, object] = json.loads(json.dumps(asdict(value), allow_nan=False))
    return found


FORM = {kind.__name__: names_of(kind) for kind in objects()}
PLAIN: Mapping[str, tuple[type, ...]] = {
    "text": (str,), "whole number": (int,), "number": (int, float), "true or false": (bool,), "null": (type(None),)
}  # fmt: skip


def strangers(words: str, value: object, at: str = "") -> list[str]:
    """Places where a value is not what the words say."""
    words = words.removeprefix("(").removesuffix(")") if words.startswith("(") else words
    if words.endswith(" or null"):
        return [] if value is None else strangers(words.removesuffix(" or null"), value, at)
    if words in PLAIN:
        fits = isinstance(value, PLAIN[words]) and (words == "true or false" or not isinstance(value, bool))
        return [] if fits else [f"{at}: {words}, got {value!r}"]
    if words.startswith("object of "):
        assert isinstance(value, dict)
        inner = words.removeprefix("object of ").removesuffix(" by name")
        return [stranger for name, each in value.items() for stranger in strangers(inner, each, f"{at}.{name}")]
    if words.startswith("list of 2 ("):
        assert isinstance(value, list)
        kinds = words.removeprefix("list of 2 (").removesuffix(")").split(", ")
        return [stranger for kind, each in zip(kinds, value, strict=True) for stranger in strangers(kind, each, at)]
    if words.startswith("list of "):
        assert isinstance(value, list), f"{at}: {words}"
        return [stranger for place, each in enumerate(value) for stranger in strangers(words.removeprefix("list of "), each, f"{at}[{place}]")]
    assert isinstance(value, dict), f"{at}: {words}"
    names = FORM[words]
    wrong = [f"{at}: names {sorted(set(names) ^ set(value))}"] if set(names) != set(value) else []
    return wrong + [stranger for name in names if name in value for stranger in strangers(names[name], value[name], f"{at}.{name}")]


@dataclass(frozen=True)
class Odd:
    """A value that JSON has not."""

    when: Path


def test_a_type_that_json_has_not_is_refused() -> None:
    assert is_dataclass(Odd)
    with pytest.raises(LookupError, match="expected a type that JSON has"):
        names_of(Odd)


def test_a_value_of_another_type_would_be_found() -> None:
    assert strangers("Tally", {"why": 3, "more": 1}, "tally") == ["tally: names ['episodes', 'more']", "tally.why: text, got 3"]
    assert strangers("list of (text or null)", ["a", None, 2], "x") == ["x[2]: text, got 2"]
    assert strangers("whole number", True, "x") == ["x: whole number, got True"]
