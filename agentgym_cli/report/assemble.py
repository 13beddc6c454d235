"""From rows to a report: pure, so that a test can hand it any rows. Rates come from accounting, and from nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from agentgym_cli.report.accounting import account_first_attempts, account_rows, averages, each, ledger, share, untold, unwritten
from agentgym_cli.report.before_after import before_and_after
from agentgym_cli.report.breakdown import by_category, stage_accounts
from agentgym_cli.report.choice import UNKNOWN, awaited, choice_of, left_out_of
from agentgym_cli.report.conditions import Conditions, read_conditions
from agentgym_cli.report.degraded import degraded_run
from agentgym_cli.report.diagnosis import diagnose
from agentgym_cli.report.face import axis, matrices, said_when_frozen, settings, standing
from agentgym_cli.report.figures import FirstAttempts, Rate
from agentgym_cli.report.frozen import FrozenFacts, read_facts
from agentgym_cli.report.learning import assemble_learning
from agentgym_cli.report.model import (
    Checkpoint,
    Header,
    Latency,
    LeftOut,
    Part,
    PastDecision,
    Probe,
    Report,
    Segment,
    ServerChange,
    Spent,
    SplitAverages,
    Stop,
)
from agentgym_cli.report.papers import PaperRow, Result, beside_papers
from agentgym_cli.report.reproduce import reproduce
from agentgym_cli.report.signals import Signals
from agentgym_cli.report.spending import Spending, spend, spend_phases
from agentgym_cli.report.tries import tries
from agentgym_cli.store.diagnosis_rows import AxisRow, MatrixRow
from agentgym_cli.store.gates import GateRow
from agentgym_cli.store.rows import (
    AttemptsRow,
    CheckpointRow,
    CountsRow,
    MetricRow,
    MetricTotals,
    PairRow,
    ProbeRow,
    ReasonRow,
    RunRow,
    SegmentRow,
    ServerRow,
    WeightsRow,
)
from agentgym_cli.store.task_rows import CellRow, LatencyRow, PhaseSpendingRow, SpendingRow, StageRow

_IN_PROCESS = frozenset({"local", "oracle", "random", "scripted"})
_DEADLINES = frozenset({"policy_deadline", "env_deadline"})
_DEMONSTRATIONS = frozenset({"warm_start", "demonstrate"})
"""Phases in which the oracle acts."""
_NOTHING = Spent(attempts=0, infra_errors=0, turns=0, action_tokens=0, seconds=0.0)
_NOT_KEPT = "not in the files it was imported from"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """What the store says of one run."""

    run: RunRow
    segments: Sequence[SegmentRow]
    counts: Sequence[CountsRow]
    reasons: Sequence[ReasonRow]
    attempts: Sequence[AttemptsRow]
    pairs: Sequence[PairRow]
    curve: Sequence[MetricRow]
    metrics: Sequence[MetricTotals]
    probes: Sequence[ProbeRow]
    checkpoints: Sequence[CheckpointRow]
    cells: Sequence[CellRow]
    stages: Sequence[StageRow]
    spending: SpendingRow
    latencies: Sequence[LatencyRow]
    signals: Signals
    matrix: Sequence[MatrixRow]
    gates: Sequence[GateRow]
    x: str = "steps"
    """What curves are drawn against."""
    axis: Sequence[AxisRow] = ()
    """Empty for steps."""
    phases: Sequence[PhaseSpendingRow] = ()
    servers: Sequence[ServerRow] = ()
    weights: Sequence[WeightsRow] = ()
    """Checkpoints, of any run of the store, with the weights that acted; empty where no checkpoint did."""


def assemble(rows: Rows) -> Report:
    """The report of a run."""
    facts = read_facts(rows.run.frozen)
    conditions = read_conditions(rows.run.frozen, env=rows.run.env, policy=rows.run.policy)
    parts = tuple(_parts(rows, facts))
    overlaps, warnings = said_when_frozen(rows.run.frozen)
    return Report(
        header=_header(rows, facts),
        standing=standing(rows.run, rows.counts, rows.curve, _awaited(rows, facts), tuple(_unwritten(parts))),
        findings=diagnose(rows.signals, rows.run.run),
        settings=settings(rows.run.frozen, rows.run.verb),
        overlaps=overlaps,
        warnings=warnings,
        comparisons=tuple(before_and_after(rows.counts, rows.pairs)),
        parts=parts,
        averages=tuple(_averages(rows.counts, untold(rows.run.imported))),
        stages=tuple(stage_accounts(rows.stages, rows.reasons, rows.run.imported)),
        spending=_spending(rows, facts, parts),
        latencies=tuple(map(latency_of, rows.latencies)),
        conditions=conditions,
        papers=_papers(parts, conditions),
        learning=assemble_learning(rows.curve, rows.metrics, axis(rows.axis, rows.x)),
        matrices=matrices(rows.matrix),
        segments=tuple(_segment(row) for row in rows.segments),
        probes=tuple(Probe(url=row.url, name=row.name, result=row.result, detail=row.detail) for row in rows.probes),
        servers=tuple(map(_server, rows.servers)),
        checkpoints=tuple(Checkpoint(step=row.step, path=row.path, digest=row.digest) for row in rows.checkpoints),
        gates=tuple(
            PastDecision(gate=row.gate, gate_digest=row.gate_digest, baseline=row.baseline, passed=row.passed, decided=row.decided)
            for row in rows.gates
        ),
        reproduce=reproduce(rows.run, facts, rows.segments, rows.weights),
    )


def _awaited(rows: Rows, facts: FrozenFacts) -> tuple[str, ...]:
    scheduled = {row.split for row in rows.counts if row.phase.startswith("eval")}
    return awaited(facts, scheduled, begun=any(row.attempts for row in rows.attempts if row.phase.startswith("eval")))


def _unwritten(parts: Sequence[Part]) -> Iterable[str]:
    for part in parts:
        if part.unwritten:
            yield f"{part.phase} / {part.split}: {part.unwritten.written:,} of {part.unwritten.planned:,} episodes of its schedule were written down"


def _spending(rows: Rows, facts: FrozenFacts, parts: Sequence[Part]) -> Spending:
    by_phase: dict[str, int] = {}
    for part in parts:
        by_phase[part.phase] = by_phase.get(part.phase, 0) + part.accounting.success
    demonstrated = sum(successes for phase, successes in by_phase.items() if phase in _DEMONSTRATIONS)
    successes, imported = sum(by_phase.values()) - demonstrated, rows.run.imported is not None
    whole = spend(rows.spending, rows.segments, facts, successes, demonstrated=demonstrated, imported=imported)
    return replace(whole, phases=spend_phases(rows.phases, rows.latencies, facts, by_phase, imported=imported))


def _header(rows: Rows, facts: FrozenFacts) -> Header:
    run = rows.run
    promise, note = _promise(rows)
    return Header(
        run=run.run,
        recipe=run.name,
        verb=run.verb,
        profile=run.profile,
        profile_reason=run.profile_reason,
        label="imported" if run.imported else "laptop result" if run.profile == "laptop" else None,
        engine=run.engine,
        env=run.env,
        policy=run.policy,
        seed=run.seed,
        digest=run.digest,
        degraded=degraded_run(rows.counts, facts),
        drift=tuple(f"segment {row.segment} ran with {sentence}" for row in rows.segments for sentence in row.drift),
        stack=facts.stack,
        lock=facts.lock,
        created=run.created,
        ended=run.ended,
        status=run.status or "in progress",
        outcome_from=_outcome_from(rows.counts, rows.reasons),
        semantics=facts.semantics,
        promise=promise,
        promise_note=note,
        retry_attempts=facts.retry_attempts,
    )


def _promise(rows: Rows) -> tuple[str, str]:
    if rows.run.imported:
        return "none", "another program ran it, and its files say too little to repeat it"
    if rows.run.engine != "local" or rows.run.policy not in _IN_PROCESS:
        return "equal schedules", "a served policy repeats its schedule and accounting, not its bits"
    if not any(row.scheduled > row.missing for row in rows.counts):
        return "equal schedules", "no episode has an outcome, so there are no bits to promise"
    fired = sum(row.episodes for row in rows.reasons if row.stop in _DEADLINES or row.cause == "timeout")
    if any(row.drift for row in rows.segments):
        return "equal schedules", "it ran with drift, so the digest does not name all that it ran with"
    if fired:
        return "equal schedules", f"a deadline ended {fired} episodes, so they may end elsewhere in a second run"
    return "equal bits", "the same digest on the same fingerprint gives the same episodes and metrics, bit for bit"


def _outcome_from(counts: Iterable[CountsRow], stops: Iterable[ReasonRow]) -> str:
    """Who decided. An episode that was cut is a failure whoever decides: only those that the world called done were asked about."""
    kept = list(counts)
    if sum(row.scheduled - row.missing for row in kept) == 0:
        return "n/a"
    verified, done = sum(row.by_verifier for row in kept), sum(row.episodes for row in stops if row.stop == "done")
    return "reward" if verified == 0 else "verifier" if verified >= done else "reward and verifier"


def _parts(rows: Rows, facts: FrozenFacts) -> Iterable[Part]:
    for (phase, split, step), group in groupby(rows.counts, key=lambda row: (row.phase, row.split, row.step)):
        yield _part(rows, facts, (phase, split, step), list(group))
    scheduled = {row.split for row in rows.counts if row.phase == "eval"}
    for split in facts.tasks if scheduled else ():
        if split not in scheduled:
            yield _part(rows, facts, ("eval", split, next(row.step for row in rows.counts if row.phase == "eval")), [])


def _part(rows: Rows, facts: FrozenFacts, key: tuple[str, str, int | None], counts: Sequence[CountsRow]) -> Part:
    phase, split, step = key
    cells = [row for row in rows.cells if (row.phase, row.split, row.step) == key]
    infra = untold(rows.run.imported)
    accounting = account_rows(counts, cells, infra)
    tasks = sum(row.tasks for row in counts)
    begun = any(row.attempts for row in rows.attempts if (row.phase, row.step) == (phase, step))
    choice = choice_of(facts, split, tasks=tasks, begun=begun) if phase.startswith("eval") else UNKNOWN
    reasons = [row for row in rows.reasons if (row.phase, row.split, row.step) == key]
    kept = ledger(reasons, left_out=choice.left_out)
    by_name = left_out_of(facts, split, choice.left_out, {row.category: row.tasks for row in counts})
    categories = by_category(counts, cells, reasons, left_out=by_name, imported=rows.run.imported)
    spent = next((_spent(row, infra) for row in rows.attempts if (row.phase, row.split, row.step) == key), _NOTHING)
    took = (("tokens sampled", spent.action_tokens), ("attempt seconds", spent.seconds))
    why = _NOT_KEPT if rows.run.imported else "not recorded"
    cut = share(sum(row.truncated for row in counts), accounting.scheduled, "episode was scheduled")
    cut = cut if accounting.end_to_end.value is not None else replace(cut, value=None, why=accounting.end_to_end.why)
    return Part(
        phase=phase,
        split=split,
        step=step,
        accounting=accounting,
        ledger=kept,
        categories=tuple(category for category in categories if category.name),
        averages=averages("categories", accounting, {each.name: each.accounting for each in categories}) if len(categories) > 1 else None,
        tries=tries(cells) if phase.startswith("eval") else (),
        tasks=tasks,
        left_out=choice.left_out,
        left_out_categories=tuple(LeftOut(category=name, tasks=number) for name, number in (by_name or {}).items() if name),
        unwritten=unwritten(accounting, choice.planned),
        outcome_from=_outcome_from(counts, reasons),
        stops=tuple(_stops(reasons)),
        action_induced=share(kept.action_induced, accounting.infra_error, "infra error"),
        truncated=_kept(rows, cut),
        invalid_actions=_kept(rows, share(sum(row.invalid_actions for row in counts), sum(row.turns for row in counts), "turn")),
        first_attempts=FirstAttempts(retried=None, accounting=None) if rows.run.imported else account_first_attempts(counts),
        latency=next((latency_of(row) for row in rows.latencies if (row.phase, row.split, row.step) == key), None),
        spent=spent,
        per_success=tuple(each(what, amount, accounting.success, why) for what, amount in took),
        rows=_episodes_sql(rows.run.run, phase, split, step),
    )


def _kept(rows: Rows, rate: Rate) -> Rate:
    """A share of what another program's files do not hold has no value."""
    return replace(rate, value=None, why=_NOT_KEPT) if rows.run.imported and rate.value is not None else rate


