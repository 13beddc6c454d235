"""Turns as they were: what the world showed, what the policy thought, what it did, and what that brought. Long texts come piece by piece."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from agentgym_cli.report import phrases
from agentgym_cli.report.html_text import Child, Html, element, joined
from agentgym_cli.store.episode_queries import PIECES, piece, refuse_unknown, turns_from
from agentgym_cli.store.episode_rows import AttemptKey, TurnRow
from agentgym_cli.store.queries import NotInStore
from agentgym_cli.view.foreign import PIECE, SHOWN, verbatim
from agentgym_cli.view.frame import Asked, anchor
from agentgym_cli.view.requests import Answer

PAGE = 40
"""Turns that are sent at once."""
_LONGEST = 1_000_000
"""Characters of HTML behind which no further turn is sent at once."""
_LABEL = re.compile(r"(?:^|(?<=\s))[^\s:]{1,20}:\s*\Z")
"""What stands before an action, such as ``Action:``."""
KEY_WORDS = ("run", "episode", "segment", "attempt")


def key_words(key: AttemptKey) -> dict[str, object]:
    """An attempt as words of an address."""
    return {"run": key.run, "episode": key.episode, "segment": key.segment, "attempt": key.attempt}


def known_key(asked: Asked) -> AttemptKey:
    """The attempt that an address names. Raises BadAddress, and NotInStore where there is no such attempt."""
    query = asked.query
    key = AttemptKey(run=query.needed("run"), episode=query.needed("episode"), segment=query.counted("segment"), attempt=query.counted("attempt"))
    refuse_unknown(asked.reading.connection, key)
    return key


def turns_page(asked: Asked) -> Answer:
    """Some more turns, for a page that is there already."""
    asked.query.only(*KEY_WORDS, "first")
    key = known_key(asked)
    shown = some_turns(asked, key, asked.query.counted("first"))
    return Answer(body=element("div", *shown).text.encode())


def some_turns(asked: Asked, key: AttemptKey, first: int) -> Iterator[Html]:
    """Up to 40 turns, fewer where they are long, and a link to those behind them. Raises NotInStore where ``first`` is behind the last."""
    found = turns_from(asked.reading.connection, key, first=first, most=PAGE + 1, longest=SHOWN)
    if not found and first > 1:
        raise NotInStore(f"turn {first:,}: expected one of the attempt's turns, got one behind the last")
    sent = 0
    for place, turn in enumerate(found):
        if place == PAGE or sent > _LONGEST:
            address = asked.link("turns", key_words(key) | {"first": turn.turn})
            yield element("p", anchor("more turns", address), attributes={"class": "more-turns"})
            return
        made = one_turn(turn, rest_of(asked, key, turn.turn))
        sent += len(made.text)
        yield made


def rest_of(asked: Asked, key: AttemptKey, turn: int) -> Rest:
    """For the texts of one turn."""
    return lambda part, length: more(asked, key, part, turn, SHOWN, length)


Rest = Callable[[str, int], Html]
"""Makes the link to the rest of a text that was cut, by the name of its part and its length."""


def one_turn(turn: TurnRow, rest: Rest) -> Html:
    """One turn."""
    parts: list[Child] = [
        turn_head(turn),
        _block("world", "observation", verbatim(turn.observation), turn.observation_length, "observation", rest),
        *(_block(kind, label, text, turn.text_length, "text", rest) for kind, label, text in spoken(turn)),
    ]
    if not says_action(turn):
        parts.append(_block("action", "action", verbatim(turn.action or ""), turn.action_length or 0, "action", rest))
    return element("article", *parts, attributes={"class": kind_of(turn), "id": f"t{turn.turn}", "tabindex": "-1", "aria-label": f"turn {turn.turn}"})


def turn_head(turn: TurnRow) -> Html:
    """A turn's number, what it brought, and what it took."""
    return element("header", element("h3", f"turn {turn.turn}"), element("p", " · ".join(_said(turn))))


def kind_of(turn: TurnRow) -> str:
    """The classes of a turn."""
    return "turn" + ("" if turn.valid is not False else " invalid")


def _block(kind: str, label: str, text: Html, length: int, part: str, rest: Rest) -> Html:
    return block(kind, label, text, *([rest(part, length)] if length > SHOWN else []))


def block(kind: str, label: str, *text: Html) -> Html:
    """A text with what it is called."""
    return element(
        "div", element("h4", label), element("div", *text, attributes={"class": "said", "dir": "auto"}), attributes={"class": f"block {kind}"}
    )


def says_action(turn: TurnRow) -> bool:
    """Whether the action stands in what is here of the policy's text; there is none to show where no action was sent."""
    return turn.action is None or (len(turn.text) == turn.text_length and turn.action in turn.text)


def spoken(turn: TurnRow) -> Iterator[tuple[str, str, Html]]:
    """What the policy said, as blocks of a kind, a label and a text: its thought, and apart from it the action that was sent to the world."""
    if not turn.action or not says_action(turn):
        yield "policy", "said", verbatim(turn.text)
        return
    at = turn.text.rindex(turn.action)
    before, after = turn.text[:at], turn.text[at + len(turn.action) :]
    label = _LABEL.search(before)
    cut = at if label is None else label.start()
    if not before[:cut].strip():
        cut = 0
    if cut:
        yield "policy", "thought", verbatim(before[:cut].rstrip("\n"))
    mark = element("mark", verbatim(turn.action), attributes={"class": "sent", "title": "action: sent to the world"})
    yield "action", "action", joined((verbatim(before[cut:]), mark, verbatim(after)))


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
    key = known_key(asked)
    part, turn, start = asked.query.one_of("part", PIECES), asked.query.counted("turn"), asked.query.counted("start", 0, least=0)
    text, length = piece(asked.reading.connection, key, part, turn=turn, start=start, most=PIECE)
    if start > length:
        raise NotInStore(f"start {start:,}: expected a place in a text of {length:,} characters")
    shown: Sequence[Child] = [verbatim(text)]
    if start + len(text) < length:
        shown = [*shown, more(asked, key, part, turn, start + len(text), length)]
    return Answer(body=element("div", *shown, attributes={"class": "said"}).text.encode())
