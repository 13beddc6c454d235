"""Ages of a batch's tokens, counted by hand."""

from __future__ import annotations

from agentgym_cli.learn.verl.ages import Ages, ages, versions_of


def test_ages_are_counted_token_by_token() -> None:
    # The step learns from weights 4: two tokens are of them, three of weights 3, five of weights 2; (2 * 0 + 3 * 1 + 5 * 2) / 10 is 1.3.
    assert ages([((3, 3), (4, 2)), ((2, 5),)], newest=4) == Ages(oldest=2, mean=1.3)
    assert list(versions_of(((3, 3), (4, 2)))) == [3, 3, 3, 4, 4]


def test_a_batch_that_the_newest_weights_sampled_has_age_0() -> None:
    assert ages([((7, 4),), ((7, 1),)], newest=7) == Ages(oldest=0, mean=0.0)


def test_no_token_has_no_age() -> None:
    assert ages([], newest=3) is None
    assert ages([((2, 0),)], newest=3) is None
