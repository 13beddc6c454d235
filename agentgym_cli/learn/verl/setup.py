"""What a launcher writes down for verl's processes, and where they find it. Knows no verl."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from agentgym_cli.learn.verl.asked import LOOP
from agentgym_cli.store.desk import Address

LOOP_CLASS = "agentgym_cli.learn.verl.loop.EpisodeLoop"
DIGEST_FILE = "agentgym.json"
"""Beside a checkpoint that is complete: the run's digest and the step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """One launch."""

    frozen: str
    """File of the frozen run."""
    run: str
    segment: int
    tokenizer: str
    """Folder of the tokenizer's files."""
    urls: tuple[str, ...]
    """The world's servers."""
    rows: dict[str, str]
    """Files of rows by name."""
    desk: Address
    slots: int
    """Most episodes of one worker at once."""

    def write(self, path: Path) -> None:
        """Write it for its owner's eyes: it has the launch's secret."""
        path.touch(mode=0o600)
        path.write_bytes(orjson.dumps(asdict(self)))


def read_setup(path: Path) -> Setup:
    """What ``Setup.write`` wrote."""
    document = orjson.loads(path.read_bytes())
    return Setup(**{**document, "urls": tuple(document["urls"]), "desk": Address(**document["desk"])})


def write_loops(path: Path, *, site: str, setup: Path) -> None:
    """The file in which verl finds our loop: YAML, of which JSON is a part."""
    path.write_text(json.dumps([{"name": LOOP, "_target_": LOOP_CLASS, "site": site, "setup": str(setup)}]) + "\n", encoding="utf-8")


def setup_of_loops(path: Path) -> Setup:
    """The setup that such a file names."""
    (loop,) = json.loads(path.read_text(encoding="utf-8"))
    return read_setup(Path(loop["setup"]))
