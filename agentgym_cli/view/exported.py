"""One attempt as a file: a page that needs nothing else, or a conversation in AgentTraj's form. Made piece by piece, however long it is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agentgym_cli.report.html_style import POLICY, STYLE
from agentgym_cli.report.html_text import Child, Html, element, joined
from agentgym_cli.store import queries
from agentgym_cli.store.db import Connection
from agentgym_cli.store.episode_queries import one_episode, piece, tries_of, turns_from
from agentgym_cli.store.episode_rows import AttemptKey, EpisodeRow, TryRow, TurnRow
from agentgym_cli.store.rows import RunRow
from agentgym_cli.view.episode import counting
from agentgym_cli.view.foreign import PIECE, one_line, verbatim
from agentgym_cli.view.frame import Asked, badge, facts
from agentgym_cli.view.panels import attempt_name, attempts_table, panels
from agentgym_cli.view.requests import HTML, JSON, Answer
from agentgym_cli.view.turns import block, kind_of, says_action, spoken, turn_head

_AT_ONCE = 20
"""Turns in memory."""
_LAST = 1000
"""Characters of what the world showed last that stand above the turns."""
_WORDS = ("run", "episode", "segment", "attempt")
_NAME = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Exported:
    """What is exported."""

    connection: Connection
    run: RunRow
    row: EpisodeRow
    tries: Sequence[TryRow]
    chosen: TryRow

    @property
    def key(self) -> AttemptKey:
        """The attempt."""
        return AttemptKey(run=self.run.run, segment=self.chosen.segment, episode=self.row.episode, attempt=self.chosen.attempt)


def exported_page(asked: Asked, style: str) -> Answer:
    """The attempt as one HTML file."""
    found = _which(asked)
    headers = {"content-disposition": _file(found.row, "html"), "content-security-policy": POLICY}
    return Answer(kind=HTML, body=_page(found, style), headers=headers)


def exported_json(asked: Asked) -> Answer:
    """The attempt as a list of one ``{item_id, conversations}``."""
    found = _which(asked)
    return Answer(kind=JSON, body=_conversation(found), headers={"content-disposition": _file(found.row, "json")})


def _which(asked: Asked) -> _Exported:
    asked.query.only(*_WORDS)
    connection = asked.reading.connection
    run = queries.find_run(connection, asked.query.needed("run"))
    row = one_episode(connection, run.run, asked.query.needed("episode"))
    segment, attempt = asked.query.whole("segment"), asked.query.whole("attempt")
    tries = tries_of(connection, run.run, row.episode, _LAST)
    chosen = counting(row, [each for each in tries if segment in (None, each.segment) and attempt in (None, each.attempt)])
    if chosen is None:
        raise queries.NotInStore("attempt: expected one that was played, got none")
    return _Exported(connection=connection, run=run, row=row, tries=tries, chosen=chosen)


def _file(row: EpisodeRow, ending: str) -> str:
    """A file's name of harmless characters, whatever the episode is called."""
    name = _NAME.sub("-", row.episode)[:120].strip(".-") or "episode"
    return f'attachment; filename="{name}.{ending}"'


def _batches(connection: Connection, key: AttemptKey) -> Iterator[TurnRow]:
    first = 1
    while rows := turns_from(connection, key, first=first, most=_AT_ONCE, longest=PIECE):
        yield from rows
        first = rows[-1].turn + 1


def whole(connection: Connection, key: AttemptKey, part: str, turn: int, begun: str, length: int) -> Iterator[str]:
    """All of a text whose beginning is there, piece by piece."""
    yield begun
    start = len(begun)
    while start < length:
        text, length = piece(connection, key, part, turn=turn, start=start, most=PIECE)
        if not text:
            return
        yield text
        start += len(text)


def _page(found: _Exported, style: str) -> Iterator[bytes]:
    yield f'<!doctype html>\n<html lang="en">{_head(found, style).text}<body><main>{_face(found).text}'.encode()
    for turn in _batches(found.connection, found.key):
        yield from _article(found, turn)
    chosen = found.chosen
    if chosen.final_length > _LAST:
        yield from _block("world", "shown last", whole(found.connection, found.key, "final", 1, chosen.final_observation, chosen.final_length))
    yield b"</main></body></html>\n"


