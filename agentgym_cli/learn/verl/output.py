"""What the output of verl, Ray or vLLM says about its end. Reads a bounded tail of the log."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_TAIL_BYTES = 200_000
_WORDS = 300
_MEMORY = re.compile(
    r"(?:CUDA )?out of memory|OutOfMemoryError|No available memory for the cache blocks|ray\.exceptions\.OutOfMemory"
    r"|KV cache is needed, which is larger than|less than desired GPU memory utilization",
    re.IGNORECASE,
)
_WHO = re.compile(r"^(?:\([^)]*\)\s*)*(?:(?:ERROR|WARNING|CRITICAL) [\d-]+ [\d:]+ \[[^\]]*\]\s*)?")
"""Which process says it, and where in its code."""
_ERROR = re.compile(r"^(?:\S+ )?(?:\w+\.)*(\w*(?:Error|Exception)): (.+)$")
_REPEATS = ("WorkerProc initialization failed", "Engine core initialization failed", "EngineCore encountered an issue", "Engine core proc")
"""How vLLM's processes say that another one has said why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastWords:
    """The end of an output."""

    words: str
    """The last error in it, else its last line."""
    memory: bool
    """Whether there was too little memory."""


def last_words(log: Path) -> LastWords:
    """What a log ends with."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        lines = [_WHO.sub("", line.strip()) for line in file.read().decode(errors="replace").splitlines()]
    error = next((f"{said[1]}: {said[2][:_WORDS]}" for said in _errors(reversed(lines)) if not said[2].startswith(_REPEATS)), None)
    words = error or next((line[:_WORDS] for line in reversed(lines) if line), "nothing")
    return LastWords(words=words, memory=any(_MEMORY.search(line) for line in lines))


def _errors(lines: Iterable[str]) -> Iterable[re.Match[str]]:
    return filter(None, map(_ERROR.match, lines))
