"""One seed per attempt, from what names the attempt alone; nothing is drawn from a shared generator."""

from __future__ import annotations

import hashlib


def episode_seed(run_seed: int, episode_id: str, attempt: int) -> int:
    """Seed of one attempt, 0 <= seed < 2**63: the first 63 bits of the SHA-256 of ``<run seed>\\n<episode id>\\n<attempt>``.

    The same on every machine and Python, so an attempt that left no record runs again under the same seed.
    """
    digest = hashlib.sha256(f"{run_seed}\n{episode_id}\n{attempt}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
