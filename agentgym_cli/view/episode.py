"""One episode: its attempts, what it spent of its budgets, what the verifier saw, its turns or its tokens, and the way to its neighbours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agentgym_cli.report.html_text import Child, Html, element, joined
from agentgym_cli.store import queries
from agentgym_cli.store.episode_queries import episodes_of_task, neighbours, one_episode, tries_of
from agentgym_cli.store.episode_rows import AttemptKey, EpisodeRow, Neighbours, TryRow
from agentgym_cli.store.rows import RunRow
from agentgym_cli.view.address import CHOICE_WORDS, Choice, read_choice
from agentgym_cli.view.foreign import SHOWN, one_line, verbatim
from agentgym_cli.view.frame import Asked, anchor, badge, framed
from agentgym_cli.view.panels import attempt_name, attempts_table, panels
from agentgym_cli.view.requests import Answer
from agentgym_cli.view.tokens import token_view
from agentgym_cli.view.turns import more, some_turns

_SIBLINGS = 50
"""Other episodes of the same task that are offered for a comparison."""
WORDS = (*CHOICE_WORDS, "episode", "segment", "attempt", "view", "turn", "token", "replay")


def episode_page(asked: Asked) -> Answer:
    """One episode, by the attempt that counts unless another is named."""
    asked.query.only(*WORDS)
    connection, choice = asked.reading.connection, read_choice(asked.query)
    run = queries.find_run(connection, choice.run)
    row = one_episode(connection, run.run, asked.query.needed("episode"))
    around = neighbours(connection, run.run, row.episode, choice.wanted, sort=choice.sort, descending=choice.descending)
    tries = tries_of(connection, run.run, row.episode, SHOWN)
    chosen = _chosen(asked, row, tries)
    body: list[Child] = [_head(row), _around(asked, choice, row, around)]
    if chosen is None:
        body.append(element("p", "No attempt at it is recorded: it counts as missing.", attributes={"class": "warning"}))
    else:
        key = AttemptKey(run=run.run, segment=chosen.segment, episode=row.episode, attempt=chosen.attempt)
        body += [
            panels(connection, run, row, key, chosen, last=_final(asked, key, chosen)),
            *_tries(asked, choice, row, tries, chosen),
            _siblings(asked, run, row, key),
            *_inside(asked, choice, run, row, key, chosen),
        ]
    way = [(run.run, asked.link("run", {"run": run.run})), ("Episodes", asked.link("episodes", choice.words())), (row.episode, None)]
    return framed(asked, f"{row.episode} of {run.run}", way, body)


def counting(row: EpisodeRow, tries: Sequence[TryRow]) -> TryRow | None:
    """The attempt that counts: the outcome's own, in its latest segment; the last one that is not superseded where nothing is settled."""
    kept = [each for each in tries if not each.superseded] or list(tries)
    named = [each for each in kept if each.attempt == row.attempt]
    return next(iter([*named[::-1], *kept[::-1]]), None)


def _chosen(asked: Asked, row: EpisodeRow, tries: Sequence[TryRow]) -> TryRow | None:
    segment, attempt = asked.query.whole("segment"), asked.query.whole("attempt")
    if segment is None and attempt is None:
        return counting(row, tries)
    for each in tries[::-1]:
        if attempt in (None, each.attempt) and segment in (None, each.segment):
            return each
    raise queries.NotInStore("attempt: expected one of the attempts at this episode, got another")


def _head(row: EpisodeRow) -> Html:
    goal = element("p", one_line(row.goal, 400), attributes={"class": "goal"}) if row.goal else ""
    return element("div", element("h1", one_line(row.episode, 160), " ", badge(row.outcome)), goal)


def _around(asked: Asked, choice: Choice, row: EpisodeRow, around: Neighbours) -> Html:
    ways = (
        ("previous", around.previous, "prev", "p"),
        ("next", around.next, "next", "n"),
        ("previous failure", around.previous_failure, "", "F"),
        ("next failure", around.next_failure, "", "f"),
    )
    view = {"view": asked.query.text("view")}
    links: list[Child] = []
    for name, episode, rel, key in ways:
        if episode is None:
            links.append(element("span", name, attributes={"class": "none"}))
        else:
            attributes = {"data-key": key, "aria-keyshortcuts": key} | ({"rel": rel} if rel else {})
            links.append(anchor(name, asked.link("episode", choice.words() | view | {"episode": episode}), **attributes))
    place = element("span", f"{around.place:,} of {around.total:,}", attributes={"class": "place"})
    words = choice.words() | {"episode": row.episode}
    exports = [anchor(f"export {form.upper()}", asked.link(f"export.{form}", _exported(asked, words))) for form in ("html", "json") if row.attempts]
    return element("nav", *links, place, *exports, attributes={"class": "links", "aria-label": "Episodes around"})


