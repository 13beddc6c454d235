"""The trajectories that a run kept of the weights of one step, out of its journal: what an exported model is held against."""

from __future__ import annotations

import sys
from pathlib import Path

from agentgym_cli.learn.verl.fidelity import Kept
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.store.journal import read_journal
from agentgym_cli.store.records import AttemptRecord
from agentgym_cli.verbs.history import Past


def kept_of(home: Path, run: Run, step: int) -> list[Kept]:
    """Trajectories sampled by the weights after ``step`` alone, superseded ones left out, and those drawn from a part of the vocabulary."""
    if run.store.keep_tokens == "none":
        return []
    counted = Past(read_journal(home)).history(sys.maxsize).attempts
    known = {(record.segment, record.episode, record.attempt) for records in counted.values() for record in records}
    found = (
        _kept(record, run) for record in read_journal(home) if isinstance(record, AttemptRecord) and _is_of(record, step) and _key(record) in known
    )
    return [kept for kept in found if kept is not None]


def _key(record: AttemptRecord) -> tuple[int, str, int]:
    return record.segment, record.episode, record.attempt


def _is_of(record: AttemptRecord, step: int) -> bool:
    return record.tokens is not None and record.policy_version == step and record.tokens.policy_versions is None


def _kept(record: AttemptRecord, run: Run) -> Kept | None:
    tokens, sampling = record.tokens, run.policy.sampling
    assert tokens is not None
    judged = record.episode.startswith("eval")
    wanted = run.evaluation.temperature if judged else None
    if wanted != "greedy" and (sampling.top_p < 1 or sampling.top_k > 0):
        return None
    degrees = 1.0 if wanted == "greedy" else wanted or sampling.temperature
    return Kept(token_ids=tokens.token_ids, action_mask=tokens.action_mask, logprobs=tokens.logprobs, temperature=degrees)
