"""Writes the books, the task lists and the laptop model's folder: ``python -m agentgym_envs.textcraft.make CHECKOUT``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from agentgym_envs.textcraft.book import book_json
from agentgym_envs.textcraft.make.big import big_book
from agentgym_envs.textcraft.make.laptop import laptop_book
from agentgym_envs.textcraft.make.manifest import big_split, laptop_split, manifest
from agentgym_envs.textcraft.make.vocabulary import config_json, tokenizer_config_json, tokenizer_json


def made_files() -> Iterator[tuple[str, str]]:
    """Every made file: its path in a checkout and its text."""
    big, laptop = big_book(), laptop_book()
    yield "envs/agentgym_envs/textcraft/books/big.json", book_json(big)
    yield "envs/agentgym_envs/textcraft/books/laptop.json", book_json(laptop)
    yield "recipes/tasks/textcraft_laptop.csv", manifest(laptop, laptop_split)
    yield "recipes/tasks/textcraft_big.csv", manifest(big, big_split)
    yield "recipes/models/textcraft_laptop/config.json", config_json(laptop)
    yield "recipes/models/textcraft_laptop/tokenizer.json", tokenizer_json(laptop)
    yield "recipes/models/textcraft_laptop/tokenizer_config.json", tokenizer_config_json()


def main(checkout: Path) -> None:
    """Write all of them."""
    for name, text in made_files():
        target = checkout / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        sys.stderr.write(f"{name}: {len(text)} characters\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