def _stops(rows: Sequence[ReasonRow]) -> Iterable[Stop]:
    """Reasons, whatever their episodes count as, the most frequent first."""
    found = []
    for reason, cause in dict.fromkeys((row.stop, row.cause) for row in rows):
        alike = [row for row in rows if (row.stop, row.cause) == (reason, cause)]
        example = min((row.example for row in alike if row.example), default="")
        found.append(Stop(reason=reason, cause=cause, episodes=sum(row.episodes for row in alike), example=example))
    return sorted(found, key=lambda stop: (-stop.episodes, stop.reason, stop.cause or ""))


def _averages(counts: Sequence[CountsRow], infra: str | None) -> Iterable[SplitAverages]:
    for (phase, step), group in groupby(counts, key=lambda row: (row.phase, row.step)):
        rows = list(group)
        names = dict.fromkeys(row.split for row in rows)
        splits = {split: account_rows([row for row in rows if row.split == split], infra_unknown=infra) for split in names}
        if step is not None and len(splits) > 1:
            yield SplitAverages(phase=phase, step=step, averages=averages("splits", account_rows(rows, infra_unknown=infra), splits))


def latency_of(row: LatencyRow) -> Latency:
    """The quantiles of one part of a run."""
    return Latency(
        phase=row.phase,
        split=row.split,
        step=row.step,
        turns=row.turns,
        policy_p50=row.policy_p50,
        policy_p95=row.policy_p95,
        env_p50=row.env_p50,
        env_p95=row.env_p95,
    )


