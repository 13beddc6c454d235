"""What a page's address says: every state of a page is in it, and nothing in it that is not understood is passed over."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from math import isfinite
from urllib.parse import parse_qsl, urlencode

from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.wording import asked, listed, shown
from agentgym_cli.store.episode_rows import SORTS, EpisodeFilter, Sort

LONGEST = 60_000
"""Bytes of a query. What would make a longer one is no link."""
_NUMBER = re.compile(r"-?(\d+|\d*\.\d+)([eE][-+]?\d+)?", re.ASCII)
"""As HTML writes numbers."""
_NUMBERS = frozenset({"step", "horizon", "turns_from", "turns_to"})
_REALS = frozenset({"reward_from", "reward_to"})
FILTERS = tuple(each.name for each in fields(EpisodeFilter))


class BadAddress(RecipeError):
    """A page was asked for with words that cannot be meant."""

    general_hint = "go back to the list and choose there"


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """The values of an address by name; what is empty is not there."""

    values: Mapping[str, str] = field(default_factory=dict)

    def only(self, *names: str) -> None:
        """Refuse every other name. Raises BadAddress."""
        for name in self.values:
            if name not in names:
                raise BadAddress(f"address: expected one of {listed(sorted(names)) or 'no words'}, got {shown(name)}", asked(name, names) or None)

    def text(self, name: str) -> str | None:
        """A value as it is, None without it."""
        return self.values.get(name)

    def needed(self, name: str) -> str:
        """The same. Raises BadAddress without it."""
        value = self.values.get(name)
        if value is None:
            raise BadAddress(f"address: expected a value for {name}, got none")
        return value

    def whole(self, name: str, default: int | None = None) -> int | None:
        """A whole number of at most 15 digits. Raises BadAddress for anything else."""
        value = self.values.get(name)
        if value is None:
            return default
        digits = value.removeprefix("-")
        if not (digits.isascii() and digits.isdecimal() and len(digits) <= 15):
            raise BadAddress(f"{name}: expected a whole number, got {shown(value)}")
        return int(value)

    def counted(self, name: str, default: int = 1, *, least: int = 1) -> int:
        """A whole number from ``least`` on. Raises BadAddress for anything else."""
        value = self.whole(name, default)
        if value is None or value < least:
            raise BadAddress(f"{name}: expected a whole number from {least} on, got {shown(self.values.get(name))}")
        return value

    def real(self, name: str) -> float | None:
        """A finite number. Raises BadAddress for anything else."""
        value = self.values.get(name)
        if value is None:
            return None
        number = float(value) if _NUMBER.fullmatch(value) else float("nan")
        if not isfinite(number):
            raise BadAddress(f"{name}: expected a number, got {shown(value)}")
        return number

    def one_of(self, name: str, choices: tuple[str, ...]) -> str:
        """One of some words, the first without it. Raises BadAddress for another."""
        value = self.values.get(name, choices[0])
        if value not in choices:
            raise BadAddress(f"{name}: expected one of {listed(choices)}, got {shown(value)}", asked(value, choices) or None)
        return value


def read_query(raw: bytes) -> Query:
    """The query of an address. Raises BadAddress for one that is too long, no UTF-8, or says a name twice."""
    if len(raw) > LONGEST:
        raise BadAddress(f"address: expected at most {LONGEST} bytes, got {len(raw)}")
    try:
        pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, encoding="utf-8", errors="strict", max_num_fields=50)
    except ValueError as err:
        raise BadAddress("address: expected UTF-8 in at most 50 names and values, got something else") from err
    values: dict[str, str] = {}
    for name, value in pairs:
        if name in values:
            raise BadAddress(f"address: expected {shown(name)} once, got it twice")
        if "\0" in value:
            raise BadAddress(f"{shown(name)}: expected text without the character U+0000, got it")
        if value:
            values[name] = value
    return Query(values=values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which episodes of a run are looked at, in which order. Lists and single episodes carry it along."""

    run: str
    wanted: EpisodeFilter
    sort: Sort = "schedule"
    descending: bool = False

    def words(self) -> dict[str, str]:
        """As words of an address."""
        found = {"run": self.run}
        for name in FILTERS:
            value = getattr(self.wanted, name)
            if value is not None:
                found[name] = _exact(value) if isinstance(value, float) else str(value)
        found |= {} if self.sort == "schedule" else {"sort": self.sort}
        return found | ({"order": "down"} if self.descending else {})

    def filtered(self, **changes: object) -> Choice:
        """The same with other filters."""
        return replace(self, wanted=replace(self.wanted, **changes))  # type: ignore[arg-type]


def _exact(number: float) -> str:
    short = f"{number:g}"
    return short if float(short) == number else repr(number)


CHOICE_WORDS = ("run", "sort", "order", *FILTERS)


def read_choice(query: Query) -> Choice:
    """The choice in a query. Raises BadAddress."""
    found: dict[str, object] = {}
    for name in FILTERS:
        found[name] = query.whole(name) if name in _NUMBERS else query.real(name) if name in _REALS else query.text(name)
    sort = query.one_of("sort", SORTS)
    return Choice(
        run=query.needed("run"),
        wanted=EpisodeFilter(**found),  # type: ignore[arg-type]
        sort=next(each for each in SORTS if each == sort),
        descending=query.one_of("order", ("up", "down")) == "down",
    )


def link(root: str, page: str, words: Mapping[str, object] | None = None, fragment: str = "") -> str:
    """An address below ``root``; words that are None are left out."""
    given = {name: str(value) for name, value in (words or {}).items() if value is not None}
    return f"{root}/{page}" + (f"?{urlencode(given)}" if given else "") + (f"#{fragment}" if fragment else "")
