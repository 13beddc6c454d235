"""The page of every key is made from the schema and is up to date."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field

from agentgym_cli.recipe.reference import element_of, reference, render
from agentgym_cli.recipe.schema.base import Count, Name, Positive, Share
from agentgym_cli.recipe.schema.learning import HorizonSpec
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.recipe.shape import annotation_at, describe, fields_of, keys_at, kind_paths, sections_of

PAGE = Path(__file__).parents[2] / "docs" / "recipes.md"


def every_field(section: type, path: str = "") -> Iterator[tuple[type, str, str]]:
    for name, annotation in fields_of(section).items():
        yield section, path, name
        for inner in sections_of(annotation) or sections_of(element_of(annotation)):
            yield from every_field(inner, f"{path}.{name}".lstrip("."))


def test_the_page_is_up_to_date() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert reference() in page, "run: python -m agentgym_cli.recipe.reference docs/recipes.md"
    assert render(page) == page


def test_every_field_of_the_schema_has_a_meaning_on_the_page() -> None:
    rows = [line.split(" | ") for line in reference().splitlines() if line.startswith("| `")]
    named = [row[0].strip("|` ") for row in rows]
    fields = [name for _, path, name in every_field(Run) if path or name not in ("profile", "profile_reason")]
    assert sorted(set(fields)) == sorted(set(named))
    assert [row for row in rows if len(row[-1].strip("| ")) < 8] == []


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (Count, "an integer >= 1"),
        (Positive, "a number > 0"),
        (Share, "a number >= 0 and <= 1"),
        (Name, "text that matches ^[A-Za-z0-9][A-Za-z0-9_.-]*$ and of at most 80 characters"),
        (bool, "true or false"),
        (str | None, "null or text"),
        (Annotated[str, Field(min_length=1)], "text that is not empty"),
        (Literal["a", "b"], "one of a, b"),
        (Positive | Literal["greedy"] | None, "null or a number > 0 or greedy"),
        (tuple[Count, ...], "a list, each an integer >= 1"),
        (Annotated[tuple[Count, ...], Field(min_length=2)], "a list of at least 2, each an integer >= 1"),
        (HorizonSpec, "a mapping whose kind is one of fixed, stages, increment"),
        (HorizonSpec | None, "null or a mapping whose kind is one of fixed, stages, increment"),
    ],
)
def test_what_a_field_expects_is_said_in_words(annotation: object, words: str) -> None:
    assert describe(annotation) == words


def test_keys_are_looked_up_by_kind() -> None:
    data = {"horizon": {"kind": "fixed"}, "tasks": {"evaluation": [{}]}}
    assert keys_at(("horizon",), data) == ("kind", "turns")
    assert keys_at(("tasks", "evaluation", 0), data) == ("name", "file", "ids", "exclude", "categories")
    assert keys_at(("seed",), data) == ()
    assert {"extends", "profiles", "seed"} <= set(keys_at((), data))
    assert "profile_reason" not in keys_at((), data)
    assert annotation_at(("horizon", "cap"), data) is None
    assert ("horizon",) in kind_paths()
