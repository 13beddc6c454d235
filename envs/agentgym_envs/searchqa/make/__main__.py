"""Writes the small corpus, its questions and their task list: ``python -m agentgym_envs.searchqa.make CHECKOUT``."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

from agentgym_envs.searchqa.make.ask import Asked, questions
from agentgym_envs.searchqa.make.country import drawn
from agentgym_envs.searchqa.make.draw import Draw
from agentgym_envs.searchqa.make.entries import entries
from agentgym_envs.searchqa.questions import Question
from agentgym_envs.searchqa.world import prompt

_SEED = "small/1"
_TRAINED = 80
"""Tasks from here on are the split ``test``; they stand in an order that was drawn."""
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
    yield "recipes/tasks/searchqa_small.csv", _manifest(questions(country, _SEED))


def main(checkout: Path) -> None:
    """Write all of them."""
    for name, text in made_files():
        (checkout / name).write_text(text, encoding="utf-8")
        sys.stderr.write(f"{name}: {len(text)} characters\n")


def _manifest(asked: list[Asked]) -> str:
    """CSV with columns index, split, category, goal, digest; a digest is of the first observation, as of every task list."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("index", "split", "category", "goal", "digest"))
    for number, each in enumerate(asked):
        digest = sha256(prompt(Question(str(number), each.text, (each.answer,))).encode()).hexdigest()[:16]
        writer.writerow((number, "train" if number < _TRAINED else "test", each.category, each.text, digest))
    return out.getvalue()


def _lines(objects: list[dict[str, object]]) -> str:
    return "".join(json.dumps(each) + "\n" for each in objects)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
