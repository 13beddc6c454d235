"""``agentgym view``: pages over the store on loopback, until it is stopped."""

from __future__ import annotations

import webbrowser
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from agentgym_cli.episode.reencoding import differing
from agentgym_cli.episode.tokens import TurnTokens
from agentgym_cli.errors import Interrupted, StoreError
from agentgym_cli.recipe.frozen_file import parse_frozen
from agentgym_cli.recipe.parts import Sources
from agentgym_cli.store.queries import find_run
from agentgym_cli.store.rows import RunRow
from agentgym_cli.verbs.tokens import refuse_other_tokenizer
from agentgym_cli.verbs.turns import turns_of
from agentgym_cli.view.frame import Kept
from agentgym_cli.view.server import opened


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewRequest:
    """What a person asked for."""

    run: str | None
    """Where to begin; None begins with all runs."""
    database: Path
    runs_dir: Path
    port: int
    """0 takes a free one."""
    browser: bool
    """Open the address in a browser."""


def view_store(request: ViewRequest, said: Callable[[str], None]) -> None:
    """Serve until a signal; ``said`` is told the address once it answers.

    Raises:
        StoreError: there is no such store or run, or it is held all the time.
        EnvError: the port cannot be had.
    """
    if not request.database.is_file():
        got = "a folder" if request.database.is_dir() else "no such file"
        raise StoreError(f"{request.database}: expected a store, got {got}", "name it with --store FILE, or make it: agentgym store rebuild")
    with opened(request.database, runs_dir=request.runs_dir, port=request.port, tokens=RunTokens()) as server:
        name = None
        if request.run is not None:
            with server.viewer.snapshots.reading() as reading:
                name = find_run(reading.connection, request.run).run
        address = server.address(name)
        said(address)
        if request.browser:
            _show(address)
        # A signal is how this ends.
        with suppress(Interrupted):
            server.serve()


def _show(address: str) -> None:
    """Open a browser with a window of its own; one that would take over the terminal is left alone."""
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return
    if type(browser) is not webbrowser.GenericBrowser:
        browser.open(address)


@dataclass(slots=True)
class RunTokens:
    """Tokenizers of the runs that were looked at, the last few."""

    known: Kept = field(default_factory=lambda: Kept(most=4))

    def texts(self, run: RunRow, token_ids: Sequence[int]) -> tuple[Sequence[str], frozenset[int]]:
        """The text of every token, and which ids end an action. Raises RecipeError or PolicyError where the run's tokenizer is not here."""
        tokens = self._tokens(run)
        return pieces(tokens.written, token_ids), tokens.stop_ids

    def differing(self, run: RunRow, token_ids: Sequence[int]) -> Sequence[bool]:
        """Which tokens are not in the encoding of their own text. Raises as ``texts`` does."""
        tokens = self._tokens(run)
        return differing(token_ids, tokens.read(tokens.written(token_ids)))

    def _tokens(self, run: RunRow) -> TurnTokens:
        return self.known.get((run.run, run.frozen), lambda: _tokens_of(run), lambda _: 1)


_BEFORE = 4
"""Tokens that are read together with one, since many tokenizers write a token by what stands before it."""


def pieces(written: Callable[[Sequence[int]], str], token_ids: Sequence[int]) -> list[str]:
    """What each token adds to the text of those before it; bytes of a character that is not whole yet are U+FFFD."""
    found = []
    for place, token in enumerate(token_ids):
        before = token_ids[max(0, place - _BEFORE) : place]
        base, both = written(before) if before else "", written([*before, token])
        if not both.startswith(base):
            base = base.rstrip("\N{REPLACEMENT CHARACTER}")
        found.append(both[len(base) :] if both.startswith(base) else written([token]))
    return found


def _tokens_of(run: RunRow) -> TurnTokens:
    frozen = parse_frozen(run.frozen, where=f"run {run.run}")
    refuse_other_tokenizer(Sources(run=frozen.run, beside=frozen.beside), frozen.parts.get("tokenizer"), run)
    return turns_of(frozen.run, beside=frozen.beside).tokens
