"""SearchQA on the command line: its options, and the world they describe."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path

from agentgym_envs.protocol import World

NEEDS = "The package tantivy (extra envs-searchqa). A corpus and questions ship with it; others can be given."
_HERE = Path(__file__).parent / "small"
_SMALL = 10_000
"""Up to so many passages a search takes less than a thread's handling."""


def ready() -> str | None:
    """None, or what is missing."""
    if find_spec("tantivy") is None:
        return 'the package tantivy is not installed; install it with: pip install "agentgym-cli[envs-searchqa]"'
    return None


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options that only this world has."""
    parser.add_argument(
        "--corpus",
        type=Path,
        metavar="FOLDER",
        help="index of a corpus, made by python -m agentgym_envs.searchqa.index; needs --questions (default: a small corpus that ships)",
    )
    parser.add_argument("--questions", type=Path, metavar="FILE", help='questions, a line {"question": ..., "answers": [...]} each')
    parser.add_argument(
        "--unlimited-guesses", action="store_true", help="a wrong answer does not end a task, as on AgentGym's server; every prompt then says so"
    )


def build(options: argparse.Namespace) -> World:
    """The world; DataError (a ValueError) or OSError when its corpus or questions cannot be read."""
    from agentgym_envs.searchqa.folder import open_folder
    from agentgym_envs.searchqa.passages import DataError, Search, passage_of, read_lines
    from agentgym_envs.searchqa.questions import read_questions
    from agentgym_envs.searchqa.record import Digest
    from agentgym_envs.searchqa.search import in_memory
    from agentgym_envs.searchqa.world import SearchQA

    if options.corpus is not None and options.questions is None:
        raise DataError("--corpus: expected --questions beside it, got none; those that ship ask about the corpus that ships")
    questions = read_questions(options.questions or _HERE / "questions.jsonl")
    search: Search
    if options.corpus is None:
        digest = Digest()
        search = in_memory(digest.over(passage_of(value, where) for where, value in read_lines(_HERE / "corpus.jsonl")))
        corpus, blocking = digest.hex(), False
    else:
        search, made = open_folder(options.corpus)
        corpus, blocking = made.digest, made.passages > _SMALL
    return SearchQA(questions=questions, search=search, corpus=corpus, unlimited_guesses=options.unlimited_guesses, blocking=blocking)
