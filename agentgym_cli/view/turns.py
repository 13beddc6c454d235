"""Turns as they were: what the world showed, what the policy thought, what it did, and what that brought. Long texts come piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from agentgym_cli.report import phrases
from agentgym_cli.report.html_text import Child, Html, element, joined
from agentgym_cli.store.episode_queries import PIECES, piece, turns_from
from agentgym_cli.store.episode_rows import AttemptKey, TurnRow
from agentgym_cli.view.foreign import PIECE, SHOWN, verbatim
from agentgym_cli.view.frame import Asked, anchor
from agentgym_cli.view.requests import Answer

PAGE = 40
"""Turns that are sent at once."""
KEY_WORDS = ("run", "episode", "segment", "attempt")


def key_words(key: AttemptKey) -> dict[str, object]:
    """An attempt as words of an address."""
    return {"run": key.run, "episode": key.episode, "segment": key.segment, "attempt": key.attempt}


def read_key(asked: Asked) -> AttemptKey:
    """The attempt that an address names. Raises BadAddress."""
    query = asked.query
    return AttemptKey(run=query.needed("run"), episode=query.needed("episode"), segment=query.counted("segment"), attempt=query.counted("attempt"))


def turns_page(asked: Asked) -> Answer:
    """Some more turns, for a page that is there already."""
    asked.query.only(*KEY_WORDS, "first")
    key = read_key(asked)
    shown = some_turns(asked, key, asked.query.counted("first"))
    return Answer(body=element("div", *shown).text.encode())


def some_turns(asked: Asked, key: AttemptKey, first: int) -> Iterator[Html]:
    """Up to 40 turns, and a link to those behind them."""
    found = turns_from(asked.reading.connection, key, first=first, most=PAGE + 1, longest=SHOWN)
    for turn in found[:PAGE]:
        yield one_turn(turn, rest_of(asked, key, turn.turn))
    if len(found) > PAGE:
        address = asked.link("turns", key_words(key) | {"first": found[PAGE].turn})
        yield element("p", anchor("more turns", address), attributes={"class": "more-turns"})


def rest_of(asked: Asked, key: AttemptKey, turn: int) -> Rest:
    """For the texts of one turn."""
    return lambda part, length: more(asked, key, part, turn, SHOWN, length)


Rest = Callable[[str, int], Html]
"""Makes the link to the rest of a text that was cut, by the name of its part and its length."""


def one_turn(turn: TurnRow, rest: Rest) -> Html:
    """One turn."""
    title = element("h3", f"turn {turn.turn}")
    head = element("header", title, element("p", " · ".join(_said(turn))))
    kind = "turn" + ("" if turn.valid is not False else " invalid")
    parts: list[Child] = [head, _block("world", "observation", verbatim(turn.observation), turn.observation_length, "observation", rest)]
    parts.append(_block("policy", "policy", spoken(turn), turn.text_length, "text", rest))
    if turn.action is not None and turn.action not in turn.text:
        parts.append(_block("action", "action", verbatim(turn.action), turn.action_length or 0, "action", rest))
    return element("article", *parts, attributes={"class": kind, "id": f"t{turn.turn}", "tabindex": "-1", "aria-label": f"turn {turn.turn}"})


def _block(kind: str, label: str, text: Html, length: int, part: str, rest: Rest) -> Html:
    inside = element("div", text, *([rest(part, length)] if length > SHOWN else []), attributes={"class": "said", "dir": "auto"})
    return element("div", element("h4", label), inside, attributes={"class": f"block {kind}"})


def spoken(turn: TurnRow) -> Html:
    """What the policy said: its thought, and in it the action that was sent to the world."""
    action = turn.action or ""
    at = turn.text.rfind(action) if action else -1
    if at < 0:
        return verbatim(turn.text)
    before, after = turn.text[:at], turn.text[at + len(action) :]
    mark = element("mark", verbatim(action), attributes={"class": "sent", "title": "action: sent to the world"})
    return joined((verbatim(before), mark, verbatim(after)))


def _said(turn: TurnRow) -> Iterator[str]:
    yield f"reward {phrases.number(turn.reward)}"
    if turn.done:
        yield "done"
    if turn.valid is False:
        yield "invalid action"
    if turn.cut:
        yield "cut at the limit of tokens"
    if turn.policy_seconds is not None:
        yield f"policy {phrases.number(turn.policy_seconds)} s"
    if turn.env_seconds is not None:
        yield f"world {phrases.number(turn.env_seconds)} s"
    if turn.response_tokens:
        yield f"{turn.response_tokens:,} tokens sampled"
    if turn.context_tokens:
        yield f"{turn.context_tokens:,} of context"


def more(asked: Asked, key: AttemptKey, part: str, turn: int, start: int, length: int) -> Html:
    """A link to the rest of a text."""
    words: Mapping[str, object] = key_words(key) | {"part": part, "turn": turn, "start": start}
    return element("span", anchor(f"show more, {length - start:,} characters left", asked.link("text", words)), attributes={"class": "more"})


def text_page(asked: Asked) -> Answer:
    """A piece of one text, and a link to what is behind it."""
    asked.query.only(*KEY_WORDS, "part", "turn", "start")
    key = read_key(asked)
    part, turn, start = asked.query.one_of("part", PIECES), asked.query.counted("turn"), asked.query.whole("start", 0) or 0
    text, length = piece(asked.reading.connection, key, part, turn=turn, start=max(0, start), most=PIECE)
    shown: Sequence[Child] = [verbatim(text)]
    if start + len(text) < length:
        shown = [*shown, more(asked, key, part, turn, start + len(text), length)]
    return Answer(body=element("div", *shown, attributes={"class": "said"}).text.encode())
