"""TextCraft on the command line: its options, and the world they describe."""

from __future__ import annotations

import argparse
from pathlib import Path

from agentgym_envs.protocol import World
from agentgym_envs.textcraft.book import shipped_book
from agentgym_envs.textcraft.game import game_book
from agentgym_envs.textcraft.world import TextCraft

NEEDS = "Nothing beside the core."


def ready() -> str | None:
    """Always."""
    return None


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options that only this world has."""
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--book", choices=("big", "laptop"), help="shipped recipe book (default: big)")
    source.add_argument(
        "--recipes", type=Path, metavar="DIR", help="folder of recipe files in the game's own JSON format, in place of a shipped book"
    )
    parser.add_argument(
        "--compat", action="store_true", help="take task numbers modulo their count, as AgentGym's server does, where they would be refused"
    )


def build(options: argparse.Namespace) -> World:
    """The world; BookError or OSError when its recipes cannot be read."""
    book = shipped_book(options.book or "big") if options.recipes is None else game_book(options.recipes)
    return TextCraft(book=book, wrap=options.compat)