def _exported(asked: Asked, words: dict[str, str]) -> dict[str, object]:
    return {"run": words["run"], "episode": words["episode"], "segment": asked.query.text("segment"), "attempt": asked.query.text("attempt")}


def _final(asked: Asked, key: AttemptKey, chosen: TryRow) -> Html:
    """What the world showed last."""
    rest = more(asked, key, "final", 1, SHOWN, chosen.final_length) if chosen.final_length > SHOWN else Html("")
    return element("div", verbatim(chosen.final_observation), rest, attributes={"class": "said", "dir": "auto"})


def _tries(asked: Asked, choice: Choice, row: EpisodeRow, tries: Sequence[TryRow], chosen: TryRow) -> Iterator[Html]:
    def name(each: TryRow) -> Child:
        words = choice.words() | {"episode": row.episode, "segment": each.segment, "attempt": each.attempt}
        return anchor(attempt_name(each), asked.link("episode", words))

    if len(tries) > 1:
        yield attempts_table(tries, chosen, name)


def _siblings(asked: Asked, run: RunRow, row: EpisodeRow, key: AttemptKey) -> Html:
    others = [
        each for each in episodes_of_task(asked.reading.connection, run.run, row.task, _SIBLINGS) if each.episode != row.episode and each.attempts
    ]
    if not others:
        return Html("")
    options = [element("option", f"{each.episode}: {each.outcome}", attributes={"value": each.episode}) for each in others]
    hidden = [
        element("input", attributes={"type": "hidden", "name": name, "value": value})
        for name, value in (("run", run.run), ("episode", row.episode), ("other_run", run.run))
    ]
    label = element("label", "beside another episode of this task ", element("select", *options, attributes={"name": "other"}))
    button = element("button", "Show both", attributes={"type": "submit"})
    return element("form", *hidden, label, button, attributes={"action": asked.link("beside"), "method": "get", "class": "inline"})


def _inside(asked: Asked, choice: Choice, run: RunRow, row: EpisodeRow, key: AttemptKey, chosen: TryRow) -> Iterator[Html]:
    view = asked.query.one_of("view", ("turns", "tokens"))
    asked.query.one_of("replay", ("off", "on"))
    own = choice.words() | {"episode": row.episode}
    own |= {name: value for name in ("segment", "attempt") if (value := asked.query.text(name))}
    tabs = [
        anchor(name, asked.link("episode", own | ({} if name == "turns" else {"view": name})), **({"aria-current": "true"} if name == view else {}))
        for name in ("turns", "tokens")
    ]
    replay = element("button", "Replay", attributes={"type": "button", "id": "replay", "aria-pressed": "false"}) if view == "turns" else Html("")
    yield element("nav", *tabs, replay, attributes={"class": "links tabs", "aria-label": "Turns or tokens"})
    if view == "tokens":
        yield from _tokens(asked, run, key, chosen, own | {"view": "tokens"})
        return
    first = asked.query.counted("turn")
    back = [element("p", anchor("from the first turn", asked.link("episode", own)), attributes={"class": "links"})] if first > 1 else []
    shown = joined(some_turns(asked, key, first))
    yield element("section", element("h2", "Turns"), *back, shown, attributes={"id": "turns", "data-turn": first})


def _tokens(asked: Asked, run: RunRow, key: AttemptKey, chosen: TryRow, words: dict[str, str]) -> Iterator[Html]:
    if not chosen.tokens:
        yield element(
            "p", "No tokens of this attempt were kept; the recipe's store.keep_tokens says of which they are.", attributes={"class": "warning"}
        )
        return
    found = token_view(asked, run, key, first=asked.query.counted("token"), total=chosen.tokens, words=words)
    yield element("section", element("h2", "Tokens"), *found)
