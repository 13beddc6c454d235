"""Writes the small corpus and its questions: ``python -m agentgym_envs.searchqa.make CHECKOUT``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from agentgym_envs.searchqa.make.ask import questions
from agentgym_envs.searchqa.make.country import drawn
from agentgym_envs.searchqa.make.draw import Draw
from agentgym_envs.searchqa.make.entries import entries

_SEED = "small/1"
_FOLDER = "envs/agentgym_envs/searchqa/small"


def made_files() -> Iterator[tuple[str, str]]:
    """Every made file: its path in a checkout and its text."""
    country = drawn(_SEED)
    passages = Draw(_SEED).shuffled("corpus", list(entries(country, _SEED)))
    yield f"{_FOLDER}/corpus.jsonl", _lines([asdict(passage) for passage in passages])
    asked = [
        {"id": number, "question": each.text, "answers": [each.answer], "searches": list(each.titles), "category": each.category}
        for number, each in enumerate(questions(country, _SEED))
    ]
    yield f"{_FOLDER}/questions.jsonl", _lines(asked)


def main(checkout: Path) -> None:
    """Write all of them."""
    for name, text in made_files():
        (checkout / name).write_text(text, encoding="utf-8")
        sys.stderr.write(f"{name}: {len(text)} characters\n")


def _lines(objects: list[dict[str, object]]) -> str:
    return "".join(json.dumps(each) + "\n" for each in objects)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
