"""Any record that may be written, for property tests."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, get_type_hints

from hypothesis import strategies as st

from agentgym_cli.env.contract import InfraCause
from agentgym_cli.episode.types import Outcome, StopReason
from agentgym_cli.store.codec import KINDS
from agentgym_cli.store.records import ImportedTurnRecord, Record, TokensRecord, TurnRecord

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
WHOLE = st.integers(min_value=-(2**63), max_value=2**63 - 1)
TEXT = st.text(max_size=12)
CHOSEN = {
    "outcome": st.sampled_from([str(value) for value in Outcome]),
    "first_outcome": st.sampled_from([str(value) for value in Outcome]),
    "stop": st.sampled_from([str(value) for value in StopReason]),
    "cause": st.none() | st.sampled_from([str(value) for value in InfraCause]),
    "status": st.none() | st.sampled_from(["finished", "interrupted", "failed"]),
    "event": st.sampled_from(["opened", "closed"]),
    "result": st.sampled_from(["pass", "fail", "n/a", "known deviation"]),
    "seed": st.integers(min_value=0, max_value=2**64 - 1),
}
MEASURES = {
    *("segment", "attempt", "attempts", "turn", "turns_count", "invalid_actions", "sample", "horizon"),
    *("prompt_tokens", "action_tokens", "response_tokens", "context_tokens", "seconds", "policy_seconds", "env_seconds", "run_seconds"),
}
"""Fields that are never negative."""
COUNT, AMOUNT = st.integers(min_value=0, max_value=2**63 - 1), st.floats(min_value=0, allow_nan=False, allow_infinity=False)
AT_LEAST_0: dict[Any, st.SearchStrategy[Any]] = {int: COUNT, int | None: st.none() | COUNT, float: AMOUNT, float | None: st.none() | AMOUNT}
BY_HINT: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXT,
    int: WHOLE,
    float: FLOATS,
    bool: st.booleans(),
    bool | None: st.none() | st.booleans(),
    str | None: st.none() | TEXT,
    int | None: st.none() | WHOLE,
    float | None: st.none() | FLOATS,
    tuple[str, ...]: st.lists(TEXT, max_size=3).map(tuple),
}


def fields_of(cls: type) -> dict[str, st.SearchStrategy[Any]]:
    """A strategy for each field."""
    hints = get_type_hints(cls)
    special: dict[Any, st.SearchStrategy[Any]] = {
        tuple[TurnRecord, ...]: st.lists(st.deferred(lambda: built(TurnRecord)), max_size=3).map(tuple),
        tuple[ImportedTurnRecord, ...]: st.lists(st.deferred(lambda: built(ImportedTurnRecord)), max_size=3).map(tuple),
        TokensRecord | None: st.none() | st.deferred(tokens),
    }
    by_hint = BY_HINT | special
    measured = by_hint | AT_LEAST_0
    named = {name: (measured if name in MEASURES else by_hint)[hints[name]] for name in hints if name not in CHOSEN}
    return {field.name: (CHOSEN | named)[field.name] for field in fields(cls)}


def built(cls: type) -> st.SearchStrategy[Any]:
    """Any instance of a record class without nested lists of numbers."""
    return st.builds(cls, **fields_of(cls)).map(without_reward_where_unscored)


def tokens() -> st.SearchStrategy[TokensRecord]:
    """Any tokens; the lists need not agree in length here."""
    return st.builds(
        TokensRecord,
        token_ids=st.lists(COUNT, max_size=4).map(tuple),
        action_mask=st.lists(st.booleans(), max_size=4).map(tuple),
        logprobs=st.lists(FLOATS, max_size=4).map(tuple),
        policy_versions=st.none() | st.lists(WHOLE, max_size=4).map(tuple),
        policy_version_tokens=st.none() | st.lists(WHOLE, max_size=4).map(tuple),
    )


def without_reward_where_unscored(record: Any) -> Any:
    """A world's failure is never a reward."""
    if getattr(record, "outcome", None) in ("infra_error", "missing"):
        return replace(record, reward=None)
    return record


def any_record() -> st.SearchStrategy[Record]:
    """A record of any kind."""
    return st.one_of([built(cls) for cls in KINDS.values()])
