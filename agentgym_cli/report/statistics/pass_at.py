"""What several episodes of one task say of k tries: pass@k, pass^k, avg@k. Knows no rows."""

from __future__ import annotations

from math import comb


def pass_at(successes: int, samples: int, k: int) -> float:
    """Chance that at least one of k tries succeeds, 1 - C(n - c, k) / C(n, k): unbiased from n tries with c successes (Chen et al. 2021).

    ``1 <= k <= samples``.
    """
    return 1.0 - comb(samples - successes, k) / comb(samples, k)


def pass_all(successes: int, samples: int, k: int) -> float:
    """Chance that all of k tries succeed, C(c, k) / C(n, k): pass^k, unbiased (Yao et al. 2024). ``1 <= k <= samples``."""
    return comb(successes, k) / comb(samples, k)


def ladder(samples: int) -> tuple[int, ...]:
    """The k worth showing of n samples: powers of two below n, and n."""
    return tuple(sorted({1 << power for power in range(samples.bit_length()) if 1 << power <= samples} | {samples})) if samples else ()
