"""An attempt's tokens on stdout: what was sampled stands out, and so does every token that would be encoded otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from agentgym_cli.cli.show import print_json, stdout_console
from agentgym_cli.report.text import for_terminal, spelled_out

if TYPE_CHECKING:
    from agentgym_cli.episode.reencoding import Span
    from agentgym_cli.verbs.tokens import TokenView

_STYLES = {"prompt": "dim", "observation": "", "action": "bold green", "stop": "bold magenta"}
_DIFFERS = "underline red"
_BRACKETS = {"action": ("⟦", "⟧"), "stop": ("⟨", "⟩")}
_MARKS = str.maketrans({mark: mark.encode("ascii", "backslashreplace").decode() for mark in "⟦⟧⟨⟩‹›"})
"""Foreign text cannot make a mark."""


def show_tokens(view: TokenView, *, as_json: bool) -> None:
    """Print counts by kind and the whole trajectory, in colours, or with brackets where there are none."""
    if as_json:
        print_json(values(view))
        return
    console = stdout_console()
    plain = console.no_color or console.color_system is None
    console.print(
        f"{view.run}, episode {escape(for_terminal(view.episode))}, attempt {view.attempt}: {view.outcome} ({view.stop}), {view.turns} turns"
    )
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("kind", "tokens", "would be encoded otherwise"):
        table.add_column(name, justify="left" if name == "kind" else "right")
    for kind, (count, others) in view.counts.items():
        table.add_row(Text(kind, style=_STYLES[kind]), str(count), str(others))
    console.print(table)
    if view.versions:
        console.print("sampled by weights of " + ", then ".join(f"step {version}: {tokens} tokens" for version, tokens in view.versions))
    console.print(_legend(plain))
    console.print()
    console.print(Text.assemble(*(_bracketed(view.spans) if plain else _coloured(view.spans))))


def values(view: TokenView) -> dict[str, object]:
    """The view as JSON has it: one object a token, with the text of its span."""
    spans = [
        {
            "kind": span.kind,
            "first": span.first,
            "token_ids": list(span.token_ids),
            "text": span.text,
            "reencoding_differs": span.differs,
            "logprobs": list(view.logprobs[span.first : span.first + len(span.token_ids)]) if span.kind in ("action", "stop") else None,
        }
        for span in view.spans
    ]
    counts = {kind: {"tokens": count, "reencoding_differs": others} for kind, (count, others) in view.counts.items()}
    head = {"run": view.run, "episode": view.episode, "attempt": view.attempt, "outcome": view.outcome, "stop": view.stop, "turns": view.turns}
    versions = [{"policy_version": version, "action_tokens": tokens} for version, tokens in view.versions]
    return {**head, "counts": counts, "spans": spans, "policy_versions": versions}


def _legend(plain: bool) -> Text:
    if plain:
        return Text("⟦sampled⟧ ⟨stop, sampled⟩ ‹would be encoded otherwise›; ↵ is a line feed")
    return Text.assemble(("sampled", _STYLES["action"]), " ", ("stop, sampled", _STYLES["stop"]), " ", ("would be encoded otherwise", _DIFFERS))


def _coloured(spans: Sequence[Span]) -> Iterator[tuple[str, str]]:
    """Each span's text and its style."""
    for span in spans:
        yield _readable(span), f"{_STYLES[span.kind]} {_DIFFERS}" if span.differs else _STYLES[span.kind]


def _bracketed(spans: Sequence[Span]) -> Iterator[str]:
    """The same in brackets: one pair around neighbours of a kind, one around each token that would be encoded otherwise."""
    for kind, neighbours in groupby(spans, key=lambda span: span.kind):
        opening, closing = _BRACKETS.get(kind, ("", ""))
        yield opening
        for span in neighbours:
            yield f"‹{_readable(span)}›" if span.differs else _readable(span)
        yield closing


def _readable(span: Span) -> str:
    return spelled_out(span.text).translate(_MARKS)
