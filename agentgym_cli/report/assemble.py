"""From rows to a report: pure, so that a test can hand it any rows. Rates come from accounting, and from nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from agentgym_cli.report.accounting import account_first_attempts, account_rows, change, share
from agentgym_cli.report.degraded import PhaseFailures, degraded
from agentgym_cli.report.frozen import FrozenFacts, read_facts
from agentgym_cli.report.learning import assemble_learning
from agentgym_cli.report.model import Category, Checkpoint, Comparison, Header, Part, Pointer, Probe, Report, Segment, Spent, Stop
from agentgym_cli.report.statistics.intervals import difference
from agentgym_cli.report.statistics.paired import paired
from agentgym_cli.store.rows import (
    AttemptsRow,
    CheckpointRow,
    CountsRow,
    MetricRow,
    MetricTotals,
    PairRow,
    ProbeRow,
    RunRow,
    SegmentRow,
    StopRow,
)

_IN_PROCESS = frozenset({"local", "oracle", "random", "scripted"})
_DEADLINES = frozenset({"policy_deadline", "env_deadline"})
_NOTHING = Spent(attempts=0, infra_errors=0, turns=0, action_tokens=0, seconds=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """What the store says of one run."""

    run: RunRow
    segments: Sequence[SegmentRow]
    counts: Sequence[CountsRow]
    stops: Sequence[StopRow]
    attempts: Sequence[AttemptsRow]
    pairs: Sequence[PairRow]
    curve: Sequence[MetricRow]
    metrics: Sequence[MetricTotals]
    probes: Sequence[ProbeRow]
    checkpoints: Sequence[CheckpointRow]


def assemble(rows: Rows) -> Report:
    """The report of a run."""
    facts = read_facts(rows.run.frozen)
    return Report(
        header=_header(rows, facts),
        comparisons=tuple(_comparisons(rows)),
        parts=tuple(_parts(rows, facts)),
        learning=assemble_learning(rows.curve, rows.metrics),
        segments=tuple(_segment(row) for row in rows.segments),
        probes=tuple(Probe(url=row.url, name=row.name, result=row.result, detail=row.detail) for row in rows.probes),
        checkpoints=tuple(Checkpoint(step=row.step, path=row.path, digest=row.digest) for row in rows.checkpoints),
        reproduce=_reproduce(rows.run, facts),
    )


def _header(rows: Rows, facts: FrozenFacts) -> Header:
    run = rows.run
    promise, note = _promise(rows)
    return Header(
        run=run.run,
        recipe=run.name,
        verb=run.verb,
        profile=run.profile,
        profile_reason=run.profile_reason,
        label="laptop result" if run.profile == "laptop" else None,
        engine=run.engine,
        env=run.env,
        policy=run.policy,
        seed=run.seed,
        digest=run.digest,
        degraded=_degraded(rows.counts, facts),
        drift=tuple(f"segment {row.segment} ran with {sentence}" for row in rows.segments for sentence in row.drift),
        stack=facts.stack,
        lock=facts.lock,
        created=run.created,
        ended=run.ended,
        status=run.status or "in progress",
        outcome_from=_outcome_from(rows.counts, rows.stops),
        semantics=facts.semantics,
        promise=promise,
        promise_note=note,
        retry_attempts=facts.retry_attempts,
    )


def _degraded(counts: Iterable[CountsRow], facts: FrozenFacts) -> str | None:
    phases: dict[str, PhaseFailures] = {}
    for row in counts:
        so_far = phases.get(row.phase, PhaseFailures(episodes=0, infra=0, induced=0))
        phases[row.phase] = PhaseFailures(
            episodes=so_far.episodes + row.scheduled, infra=so_far.infra + row.infra_error, induced=so_far.induced + row.action_induced
        )
    if facts.max_infra_share is None:
        return None
    induced = facts.max_action_induced_share
    return degraded(phases, most_infra=facts.max_infra_share, most_induced=1.0 if induced is None else induced)


def _promise(rows: Rows) -> tuple[str, str]:
    if rows.run.engine != "local" or rows.run.policy not in _IN_PROCESS:
        return "equal schedules", "a served policy repeats its schedule and accounting, not its bits"
    fired = sum(row.episodes for row in rows.stops if row.stop in _DEADLINES or row.cause == "timeout")
    if any(row.drift for row in rows.segments):
        return "equal schedules", "it ran with drift, so the digest does not name all that it ran with"
    if fired:
        return "equal schedules", f"a deadline ended {fired} episodes, so they may end elsewhere in a second run"
    return "equal bits", "the same digest on the same fingerprint gives the same episodes and metrics, bit for bit"


def _outcome_from(counts: Iterable[CountsRow], stops: Iterable[StopRow]) -> str:
    """Who decided. An episode that was cut is a failure whoever decides: only those that the world called done were asked about."""
    kept = list(counts)
    if sum(row.scheduled - row.missing for row in kept) == 0:
        return "n/a"
    verified, done = sum(row.by_verifier for row in kept), sum(row.episodes for row in stops if row.stop == "done")
    return "reward" if verified == 0 else "verifier" if verified >= done else "reward and verifier"


def _parts(rows: Rows, facts: FrozenFacts) -> Iterable[Part]:
    for (phase, split, step), group in groupby(rows.counts, key=lambda row: (row.phase, row.split, row.step)):
        yield _part(rows, facts, (phase, split, step), list(group))


def _part(rows: Rows, facts: FrozenFacts, key: tuple[str, str, int | None], counts: Sequence[CountsRow]) -> Part:
    phase, split, step = key
    accounting = account_rows(counts)
    tasks = sum(row.tasks for row in counts)
    in_split = facts.tasks.get(split) if phase.startswith("eval") else None
    stops = [row for row in rows.stops if (row.phase, row.split, row.step) == key]
    return Part(
        phase=phase,
        split=split,
        step=step,
        accounting=accounting,
        categories=tuple(Category(name=row.category, accounting=account_rows([row])) for row in counts if row.category),
        tasks=tasks,
        left_out=None if in_split is None else max(0, in_split - tasks),
        outcome_from=_outcome_from(counts, stops),
        stops=tuple(Stop(reason=row.stop, cause=row.cause, episodes=row.episodes, example=row.example) for row in stops),
        action_induced=share(sum(row.action_induced for row in counts), accounting.infra_error),
        truncated=share(sum(row.truncated for row in counts), accounting.scheduled),
        invalid_actions=share(sum(row.invalid_actions for row in counts), sum(row.turns for row in counts)),
        first_attempts=account_first_attempts(counts),
        spent=next((_spent(row) for row in rows.attempts if (row.phase, row.split, row.step) == key), _NOTHING),
        rows=_episodes_sql(rows.run.run, phase, split, step),
    )


def _spent(row: AttemptsRow) -> Spent:
    return Spent(attempts=row.attempts, infra_errors=row.infra_error, turns=row.turns, action_tokens=row.action_tokens, seconds=row.seconds)


def _episodes_sql(run: str, phase: str, split: str, step: int | None) -> str:
    where = f"run = {_quoted(run)} and phase = {_quoted(phase)} and split = {_quoted(split)}"
    return f"select episode, outcome, attempts, reward from episodes_final where {where}" + ("" if step is None else f" and step = {step}")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _comparisons(rows: Rows) -> Iterable[Comparison]:
    for split in dict.fromkeys(row.split for row in rows.counts):
        before, after = ([row for row in rows.counts if (row.phase, row.split) == (phase, split)] for phase in ("eval_before", "eval_after"))
        if before and after:
            yield _comparison(split, before, after, next((row for row in rows.pairs if row.split == split), None))


def _comparison(split: str, before: Sequence[CountsRow], after: Sequence[CountsRow], pair: PairRow | None) -> Comparison:
    """The end-to-end difference goes by task where there are tasks enough, since both evaluations ran the same ones."""
    old, new = account_rows(before), account_rows(after)
    once = all(row.most_samples == 1 for row in (*before, *after))
    by_task = paired(pair.tasks, pair.difference_sum, pair.difference_squared) if pair else None
    apart = difference(new.success, new.scheduled, old.success, old.scheduled) if once else None
    scored = difference(new.success, new.scored, old.success, old.scored) if once else None
    return Comparison(
        split=split,
        before=old,
        after=new,
        end_to_end=change(old.end_to_end, new.end_to_end, by_task or apart),
        conditional=change(old.conditional, new.conditional, scored),
    )


def _segment(row: SegmentRow) -> Segment:
    return Segment(
        segment=row.segment,
        resumed_from_step=row.resumed_from_step,
        started=row.started,
        ended=row.ended,
        status=row.status or "in progress, or ended by a kill",
        drift=tuple(row.drift),
        superseded_attempts=row.superseded_attempts,
        superseded_outcomes=row.superseded_outcomes,
        superseded_records=row.superseded_records,
    )


def _reproduce(run: RunRow, facts: FrozenFacts) -> tuple[Pointer, ...]:
    who = f" --policy {run.policy}" if run.verb == "eval" and run.policy in ("oracle", "random") else ""
    name = _quoted(run.run)
    pointers = {
        "run it again": f"agentgym {run.verb} {facts.runs_dir}/{run.run}/frozen.json{who}",
        "what was frozen": f"select frozen, fingerprint from runs where run = {name}",
        "rows of counts": f"select * from episodes_final where run = {name}",
        "rows of curves": f"select * from metrics_final where run = {name}",
    }
    if facts.stack:
        pointers = {"stack": f"lockfiles/{facts.stack}.txt, SHA-256 {facts.lock or 'not recorded'}"} | pointers
    return tuple(Pointer(what=what, how=how) for what, how in pointers.items())