def _papers(parts: Sequence[Part], conditions: Conditions) -> tuple[PaperRow, ...]:
    """Published rows beside every evaluation that has a result."""
    results = []
    for part in parts:
        if part.phase.startswith("eval") and part.accounting.scheduled:
            named = {"": part.accounting} | {category.name: category.accounting for category in part.categories}
            results += [
                Result(phase=part.phase, split=part.split, step=part.step, category=name, accounting=counted) for name, counted in named.items()
            ]
    return beside_papers(results, conditions)


def _spent(row: AttemptsRow, infra: str | None) -> Spent:
    told = None if infra else row.infra_error
    return Spent(attempts=row.attempts, infra_errors=told, turns=row.turns, action_tokens=row.action_tokens, seconds=row.seconds)


def _episodes_sql(run: str, phase: str, split: str, step: int | None) -> str:
    where = f"run = {_quoted(run)} and phase = {_quoted(phase)} and split = {_quoted(split)}"
    return f"select episode, outcome, attempts, reward from episodes_final where {where}" + ("" if step is None else f" and step = {step}")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _server(row: ServerRow) -> ServerChange:
    event = {"opened": "given up", "closed": "taken back"}.get(row.event, row.event)
    return ServerChange(segment=row.segment, url=row.url, event=event, cause=row.cause, detail=row.detail, happened=row.happened)


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
