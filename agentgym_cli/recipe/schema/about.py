"""What people should know about an experiment: where its numbers come from, and what they gave there. Changes no result."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from agentgym_cli.recipe.schema.base import Count, Name, section

Words = Annotated[str, Field(min_length=1, max_length=2000)]


@section
class ExpectedSpec:
    """A published result, with its denominator."""

    model: Words
    """The trained policy as the source calls it."""
    split: Name
    """Evaluation split that it was measured on."""
    percent: Annotated[float, Field(ge=0, le=100)]
    """Success, in percent of ``tasks``."""
    tasks: Count
    """How many tasks the percentage is of."""
    source: Words
    """Paper and table."""


@section
class OverlapNote:
    """An overlap of training and evaluation that somebody reported, and that this recipe's lists may not show."""

    split: Name
    """Evaluation split that is said to share tasks with training."""
    tasks: Count
    """How many, as reported."""
    source: Words
    """Who says so, and how sure it is."""


@section
class AboutSpec:
    """For people. All of it is outside the digest."""

    source: Words | None = None
    """Script or paper that the numbers are from; None for an experiment of one's own."""
    hardware: Words | None = None
    """What it was run on, or is meant for; None where nobody says."""
    expected: tuple[ExpectedSpec, ...] = ()
    """Results that the source reports."""
    discrepancies: tuple[Words, ...] = ()
    """Where paper, script and code of the source do not agree, and what this recipe does about it."""
    reported_overlaps: tuple[OverlapNote, ...] = ()
    """Overlaps of training and evaluation that were reported elsewhere; ``freeze`` repeats them."""
