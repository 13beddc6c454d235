"""``agentgym report RUN --episode ID --tokens``: an attempt's tokens as they were fed and sampled, read with the run's own tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from agentgym_cli.episode.reencoding import KINDS, Kind, Span, spans_of
from agentgym_cli.errors import RecipeError, StoreError
from agentgym_cli.recipe.frozen_file import parse_frozen
from agentgym_cli.recipe.parts import PARTS, Sources
from agentgym_cli.recipe.wording import asked, listed, shown
from agentgym_cli.store.opening import open_for_reading
from agentgym_cli.store.queries import find_run
from agentgym_cli.store.rows import RunRow
from agentgym_cli.store.token_queries import TokensRow, attempts_of, episodes_played, episodes_with_tokens, said_of_tokens
from agentgym_cli.verbs.turns import turns_of

_NAMED = 5
_KNOWN = 10_000
_HINT = "store.keep_tokens=all keeps the tokens of every attempt, failures those of attempts without success"


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What a run has to choose from."""

    played: Sequence[str]
    """Episodes with an attempt, by name."""
    with_tokens: Sequence[str]
    said: Sequence[str]
    """Why there are no whole trajectories, as it was recorded; empty where nothing was said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenView:
    """The tokens of one attempt."""

    run: str
    episode: str
    attempt: int
    outcome: str
    stop: str
    turns: int
    spans: tuple[Span, ...]
    logprobs: tuple[float, ...]
    """In nats, by place; 0 where a token was fed."""
    versions: tuple[tuple[int, int], ...]
    """Optimizer step of the weights and action tokens that they sampled, run by run; empty where one version sampled all."""

    def count(self, kind: Kind, *, differing: bool = False) -> int:
        """Tokens of a kind; with ``differing`` only those whose re-encoding would differ."""
        return sum(len(span.token_ids) for span in self.spans if span.kind == kind and (span.differs or not differing))

    @property
    def counts(self) -> dict[Kind, tuple[int, int]]:
        """Tokens by kind, and how many of them would be encoded otherwise."""
        return {kind: (self.count(kind), self.count(kind, differing=True)) for kind in KINDS}


def one_or_the_other(tokens: bool, episode: str | None, attempt: int | None, form: str) -> None:
    """Refuse words that would be ignored: a report is of a whole run, tokens are of one episode. Raises RecipeError."""
    if not tokens and (episode is not None or attempt is not None):
        word = "--episode" if episode is not None else "--attempt"
        raise RecipeError(f"report {word}: expected --tokens with it, got none", "agentgym report RUN --episode ID --tokens")
    if tokens and form not in ("terminal", "json"):
        raise RecipeError(f"report --tokens: expected --format terminal or json, got {shown(form)}")


def view_tokens(run: str, episode: str | None, database: Path, *, attempt: int | None) -> TokenView:
    """Read the tokens of an attempt, the last one that kept any where none is named.

    Raises:
        StoreError: no such run, episode or attempt, or its tokens were not kept.
        RecipeError: the tokenizer that the run was frozen with is not there any more, or no episode is named.
        PolicyError: the tokenizer cannot be read.
    """
    with open_for_reading(database) as connection:
        found = find_run(connection, run)
        known = Known(
            played=episodes_played(connection, found.run, _KNOWN),
            with_tokens=episodes_with_tokens(connection, found.run, _KNOWN),
            said=said_of_tokens(connection, found.run),
        )
        if episode is None:
            example = next(iter([*known.with_tokens, *known.played]), "ID")
            raise RecipeError(
                "report --tokens: expected --episode ID, got none",
                f"agentgym report {found.run} --store {quote(str(database))} --episode {example} --tokens",
            )
        rows = attempts_of(connection, found.run, episode)
    row = _chosen(rows, found, episode, attempt, known)
    assert row.token_ids is not None and row.action_mask is not None and row.logprobs is not None
    frozen = parse_frozen(found.frozen, where=f"run {found.run}")
    refuse_other_tokenizer(Sources(run=frozen.run, beside=frozen.beside), frozen.parts["tokenizer"], found)
    tokens = turns_of(frozen.run, beside=frozen.beside).tokens
    return TokenView(
        run=found.run,
        episode=episode,
        attempt=row.attempt,
        outcome=row.outcome,
        stop=row.stop,
        turns=row.turns,
        spans=tuple(spans_of(tokens, row.token_ids, row.action_mask)),
        logprobs=tuple(row.logprobs),
        versions=tuple(zip(row.policy_versions or (), row.policy_version_tokens or (), strict=True)),
    )


def _chosen(rows: Sequence[TokensRow], found: RunRow, episode: str, attempt: int | None, known: Known) -> TokensRow:
    if not rows:
        hint = asked(episode, known.played) or f"it played {_some(known.played)}"
        raise StoreError(f"run {found.run}: expected an episode of it that was played, got {shown(episode)}", hint)
    named = [row for row in rows if attempt in (None, row.attempt)]
    if not named:
        there = listed(str(row.attempt) for row in rows)
        raise StoreError(
            f"episode {shown(episode)}: expected one of its attempts {there}, got {attempt}",
            f"name one of them, --attempt {rows[-1].attempt}, or none",
        )
    kept = [row for row in named if row.token_ids]
    if not kept:
        others = f"; kept are those of {_some(known.with_tokens)}" if known.with_tokens else ""
        raise StoreError(f"episode {shown(episode)}: expected its tokens to be kept, got none{others}", _why_none(found, known))
    return kept[-1]


def _some(episodes: Sequence[str]) -> str:
    more = f" and others, {len(episodes)} in all" if len(episodes) > _NAMED else ""
    return (listed(episodes[:_NAMED]) or "no episode") + more


def _why_none(found: RunRow, known: Known) -> str:
    """What the run was told to keep, and what its policy gave."""
    run = parse_frozen(found.frozen, where=f"run {found.run}").run
    if run.store.keep_tokens == "none":
        return f"the run was told to keep none: {_HINT}"
    said = "; ".join(known.said)
    if said:
        return f"store.keep_tokens is {run.store.keep_tokens}, but {said}"
    if known.with_tokens:
        return f"store.keep_tokens is {run.store.keep_tokens}: {_HINT}"
    gave = "a checkpoint makes them, and a server that gives token ids"
    return f"store.keep_tokens is {run.store.keep_tokens}, but policy {shown(found.policy)} made none: {gave}"


def refuse_other_tokenizer(sources: Sources, frozen: object, found: RunRow) -> None:
    """Another tokenizer would show other words. Raises RecipeError."""
    if PARTS["tokenizer"](sources) != frozen:
        raise RecipeError(
            f"run {found.run}: expected the tokenizer files that the run was frozen with, got others",
            f"agentgym freeze --check {found.run} names what has changed; go back to those files",
        )
