"""An attempt token by token: what was sampled, with its log-probability, and what was fed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import exp

from agentgym_cli.errors import AgentgymError
from agentgym_cli.report import phrases
from agentgym_cli.report.html_text import Child, Html, element, joined
from agentgym_cli.store.episode_queries import tokens_from
from agentgym_cli.store.episode_rows import AttemptKey, TokenRow
from agentgym_cli.store.rows import RunRow
from agentgym_cli.view.foreign import one_line, verbatim
from agentgym_cli.view.frame import Asked, anchor, table

PAGE = 2_000
"""Tokens that are shown at once."""
_LISTED = 400
"""Sampled tokens of a page whose log-probabilities stand in its table."""
_BOUNDS = (-0.05, -0.5, -1.5, -3.0)
"""Log-probabilities in nats between the five shades: probabilities of about 95, 61, 22 and 5 in a hundred."""


def token_view(asked: Asked, run: RunRow, key: AttemptKey, *, first: int, total: int, words: dict[str, str]) -> Iterator[Html]:
    """Tokens from place ``first`` on; ``words`` lead back to this view."""
    rows = tokens_from(asked.reading.connection, key, first=first, most=PAGE)
    texts, ends, trouble = _texts(asked, run, rows)
    if trouble is not None:
        yield element("p", f"Shown as numbers: {trouble}", attributes={"class": "warning"})
    yield _legend()
    pairs = list(zip(rows, texts, strict=True))
    yield element("div", *(_token(row, text, ends) for row, text in pairs), attributes={"class": "tokens", "aria-label": "Tokens", "role": "group"})
    last = rows[-1].place if rows else 0
    yield element("p", f"tokens {first:,} to {last:,} of {total:,} ", *_pages(asked, words, first, last, total), attributes={"class": "links"})
    yield from _table(pairs)


def _texts(asked: Asked, run: RunRow, rows: Sequence[TokenRow]) -> tuple[Sequence[str], frozenset[int], str | None]:
    ids = [row.token for row in rows]
    try:
        texts, ends = asked.tokens(run, ids)
    except AgentgymError as err:
        return [f"{each} " for each in ids], frozenset(), err.message
    return texts, ends, None


def _legend() -> Html:
    shades = [element("span", words, attributes={"class": f"tok a lp{place}"}) for place, words in enumerate((">95%", ">61%", ">22%", ">5%", "less"))]
    fed, stop = (element("span", words, attributes={"class": f"tok {kind}"}) for words, kind in (("fed", "f"), ("stop, sampled", "a s")))
    return element("p", fed, " ", stop, " sampled with probability ", *shades, attributes={"class": "legend"})


def _token(row: TokenRow, text: str, ends: frozenset[int]) -> Html:
    if not row.sampled:
        return element("span", verbatim(text), attributes={"class": "tok f", "title": f"{row.place}: token {row.token}, fed"})
    shade = sum(row.logprob < bound for bound in _BOUNDS)
    kind = f"tok a lp{shade}" + (" s" if row.token in ends else "")
    said = f"{row.place}: token {row.token}, sampled, log-probability {phrases.number(row.logprob)}, probability {phrases.percent(_probability(row))}"
    return element("span", verbatim(text), attributes={"class": kind, "title": said})


def _probability(row: TokenRow) -> float:
    return exp(min(row.logprob, 0.0))


def _pages(asked: Asked, words: dict[str, str], first: int, last: int, total: int) -> Iterator[Child]:
    if first > 1:
        yield anchor("earlier tokens", asked.link("episode", words | {"token": max(1, first - PAGE)}))
    if last < total:
        yield anchor("later tokens", asked.link("episode", words | {"token": last + 1}))


def _table(pairs: Sequence[tuple[TokenRow, str]]) -> Iterator[Html]:
    sampled = [(row, text) for row, text in pairs if row.sampled]
    rows: list[list[Child]] = [
        [str(row.place), str(row.token), one_line(text, 40), phrases.number(row.logprob), phrases.percent(_probability(row))]
        for row, text in sampled[:_LISTED]
    ]
    if rows:
        caption = f"Sampled tokens ({len(rows):,}{f', the first of {len(sampled):,} here' if len(sampled) > len(rows) else ''})"
        grid = table(caption, ("place", "token", "text", "log-probability, nats", "probability"), rows)
        yield element("details", element("summary", caption), joined((grid,)))
