"""The scheduled episodes of a run: filtered, sorted, a hundred at a time; the address holds all of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from agentgym_cli.report import phrases
from agentgym_cli.report.html_text import Child, Html, element, joined
from agentgym_cli.store import queries
from agentgym_cli.store.episode_queries import choices, episode_page
from agentgym_cli.store.episode_rows import SORTS, ChoiceRow, EpisodePage, EpisodeRow
from agentgym_cli.view.address import CHOICE_WORDS, Choice, read_choice
from agentgym_cli.view.foreign import one_line
from agentgym_cli.view.frame import Asked, anchor, badge, framed, table
from agentgym_cli.view.requests import Answer

PAGE = 100
"""Episodes on one page."""
_LISTED = ("outcome", "stop", "cause", "category", "phase", "split", "step", "horizon")
_TYPED = (
    ("task", "task", "text"),
    ("reward_from", "reward from", "number"),
    ("reward_to", "to", "number"),
    ("turns_from", "turns from", "number"),
    ("turns_to", "to", "number"),
    ("text", "text in any turn", "search"),
)
_MOST_CHOICES = 500
_LONGEST_CHOICE = 500
"""Characters of a choice that a list offers."""
_CHOICE_BYTES = 600
"""About what one of the choices takes in memory beside its names."""


def episodes_page(asked: Asked) -> Answer:
    """A page of episodes."""
    asked.query.only(*CHOICE_WORDS, "after", "before")
    connection = asked.reading.connection
    choice = read_choice(asked.query)
    run = queries.find_run(connection, choice.run)
    after, before = asked.query.text("after"), asked.query.text("before")
    found = episode_page(connection, run.run, choice.wanted, sort=choice.sort, descending=choice.descending, after=after, before=before, most=PAGE)
    known = asked.kept.get(("choices", run.run), lambda: choices(connection, run.run), _size, stamp=asked.reading.stamp)
    body: list[Child] = [
        element("h1", "Episodes"),
        _form(asked, choice, known),
        element("p", _counted(found), attributes={"role": "status", "id": "counted"}),
        _rows(asked, choice, found.rows),
        _pages(asked, choice, found),
    ]
    return framed(asked, f"Episodes of {run.run}", [(run.run, asked.link("run", {"run": run.run})), ("Episodes", None)], body, live=True, wide=True)


def _size(rows: Sequence[ChoiceRow]) -> int:
    return sum(_CHOICE_BYTES + len(row.category) + len(row.split) for row in rows)


def _counted(found: EpisodePage) -> str:
    if not found.rows:
        return f"{found.total:,} episodes, none here" if found.total else "No episode is like this."
    return f"{found.before + 1:,} to {found.before + len(found.rows):,} of {found.total:,} episodes"


def _form(asked: Asked, choice: Choice, known: Sequence[ChoiceRow]) -> Html:
    given = choice.words()
    hidden = element("input", attributes={"type": "hidden", "name": "run", "value": choice.run})
    fields = [_listed(name, given.get(name), _values(known, name)) for name in _LISTED]
    fields += [_typed(name, label, kind, given.get(name)) for name, label, kind in _TYPED]
    fields.append(_select("sort", "sort by", choice.sort, [(sort, None) for sort in SORTS], empty=False))
    fields.append(_select("order", "order", "down" if choice.descending else "up", [("up", None), ("down", None)], empty=False))
    buttons = element(
        "span",
        element("button", "Show", attributes={"type": "submit"}),
        anchor("all", asked.link("episodes", {"run": choice.run})),
        attributes={"class": "buttons"},
    )
    return element(
        "form",
        hidden,
        *fields,
        buttons,
        attributes={"action": asked.link("episodes"), "method": "get", "class": "filters", "role": "search", "aria-label": "Filter episodes"},
    )


def _values(known: Iterable[ChoiceRow], name: str) -> Sequence[tuple[str, int | None]]:
    counted: dict[object, int] = {}
    for row in known:
        value = getattr(row, name)
        if value is not None and value != "":
            counted[value] = counted.get(value, 0) + row.episodes
    return [(str(value), count) for value, count in sorted(counted.items(), key=lambda item: _order(item[0]))]


def _order(value: object) -> tuple[float, str]:
    return (float(value), "") if isinstance(value, int) else (0.0, str(value))


def _listed(name: str, given: str | None, values: Sequence[tuple[str, int | None]]) -> Html:
    """A list of what there is; a field to type in where it would be too long to look through."""
    if len(values) > _MOST_CHOICES:
        return _typed(name, name, "number" if name in ("step", "horizon") else "text", given)
    return _select(name, name, given, values)


def _select(name: str, label: str, chosen: str | None, values: Sequence[tuple[str, int | None]], *, empty: bool = True) -> Html:
    every = [("", None)] * empty + list(values)
    if chosen is not None and chosen not in {value for value, _ in every}:
        every.append((chosen, 0))
    options = []
    for value, count in every:
        words = one_line(value or "any", 60) if count is None else joined((one_line(value, 60), f" ({count:,})"))
        options.append(element("option", words, attributes=_offered(value, value == (chosen or ""))))
    return element("label", element("span", label), element("select", *options, attributes={"name": name, "aria-label": label}))


def _offered(value: str, chosen: bool) -> dict[str, object]:
    if chosen:
        return {"value": value, "selected": ""}
    return {"value": value} if len(value) <= _LONGEST_CHOICE else {"disabled": "", "title": "its name is too long for a list"}


def _typed(name: str, label: str, kind: str, given: str | None) -> Html:
    said = name.replace("_", " ") if label == "to" else label
    attributes = {"type": kind, "name": name, "value": given or "", "aria-label": said} | ({"step": "any"} if kind == "number" else {})
    return element("label", element("span", label), element("input", attributes=attributes), attributes={"class": kind})


_NAMES = ("episode", "outcome", "stopped by", "category", "horizon", "reward", "turns", "invalid", "tokens", "seconds", "attempts")


def _rows(asked: Asked, choice: Choice, rows: Sequence[EpisodeRow]) -> Html:
    shown = [
        [
            anchor(one_line(row.episode, 120), asked.link("episode", choice.words() | {"episode": row.episode})),
            badge(row.outcome),
            one_line(row.stop or "", 40) if row.cause is None else f"{row.stop} ({row.cause})",
            one_line(row.category, 60),
            _number(row.horizon),
            _number(row.reward),
            _number(row.turns),
            _number(row.invalid_actions),
            _number(row.action_tokens),
            _number(row.seconds),
            str(row.attempts),
        ]
        for row in rows
    ]
    attributes = [{"class": "line"} | ({"data-failure": ""} if row.outcome == "failure" else {}) for row in rows]
    return table("Episodes", _NAMES, shown, hidden=True, attributes=attributes)


def _number(value: float | None) -> str:
    return phrases.number(value)


def _pages(asked: Asked, choice: Choice, found: EpisodePage) -> Html:
    links = list(_page_links(asked, choice, found))
    return element("nav", *links, attributes={"aria-label": "Pages", "class": "links"})


def _page_links(asked: Asked, choice: Choice, found: EpisodePage) -> Iterator[Html]:
    if found.rows and found.before:
        yield anchor("first", asked.link("episodes", choice.words()))
        yield anchor("earlier", asked.link("episodes", choice.words() | {"before": found.rows[0].episode}), rel="prev")
    if found.rows and found.before + len(found.rows) < found.total:
        yield anchor("later", asked.link("episodes", choice.words() | {"after": found.rows[-1].episode}), rel="next")
