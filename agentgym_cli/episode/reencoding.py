"""A trajectory read by kinds of tokens, and compared with what its own text would be encoded to. For looking at; nothing is trained on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from agentgym_cli.episode.tokens import TurnTokens

Kind: TypeAlias = Literal["prompt", "observation", "action", "stop"]
KINDS: tuple[Kind, ...] = ("prompt", "observation", "action", "stop")
"""``prompt`` is what was fed before the first action, ``observation`` what was fed after it, ``stop`` a stop token that was sampled."""
_WINDOW = 256
"""Most tokens on one side between two places where both encodings agree."""
_AGREEMENT = 3
"""Equal tokens in a row that make a place where they agree again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Neighbouring tokens of one kind that all would, or all would not, be encoded again as they are."""

    kind: Kind
    first: int
    """Place of the first token in the trajectory."""
    token_ids: tuple[int, ...]
    text: str
    differs: bool


def kinds_of(token_ids: Sequence[int], action_mask: Sequence[bool], stop_ids: frozenset[int]) -> list[Kind]:
    """The kind of every token; both arguments have length T."""
    found: list[Kind] = []
    fed: Kind = "prompt"
    for token, sampled in zip(token_ids, action_mask, strict=True):
        if not sampled:
            found.append(fed)
            continue
        fed = "observation"
        found.append("stop" if token in stop_ids else "action")
    return found


def differing(token_ids: Sequence[int], again: Sequence[int]) -> list[bool]:
    """Which of ``token_ids`` are not in ``again``, the encoding of their text, when both are laid side by side."""
    marks = [False] * len(token_ids)
    here = there = 0
    while here < len(token_ids) and there < len(again):
        if token_ids[here] == again[there]:
            here, there = here + 1, there + 1
            continue
        ours, theirs = _next_agreement(tuple(token_ids[here : here + _WINDOW]), tuple(again[there : there + _WINDOW]))
        marks[here : here + ours] = [True] * ours
        here, there = here + ours, there + theirs
    marks[here:] = [True] * (len(token_ids) - here)
    return marks


def _next_agreement(ours: tuple[int, ...], theirs: tuple[int, ...]) -> tuple[int, int]:
    """How many tokens to skip on each side until both agree, as few as possible; all of both where they never do."""
    for skipped in range(2, len(ours) + len(theirs)):
        for mine in range(max(1, skipped - len(theirs) + 1), min(skipped, len(ours))):
            yours = skipped - mine
            if ours[mine] == theirs[yours] and ours[mine : mine + _AGREEMENT] == theirs[yours : yours + _AGREEMENT]:
                return mine, yours
    return len(ours), len(theirs)


def spans_of(tokens: TurnTokens, token_ids: Sequence[int], action_mask: Sequence[bool]) -> list[Span]:
    """A trajectory cut into spans, in order. Tokens whose re-encoding would differ are spans of their own."""
    kinds = kinds_of(token_ids, action_mask, tokens.stop_ids)
    marks = differing(token_ids, tokens.read(tokens.written(token_ids)))
    return [
        Span(
            kind=kinds[first],
            first=first,
            token_ids=tuple(token_ids[first:end]),
            text=tokens.written(token_ids[first:end]),
            differs=marks[first],
        )
        for first, end in _cuts(kinds, marks)
    ]


def _cuts(kinds: Sequence[Kind], marks: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """Where spans begin and end."""
    first = 0
    for place in range(1, len(kinds) + 1):
        if place == len(kinds) or marks[first] or marks[place] or kinds[place] != kinds[first]:
            yield first, place
            first = place
