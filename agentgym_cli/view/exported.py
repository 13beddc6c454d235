"""One attempt as a file: a page that needs nothing else, or a conversation in AgentTraj's form. Made piece by piece, however long it is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from agentgym_cli.report.html_style import POLICY, STYLE
from agentgym_cli.report.html_text import Child, Html, element
from agentgym_cli.store import queries
from agentgym_cli.store.db import Connection
from agentgym_cli.store.episode_queries import one_episode, piece, tries_of, turns_from
from agentgym_cli.store.episode_rows import AttemptKey, EpisodeRow, TryRow, TurnRow
from agentgym_cli.view.address import BadAddress
from agentgym_cli.view.episode import counting
from agentgym_cli.view.foreign import PIECE, one_line, verbatim
from agentgym_cli.view.frame import Asked, badge, facts
from agentgym_cli.view.requests import HTML, JSON, Answer

_AT_ONCE = 20
"""Turns in memory."""
_WORDS = ("run", "episode", "segment", "attempt")
_NAME = re.compile(r"[^A-Za-z0-9._-]+")


def exported_page(asked: Asked, style: str) -> Answer:
    """The attempt as one HTML file."""
    row, key, chosen = _which(asked)
    headers = {"content-disposition": _file(row, "html"), "content-security-policy": POLICY}
    return Answer(kind=HTML, body=_page(asked.reading.connection, row, key, chosen, style), headers=headers)


def exported_json(asked: Asked) -> Answer:
    """The attempt as a list of one ``{item_id, conversations}``."""
    row, key, chosen = _which(asked)
    return Answer(kind=JSON, body=_conversation(asked.reading.connection, row, key, chosen), headers={"content-disposition": _file(row, "json")})


def _which(asked: Asked) -> tuple[EpisodeRow, AttemptKey, TryRow]:
    asked.query.only(*_WORDS)
    connection = asked.reading.connection
    run = queries.find_run(connection, asked.query.needed("run")).run
    row = one_episode(connection, run, asked.query.needed("episode"))
    segment, attempt = asked.query.whole("segment"), asked.query.whole("attempt")
    tries = [each for each in tries_of(connection, run, row.episode, 1000) if segment in (None, each.segment) and attempt in (None, each.attempt)]
    chosen = counting(row, tries)
    if chosen is None:
        raise BadAddress("attempt: expected one that was played, got none")
    return row, AttemptKey(run=run, segment=chosen.segment, episode=row.episode, attempt=chosen.attempt), chosen


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


def _page(connection: Connection, row: EpisodeRow, key: AttemptKey, chosen: TryRow, style: str) -> Iterator[bytes]:
    policy = element("meta", attributes={"http-equiv": "Content-Security-Policy", "content": POLICY})
    head = element(
        "head",
        element("meta", attributes={"charset": "utf-8"}),
        policy,
        element("meta", attributes={"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        element("title", f"{row.episode} of {key.run}"),
        element("style", Html(STYLE + style)),
    )
    pairs: list[tuple[str, Child]] = [
        ("run", one_line(key.run)),
        ("attempt", f"{key.attempt}, segment {key.segment}"),
        ("task", one_line(row.task)),
        ("stopped by", chosen.stop or "n/a"),
        ("reward", "n/a" if chosen.reward is None else f"{chosen.reward:g}"),
        ("message", one_line(chosen.detail, 1000)),
    ]
    title = element("h1", one_line(row.episode, 160), " ", badge(chosen.outcome or row.outcome))
    yield f'<!doctype html>\n<html lang="en">{head.text}<body><main>{title.text}{facts(pairs).text}'.encode()
    for turn in _batches(connection, key):
        yield f'<article class="turn" id="t{turn.turn}"><header><h3>turn {turn.turn}</h3></header>'.encode()
        yield from _block("world", "observation", whole(connection, key, "observation", turn.turn, turn.observation, turn.observation_length))
        yield from _block("policy", "policy", whole(connection, key, "text", turn.turn, turn.text, turn.text_length))
        if turn.action is not None:
            yield from _block("action", "action", whole(connection, key, "action", turn.turn, turn.action, turn.action_length or 0))
        yield b"</article>"
    yield from _block("world", "shown last", whole(connection, key, "final", 1, chosen.final_observation, chosen.final_length))
    yield b"</main></body></html>\n"


def _block(kind: str, label: str, pieces: Iterator[str]) -> Iterator[bytes]:
    yield f'<div class="block {kind}"><h4>{label}</h4><div class="said" dir="auto">'.encode()
    for text in pieces:
        yield verbatim(text).text.encode()
    yield b"</div></div>"


_OPENING = b'{"from": "human", "loss": null, "value": ""}, {"from": "gpt", "loss": false, "value": ""}, '
"""Instructions that say nothing: readers take a first reply that is not to be learned for the answer to such."""


def _conversation(connection: Connection, row: EpisodeRow, key: AttemptKey, chosen: TryRow) -> Iterator[bytes]:
    """``loss`` is true where the policy spoke; a response that was cut has no end of its own, and is not to be learned."""
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
