"""Makes an index of a corpus, or goes on with one: ``python -m agentgym_envs.searchqa.index CORPUS FOLDER``."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from agentgym_envs.searchqa.corpus import read_corpus
from agentgym_envs.searchqa.options import ready
from agentgym_envs.searchqa.passages import DataError

EXIT_DATA, EXIT_MISSING, EXIT_INTERRUPTED = 2, 4, 130
_EVERY_SECONDS = 2.0


def main(args: Sequence[str]) -> int:
    """The exit code: 2 where the corpus or the folder is not what it should be, 4 without the engine, 130 when interrupted.

    What was made goes to stdout as JSON.
    """
    parser = argparse.ArgumentParser(prog="python -m agentgym_envs.searchqa.index", description="Index a corpus for agentgym serve searchqa.")
    parser.add_argument("corpus", type=Path, metavar="CORPUS", help="title and text of each passage, as JSON Lines or .parquet")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where the index goes; an unfinished one goes on")
    options = parser.parse_args(args)
    if (missing := ready()) is not None:
        return _refused(EXIT_MISSING, missing, "agentgym serve --list")
    try:
        return _index(options.corpus, options.folder)
    except ImportError as err:
        return _refused(EXIT_MISSING, f"the package tantivy is installed and cannot be imported: {err}", "install it again")
    except (DataError, OSError) as err:
        return _refused(EXIT_DATA, str(err), "python -m agentgym_envs.searchqa.index --help")
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: the same command goes on from the last commit\n")
        return EXIT_INTERRUPTED


def _index(corpus: Path, folder: Path) -> int:
    from agentgym_envs.searchqa.folder import fill

    told = _Progress()
    made = fill(folder, read_corpus(corpus), source=corpus.name, progress=told)
    told.say()
    sys.stdout.write(f'{{"passages": {made.passages}, "digest": "{made.digest}"}}\n')
    return 0


def _refused(code: int, message: str, hint: str) -> int:
    sys.stderr.write(f"error: {message}\nhint: {hint}\n")
    return code


class _Progress:
    """Says on stderr, now and then, how far it is."""

    def __init__(self) -> None:
        self._began = self._said = time.monotonic()
        self._passages = 0
        self._known = 0

    def __call__(self, passages: int, known: bool) -> None:
        self._passages = passages
        self._known += known
        if passages % 1_000 == 0 and time.monotonic() - self._said > _EVERY_SECONDS:
            self.say()

    def say(self) -> None:
        """How many passages there are so far, and how many a second."""
        self._said = time.monotonic()
        rate = self._passages / max(self._said - self._began, 1e-9)
        known = f", {self._known:,} of them there before" if self._known else ""
        sys.stderr.write(f"{self._passages:,} passages{known}, {rate:,.0f} a second\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
