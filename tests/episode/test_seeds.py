"""Seeds of attempts and digests of observations."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_cli.env.contract import content_digest
from agentgym_cli.episode.seeds import episode_seed


def test_seed_is_the_first_63_bits_of_the_sha256() -> None:
    # printf '1\ntrain/train/1/textcraft_0/0\n1' | sha256sum
    assert episode_seed(1, "train/train/1/textcraft_0/0", 1) == 0x57A8D525B18BA903 >> 1


@pytest.mark.slow
@settings(deadline=None)
@given(st.integers(0, 2**64), st.text(max_size=40), st.integers(1, 9))
def test_seed_fits_63_bits_and_repeats(run_seed: int, episode: str, attempt: int) -> None:
    seed = episode_seed(run_seed, episode, attempt)
    assert 0 <= seed < 2**63
    assert seed == episode_seed(run_seed, episode, attempt)


def test_seed_differs_by_run_episode_and_attempt() -> None:
    seeds = {episode_seed(run, episode, attempt) for run in (1, 11) for episode in ("a/1", "a/11") for attempt in (1, 2)}
    assert len(seeds) == 8


def test_content_digest_is_16_hex_digits_of_the_sha256_of_its_utf8() -> None:
    # printf 'Goal: épée' | sha256sum
    assert content_digest("Goal: épée") == "8169895b7024d138"
