"""An attempt token by token: what was sampled, with its log-probability, and what was fed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp

from agentgym_cli.errors import AgentgymError
from agentgym_cli.report import phrases
from agentgym_cli.report.html_text import Child, Html, element, joined
from agentgym_cli.store.episode_queries import token_ids_of, tokens_from
from agentgym_cli.store.episode_rows import AttemptKey, TokenRow
from agentgym_cli.store.queries import NotInStore
from agentgym_cli.store.rows import RunRow
from agentgym_cli.view.foreign import one_line, verbatim
from agentgym_cli.view.frame import Asked, anchor, table

PAGE = 2_000
"""Tokens that are shown at once."""
_BEFORE = 4
"""Tokens before those that are shown, which say how the first of them is written."""
_COMPARED = 100_000
"""Most tokens of an attempt whose text is encoded again."""
_LISTED = 400
"""Sampled tokens of a page whose log-probabilities stand in its table."""
_BOUNDS = (-0.05, -0.5, -1.5, -3.0)
"""Log-probabilities in nats between the five shades: probabilities of about 95, 61, 22 and 5 in a hundred."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """One token as it is shown."""

    row: TokenRow
    text: str
    ends: bool
    """It ends an action."""
    differs: bool
    """It is not in the encoding of the trajectory's own text."""


def token_view(asked: Asked, run: RunRow, key: AttemptKey, *, first: int, total: int, words: dict[str, str]) -> Iterator[Html]:
    """Tokens from place ``first`` on; ``words`` lead back to this view. Raises NotInStore where ``first`` is behind the last."""
    if first > total:
        raise NotInStore(f"token {first:,}: expected one of the attempt's {total:,} tokens")
    rows = tokens_from(asked.reading.connection, key, first=max(1, first - _BEFORE), most=PAGE + min(_BEFORE, first - 1))
    try:
        texts, ends = asked.tokens.texts(run, [row.token for row in rows])
        marks = _differing(asked, run, key, total)
    except AgentgymError as err:
        texts, ends, marks = [f"{row.token} " for row in rows], frozenset(), b""
        yield element("p", f"Shown as numbers: {err.message}", attributes={"class": "warning"})
    else:
        yield element("p", _counted(marks, total), attributes={"id": "differing"})
    found = [
        _Shown(row=row, text=text, ends=row.token in ends, differs=bool(marks and marks[row.place - 1]))
        for row, text in zip(rows, texts, strict=True)
        if row.place >= first
    ]
    yield _legend()
    yield element("div", *map(_token, found), attributes={"class": "tokens", "aria-label": "Tokens", "role": "group"})
    last = found[-1].row.place
    yield element("p", f"tokens {first:,} to {last:,} of {total:,} ", *_pages(asked, words, first, last, total), attributes={"class": "links"})
    yield from _table(found)


def _differing(asked: Asked, run: RunRow, key: AttemptKey, total: int) -> bytes:
    """For every token of the attempt 1 where its text would be encoded otherwise; nothing of one that is too long to look at whole."""
    if total > _COMPARED:
        return b""

    def make() -> bytes:
        return bytes(asked.tokens.differing(run, token_ids_of(asked.reading.connection, key)))

    return asked.kept.get(("differing", key), make, len, stamp=asked.reading.stamp)


def _counted(marks: bytes, total: int) -> str:
    if not marks:
        return f"The attempt has more than {_COMPARED:,} tokens: its text was not encoded again."
    return f"{sum(marks):,} of {total:,} tokens would be others if the text were encoded again; what was sampled is what is trained on."


def _legend() -> Html:
    shades = [element("span", words, attributes={"class": f"tok a lp{place}"}) for place, words in enumerate((">95%", ">61%", ">22%", ">5%", "less"))]
    kinds = (("fed", "f"), ("stop, sampled", "a s"), ("would be encoded otherwise", "a d"))
    fed, stop, differs = (element("span", words, attributes={"class": f"tok {kind}"}) for words, kind in kinds)
    return element("p", fed, " ", stop, " ", differs, " sampled with probability ", *shades, attributes={"class": "legend"})


def _token(one: _Shown) -> Html:
    row, differs = one.row, ("; its text would be encoded otherwise" if one.differs else "")
    if not row.sampled:
        return element(
            "span", verbatim(one.text), attributes={"class": f"tok f{_D[one.differs]}", "title": f"{row.place}: token {row.token}, fed{differs}"}
        )
    shade = sum(row.logprob < bound for bound in _BOUNDS)
    kind = f"tok a lp{shade}" + (" s" if one.ends else "") + _D[one.differs]
    said = f"{row.place}: token {row.token}, sampled, log-probability {phrases.number(row.logprob)}, probability {phrases.percent(_probability(row))}"
    return element("span", verbatim(one.text), attributes={"class": kind, "title": said + differs})


_D = ("", " d")


def _probability(row: TokenRow) -> float:
    return exp(min(row.logprob, 0.0))


def _pages(asked: Asked, words: dict[str, str], first: int, last: int, total: int) -> Iterator[Child]:
    if first > 1:
        yield anchor("earlier tokens", asked.link("episode", words | {"token": max(1, first - PAGE)}))
    if last < total:
        yield anchor("later tokens", asked.link("episode", words | {"token": last + 1}))


def _table(found: Sequence[_Shown]) -> Iterator[Html]:
    sampled = [one for one in found if one.row.sampled]
    rows: list[list[Child]] = [
        [
            str(one.row.place),
            str(one.row.token),
            one_line(one.text, 40),
            phrases.number(one.row.logprob),
            phrases.percent(_probability(one.row)),
            "other" if one.differs else "",
        ]
        for one in sampled[:_LISTED]
    ]
    if rows:
        caption = f"Sampled tokens ({len(rows):,}{f', the first of {len(sampled):,} here' if len(sampled) > len(rows) else ''})"
        grid = table(caption, ("place", "token", "text", "log-probability, nats", "probability", "encoded again"), rows)
        yield element("details", element("summary", caption), joined((grid,)))
