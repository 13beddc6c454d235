"""What an error asks about: a name that may have been meant, and no other."""

from __future__ import annotations

import pytest

from agentgym_cli.recipe.wording import asked


@pytest.mark.parametrize(
    ("name", "known", "question"),
    [
        ("textcarft", ["textcraft", "babyai"], "; did you mean textcraft?"),
        ("qwen", ["Qwen/Qwen2.5-7B-Instruct", "smollm2"], "; did you mean Qwen/Qwen2.5-7B-Instruct?"),
        ("q", ["m0", "m1"], ""),
        ("zz", ["book", "mug"], ""),
        ("x", [], ""),
    ],
)
def test_only_a_name_that_is_near_is_asked_about(name: str, known: list[str], question: str) -> None:
    assert asked(name, known, before="; ") == question
