"""What a launcher writes down for verl's supervised trainer. Knows no verl."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from agentgym_cli.store.desk import Address

SETUP_FILE = "sft-setup.json"
"""In the working folder of the launch."""
START, TRAINER = "agentgym_cli.learn.verl.sft.start", "agentgym_cli.learn.verl.sft.trainer"


def launcher_words(processes: int) -> tuple[str, ...]:
    """Words of a command line, behind the interpreter, that start the trainer in so many processes of this machine."""
    return ("-m", START, "--standalone", "--local-addr=127.0.0.1", "--nnodes=1", f"--nproc-per-node={processes}", "-m", TRAINER)


@dataclass(frozen=True, slots=True, kw_only=True)
class SftSetup:
    """One launch."""

    digest: str
    """Of the frozen run."""
    desk: Address

    def write(self, path: Path) -> None:
        """Write it for its owner's eyes: it has the launch's secret."""
        path.touch(mode=0o600)
        path.write_bytes(orjson.dumps(asdict(self)))


def read_sft_setup(path: Path) -> SftSetup:
    """What ``SftSetup.write`` wrote."""
    document = orjson.loads(path.read_bytes())
    return SftSetup(digest=document["digest"], desk=Address(**document["desk"]))
