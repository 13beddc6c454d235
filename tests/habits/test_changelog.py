"""The changelog: sections by release, one short sentence for each thing a user can observe."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

CHANGELOG = Path(__file__).resolve().parents[2] / "CHANGELOG.md"
WORDS = 25


def faults(text: str) -> Iterator[str]:
    """What is wrong with a changelog's text, by line."""
    lines = text.splitlines()
    sections = [line for line in lines if line.startswith("## ")]
    if sections[:1] != ["## Unreleased"]:
        yield "the first section is not '## Unreleased'"
    for number, line in enumerate(lines, start=1):
        if not line or line == "# Changelog" or re.fullmatch(r"## (Unreleased|\d+\.\d+\.\d+ - \d{4}-\d{2}-\d{2})", line):
            continue
        sentence = line.removeprefix("- ")
        if sentence == line:
            yield f"{number}: expected an item '- ...' or a section, got {line!r}"
        elif not re.fullmatch(r"[^a-z].*\.", sentence) or re.search(r"[.!?] [A-Z`]", sentence):
            yield f"{number}: not one sentence that ends with a full stop"
        elif (words := len(sentence.split())) > WORDS:
            yield f"{number}: {words} words, more than {WORDS}"


def test_the_changelog_keeps_its_form() -> None:
    assert list(faults(CHANGELOG.read_text(encoding="utf-8"))) == []


def test_a_sentence_of_25_words_passes_and_one_of_26_does_not() -> None:
    start = "# Changelog\n\n## Unreleased\n\n- A"
    assert list(faults(f"{start}{' word' * 23} end.\n")) == []
    assert list(faults(f"{start}{' word' * 24} end.\n")) == ["5: 26 words, more than 25"]


def test_other_lines_are_refused() -> None:
    text = "# Changelog\n\n## 0.1.0 - 2026-01-02\n\nWords.\n- Two things. Not one.\n- no full stop\n### Added\n"
    assert list(faults(text)) == [
        "the first section is not '## Unreleased'",
        "5: expected an item '- ...' or a section, got 'Words.'",
        "6: not one sentence that ends with a full stop",
        "7: not one sentence that ends with a full stop",
        "8: expected an item '- ...' or a section, got '### Added'",
    ]