def _head(found: _Exported, style: str) -> Html:
    return element(
        "head",
        element("meta", attributes={"charset": "utf-8"}),
        element("meta", attributes={"http-equiv": "Content-Security-Policy", "content": POLICY}),
        element("meta", attributes={"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        element("title", f"{found.row.episode} of {found.run.run}"),
        element("style", Html(STYLE + style)),
    )


def _face(found: _Exported) -> Html:
    """All that stands above the turns."""
    row, run, chosen = found.row, found.run, found.chosen
    rest = element("p", "the whole of it stands behind the turns") if chosen.final_length > _LAST else Html("")
    last = element("div", element("div", verbatim(chosen.final_observation), attributes={"class": "said", "dir": "auto"}), rest)
    pairs: list[tuple[str, Child]] = [
        ("run", one_line(run.run)),
        ("digest", element("code", one_line(run.digest))),
        ("engine", one_line(f"{run.engine}, profile {run.profile}, policy {run.policy}")),
        ("task", one_line(row.task)),
        ("part", one_line(f"{row.phase} / {row.split}, step {row.step}, sample {row.sample}")),
        ("attempt", attempt_name(chosen)),
        *([("goal", one_line(row.goal, 400))] if row.goal else []),
    ]
    return joined(
        (
            element("h1", one_line(row.episode, 160), " ", badge(chosen.outcome or row.outcome)),
            facts(pairs),
            panels(found.connection, run, row, found.key, chosen, last=last),
            attempts_table(found.tries, chosen, attempt_name),
            element("h2", "Turns"),
        )
    )


def _article(found: _Exported, turn: TurnRow) -> Iterator[bytes]:
    def rest(part: str, begun: str, length: int) -> Iterator[str]:
        return whole(found.connection, found.key, part, turn.turn, begun, length)

    yield f'<article class="{kind_of(turn)}" id="t{turn.turn}">{turn_head(turn).text}'.encode()
    yield from _block("world", "observation", rest("observation", turn.observation, turn.observation_length))
    if turn.text_length > len(turn.text):
        yield from _block("policy", "said", rest("text", turn.text, turn.text_length))
    else:
        for kind, label, text in spoken(turn):
            yield block(kind, label, text).text.encode()
    if not says_action(turn):
        yield from _block("action", "action", rest("action", turn.action or "", turn.action_length or 0))
    yield b"</article>"


def _block(kind: str, label: str, pieces: Iterator[str]) -> Iterator[bytes]:
    yield f'<div class="block {kind}"><h4>{label}</h4><div class="said" dir="auto">'.encode()
    for text in pieces:
        yield verbatim(text).text.encode()
    yield b"</div></div>"


_OPENING = b'{"from": "human", "loss": null, "value": ""}, {"from": "gpt", "loss": false, "value": ""}, '
"""Instructions that say nothing: readers take a first reply that is not to be learned for the answer to such."""


def _conversation(found: _Exported) -> Iterator[bytes]:
    """``loss`` is true where the policy spoke; a response that was cut has no end of its own, and is not to be learned."""
    connection, key, row, chosen = found.connection, found.key, found.row, found.chosen
    yield b'[{"item_id": ' + _text(row.task) + b', "conversations": ['
    for place, turn in enumerate(_batches(connection, key)):
        yield b", " if place else _OPENING if turn.cut else b""
        yield from _said("human", None, whole(connection, key, "observation", turn.turn, turn.observation, turn.observation_length))
        yield b", "
        yield from _said("gpt", not turn.cut, whole(connection, key, "text", turn.turn, turn.text, turn.text_length))
    if chosen.final_length:
        yield b", " if chosen.turns else b""
        yield from _said("human", None, whole(connection, key, "final", 1, chosen.final_observation, chosen.final_length))
    yield b"]}]\n"


def _said(who: str, loss: bool | None, pieces: Iterator[str]) -> Iterator[bytes]:
    yield f'{{"from": "{who}", "loss": {json.dumps(loss)}, "value": "'.encode()
    for text in pieces:
        yield _text(text)[1:-1]
    yield b'"}'


def _text(text: str) -> bytes:
    return json.dumps(text, ensure_ascii=False).encode("utf-8", "replace")
