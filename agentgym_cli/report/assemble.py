"""From rows to a report: pure, so that a test can hand it any rows. Rates come from accounting, and from nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from agentgym_cli.report.accounting import account_cells, account_first_attempts, account_rows, averages, change, each, ledger, share
from agentgym_cli.report.conditions import Conditions, read_conditions
from agentgym_cli.report.degraded import degraded_run
from agentgym_cli.report.diagnosis import diagnose
from agentgym_cli.report.face import axis, matrices, said_when_frozen, settings, standing
from agentgym_cli.report.frozen import FrozenFacts, read_facts
from agentgym_cli.report.learning import assemble_learning
from agentgym_cli.report.model import (
    Category,
    Checkpoint,
    Comparison,
    Header,
    Latency,
    Part,
    PastDecision,
    Probe,
    Report,
    Segment,
    Spent,
    SplitAverages,
    StageAccount,
    Stop,
)
from agentgym_cli.report.papers import PaperRow, Result, beside_papers
from agentgym_cli.report.reproduce import reproduce
from agentgym_cli.report.signals import Signals
from agentgym_cli.report.spending import spend
from agentgym_cli.report.statistics.intervals import difference
from agentgym_cli.report.statistics.paired import paired
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
    RunRow,
    SegmentRow,
    StopRow,
    WeightsRow,
)
from agentgym_cli.store.task_rows import CellRow, LatencyRow, SpendingRow, StageRow

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
        standing=standing(rows.run, rows.counts, rows.curve, tuple(facts.tasks)),
        findings=diagnose(rows.signals, rows.run.run),
        settings=settings(rows.run.frozen, rows.run.verb),
        overlaps=overlaps,
        warnings=warnings,
        comparisons=tuple(_comparisons(rows)),
        parts=parts,
        averages=tuple(_averages(rows.counts)),
        stages=tuple(_stages(rows.stages)),
        spending=spend(rows.spending, rows.segments, facts, sum(part.accounting.success for part in parts)),
        latencies=tuple(map(_latency, rows.latencies)),
        conditions=conditions,
        papers=_papers(parts, conditions),
        learning=assemble_learning(rows.curve, rows.metrics, axis(rows.axis, rows.x)),
        matrices=matrices(rows.matrix),
        segments=tuple(_segment(row) for row in rows.segments),
        probes=tuple(Probe(url=row.url, name=row.name, result=row.result, detail=row.detail) for row in rows.probes),
        checkpoints=tuple(Checkpoint(step=row.step, path=row.path, digest=row.digest) for row in rows.checkpoints),
        gates=tuple(
            PastDecision(gate=row.gate, gate_digest=row.gate_digest, baseline=row.baseline, passed=row.passed, decided=row.decided)
            for row in rows.gates
        ),
        reproduce=reproduce(rows.run, facts, rows.segments, rows.weights),
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
        outcome_from=_outcome_from(rows.counts, rows.stops),
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
    scheduled = {row.split for row in rows.counts if row.phase == "eval"}
    for split in facts.tasks if scheduled else ():
        if split not in scheduled:
            yield _part(rows, facts, ("eval", split, next(row.step for row in rows.counts if row.phase == "eval")), [])


def _part(rows: Rows, facts: FrozenFacts, key: tuple[str, str, int | None], counts: Sequence[CountsRow]) -> Part:
    phase, split, step = key
    cells = [row for row in rows.cells if (row.phase, row.split, row.step) == key]
    accounting = account_rows(counts, cells)
    tasks = sum(row.tasks for row in counts)
    in_split = facts.tasks.get(split) if phase.startswith("eval") else None
    stops = [row for row in rows.stops if (row.phase, row.split, row.step) == key]
    left_out = None if in_split is None else max(0, in_split - tasks)
    induced = sum(row.action_induced for row in counts)
    categories = {row.category: account_rows([row], [cell for cell in cells if cell.category == row.category]) for row in counts}
    spent = next((_spent(row) for row in rows.attempts if (row.phase, row.split, row.step) == key), _NOTHING)
    return Part(
        phase=phase,
        split=split,
        step=step,
        accounting=accounting,
        ledger=ledger(stops, action_induced=induced, left_out=left_out),
        categories=tuple(Category(name=name, accounting=counted) for name, counted in categories.items() if name),
        averages=averages("categories", accounting, categories) if len(categories) > 1 else None,
        tries=tries(cells) if phase.startswith("eval") else (),
        tasks=tasks,
        left_out=left_out,
        outcome_from=_outcome_from(counts, stops),
        stops=tuple(_stops(stops)),
        action_induced=share(induced, accounting.infra_error, "infra error"),
        truncated=share(sum(row.truncated for row in counts), accounting.scheduled, "episode was scheduled"),
        invalid_actions=share(sum(row.invalid_actions for row in counts), sum(row.turns for row in counts), "turn"),
        first_attempts=account_first_attempts(counts),
        spent=spent,
        per_success=(each("tokens sampled", spent.action_tokens, accounting.success), each("attempt seconds", spent.seconds, accounting.success)),
        rows=_episodes_sql(rows.run.run, phase, split, step),
    )


def _stops(rows: Sequence[StopRow]) -> Iterable[Stop]:
    """Reasons, whatever their episodes count as, the most frequent first."""
    for reason, cause in dict.fromkeys((row.stop, row.cause) for row in rows):
        alike = [row for row in rows if (row.stop, row.cause) == (reason, cause)]
        example = next((row.example for row in alike if row.example), "")
        yield Stop(reason=reason, cause=cause, episodes=sum(row.episodes for row in alike), example=example)


def _averages(counts: Sequence[CountsRow]) -> Iterable[SplitAverages]:
    for (phase, step), group in groupby(counts, key=lambda row: (row.phase, row.step)):
        rows = list(group)
        splits = {split: account_rows([row for row in rows if row.split == split]) for split in dict.fromkeys(row.split for row in rows)}
        if step is not None and len(splits) > 1:
            yield SplitAverages(phase=phase, step=step, averages=averages("splits", account_rows(rows), splits))


def _stages(rows: Sequence[StageRow]) -> Iterable[StageAccount]:
    for (horizon, first, last), group in groupby(rows, key=lambda row: (row.horizon, row.first_step, row.last_step)):
        yield StageAccount(horizon=horizon, first_step=first, last_step=last, accounting=account_cells(list(group)))


def _latency(row: LatencyRow) -> Latency:
    return Latency(
        phase=row.phase,
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
        if part.phase.startswith("eval"):
            named = {"": part.accounting} | {category.name: category.accounting for category in part.categories}
            results += [
                Result(phase=part.phase, split=part.split, step=part.step, category=name, rate=counted.end_to_end) for name, counted in named.items()
            ]
    return beside_papers(results, conditions)


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
