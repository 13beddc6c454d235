"""Whether a run may be promoted: every rule of a gate with what it expected, what it got and the rows behind it. Reads rows only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agentgym_cli.report import phrases
from agentgym_cli.report.blocks import Block, Code, Facts, Grid, Prose, Section
from agentgym_cli.report.compare import Judged, Side, SplitComparison, compare
from agentgym_cli.report.conditions import Incomparable, incomparable
from agentgym_cli.report.differences import Difference, adjusted
from agentgym_cli.report.figures import Rate
from agentgym_cli.report.gate_file import WHOLE, Gate
from agentgym_cli.report.held_out import Shared, judge_held_out
from agentgym_cli.report.model import SCHEMA


@dataclass(frozen=True, slots=True, kw_only=True)
class GateCheck:
    """One rule."""

    rule: str
    expected: str
    got: str
    passed: bool
    rows: str
    """SQL behind it; '' for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A gate's word on a run."""

    run: str
    gate: str
    gate_digest: str
    split: str
    evaluation: str | None
    """``eval_after, step 330``; None where the run was never judged on the split."""
    baseline: str | None
    passed: bool
    checks: tuple[GateCheck, ...]
    decided: str
    schema: int = SCHEMA


def judge(gate: Gate, side: Side, shared: Shared, baseline: Side | None, decided: str) -> Decision:
    """Judge a run; a rule that cannot be judged is not met."""
    judged = side.splits.get(gate.split)
    checks = tuple(_checks(gate, side, judged, shared, baseline))
    return Decision(
        run=side.run,
        gate=gate.file,
        gate_digest=gate.digest,
        split=gate.split,
        evaluation=f"{judged.phase}, step {judged.step}" if judged else None,
        baseline=baseline.run if baseline else None,
        passed=all(check.passed for check in checks),
        checks=checks,
        decided=decided,
    )


def _checks(gate: Gate, side: Side, judged: Judged | None, shared: Shared, baseline: Side | None) -> Iterator[GateCheck]:
    yield from _standing(gate, side, "")
    if baseline is not None:
        yield from _standing(gate, baseline, "baseline ")
    if judged is None:
        known = ", ".join(side.splits) or "none"
        yield _check("split", f"an evaluation of {gate.split}", f"evaluations of {known}", False)
        return
    rows = _rows(side.run, gate.split, judged)
    yield from _shares(gate, judged, rows)
    if baseline is not None:
        found = {split.split: split for split in compare(baseline, side).splits}.get(gate.split)
        yield from _comparable(gate, side, baseline, found)
        yield from _same_tasks(gate, side, baseline, found)
        yield from _regressions(gate, found, rows)
    if gate.held_out:
        yield _check("held_out", "no task of training in the split", *judge_held_out(shared))


def _check(rule: str, expected: str, got: str, passed: bool, rows: str = "") -> GateCheck:
    return GateCheck(rule=rule, expected=expected, got=got, passed=passed, rows=rows)


def _standing(gate: Gate, side: Side, whose: str) -> Iterator[GateCheck]:
    """What every run has to be, whatever the file asks for."""
    yield _check(f"{whose}finished", "a run that has finished", side.status, side.status == "finished")
    drift = "; ".join(sentence[: phrases.LONGEST_DRIFT] for sentence in side.drift)
    yield _check(f"{whose}no drift", "a run of what was frozen", *_allowed(drift, "no drift was recorded", gate.allow_drift))
    yield _check(
        f"{whose}not degraded", "infra errors within its recipe's limits", *_allowed(side.degraded, "not called degraded", gate.allow_degraded)
    )


def _allowed(fault: str | None, otherwise: str, allowed: bool) -> tuple[str, bool]:
    """What to say of a fault, and whether it may stand."""
    if not fault:
        return otherwise, True
    return f"{_ALLOWED}: {fault}" if allowed else fault, allowed


_ALLOWED = "allowed by the gate"


def _comparable(gate: Gate, side: Side, baseline: Side, found: SplitComparison | None) -> Iterator[GateCheck]:
    """Every condition that differs, or that nobody knows; tasks are left to ``same_tasks`` where the gate asks for them."""
    known = found.incomparable if found else incomparable(baseline.conditions, side.conditions)
    items = [item for item in known if not (item.what == "tasks" and gate.same_tasks)]
    expected = f"the conditions of {baseline.run}"
    if not items:
        yield _check("comparable", expected, "nothing that is recorded differs", True)
    for what in dict.fromkeys(item.what for item in items):
        said = "; ".join(_differs(item) for item in items if item.what == what)
        yield _check(f"comparable: {what}", expected, *_allowed(said, "", what in gate.allow_different))


def _differs(item: Incomparable) -> str:
    return f"{item.theirs} here, {item.ours} in the baseline; {item.why}"


def _shares(gate: Gate, judged: Judged, rows: str) -> Iterator[GateCheck]:
    success, infra = judged.accounting.end_to_end, judged.accounting.infra_share
    if gate.minimum_end_to_end is not None:
        met = success.value is not None and success.value >= gate.minimum_end_to_end
        yield _check("minimum_end_to_end", f"at least {phrases.percent(gate.minimum_end_to_end)}", _said(success), met, rows)
    if gate.minimum_lower_bound is not None:
        met = success.low is not None and success.low >= gate.minimum_lower_bound
        said = f"{phrases.percent(success.low)}, the lower end of {phrases.interval(success)}, {success.method or success.why}"
        yield _check("minimum_lower_bound", f"at least {phrases.percent(gate.minimum_lower_bound)}", said, met, rows)
    if gate.maximum_infra_share is not None:
        met = infra.value is not None and infra.value <= gate.maximum_infra_share
        yield _check("maximum_infra_share", f"at most {phrases.percent(gate.maximum_infra_share)}", _said(infra), met, rows)


def _said(rate: Rate) -> str:
    return f"{phrases.percent(rate.value)} ({phrases.of(rate)}; 95% {phrases.interval(rate)})"


def _same_tasks(gate: Gate, side: Side, baseline: Side, found: SplitComparison | None) -> Iterator[GateCheck]:
    if not gate.same_tasks:
        return
    ours, theirs = side.conditions.tasks.get(gate.split), baseline.conditions.tasks.get(gate.split)
    expected = f"the tasks of {baseline.run}, by content"
    if found is None:
        yield _check("same_tasks", expected, f"{baseline.run} was never judged on {gate.split}", False)
        return
    only = len(found.only_base) + len(found.only_other)
    said = [f"{found.pairs:,} tasks in both"]
    said += [f"{only:,} in one run only"] if only else []
    said += [f"{len(found.other_content):,} with other content"] if found.other_content else []
    said += [f"{found.not_pinned:,} known by number alone"] if found.not_pinned else []
    lists = "not known" if ours is None or theirs is None else "the same" if ours == theirs else "different"
    said.append(f"digests of the task lists {lists}")
    met = found.pairs > 0 and not only and not found.other_content and lists == "the same"
    yield _check("same_tasks", expected, "; ".join(said), met)


def _regressions(gate: Gate, found: SplitComparison | None, rows: str) -> Iterator[GateCheck]:
    if found is None:
        for name in gate.no_regression:
            yield _check(f"no_regression {name}", "tasks in both runs", "none", False)
        return
    by_name = {item.name: item.end_to_end for item in found.categories} | {WHOLE: found.end_to_end}
    known = [name for name in gate.no_regression if name in by_name]
    differences = dict(zip(known, adjusted([by_name[name] for name in known]), strict=True))
    for name in gate.no_regression:
        difference = differences.get(name)
        if difference is None:
            yield _check(f"no_regression {name}", "a category of the split", f"there are {', '.join(by_name)}", False)
        else:
            yield _regression(name, difference, rows)


def _regression(name: str, difference: Difference, rows: str) -> GateCheck:
    expected = "no significant difference below the baseline"
    if difference.mean is None:
        return _check(f"no_regression {name}", expected, difference.why or phrases.NO_DATA, False, rows)
    said = [f"{100 * difference.mean:+.1f} points over {difference.tasks:,} tasks"]
    if difference.low is not None and difference.high is not None:
        said.append(f"95% {100 * difference.low:+.1f} to {100 * difference.high:+.1f}")
    said += [f"p {difference.p_adjusted:.3g} ({difference.test}, Holm over {difference.family})"] if difference.p_adjusted is not None else []
    said += [difference.why] if difference.why else []
    said += [f"these data would have shown {100 * difference.smallest:.1f} points four times in five"] if difference.smallest is not None else []
    return _check(f"no_regression {name}", expected, "; ".join(said), not (difference.mean < 0 and difference.significant is True), rows)


def _rows(run: str, split: str, judged: Judged) -> str:
    literal, part, phase = ("'" + text.replace("'", "''") + "'" for text in (run, split, judged.phase))
    return f"select episode, outcome from episodes_final where run = {literal} and phase = {phase} and split = {part} and step = {judged.step}"


def title(decision: Decision) -> str:
    """The verdict in a line."""
    return f"Gate {decision.gate}: {decision.run} {'passes' if decision.passed else 'does not pass'}"


def decided(decision: Decision) -> list[Section]:
    """The decision with its evidence, for every form."""
    pairs = [("run", decision.run), ("split", f"{decision.split}, {decision.evaluation or 'never evaluated'}")]
    pairs += [("baseline", decision.baseline)] if decision.baseline else []
    pairs += [("gate, SHA-256", decision.gate_digest), ("decided", decision.decided.replace("+00:00", "Z"))]
    rows = tuple((check.rule, "met" if check.passed else "NOT MET", check.expected, check.got) for check in decision.checks)
    marks = tuple(("", "good" if check.passed else "bad", "", "") for check in decision.checks)
    failed = [check.rule for check in decision.checks if not check.passed]
    verdict = Prose(text="Every rule is met.", tone="good") if decision.passed else Prose(text=f"Not met: {', '.join(failed)}", tone="warning")
    queries = dict.fromkeys(check.rows for check in decision.checks if check.rows)
    blocks: Sequence[Block] = (
        Facts(pairs=tuple(pairs)),
        verdict,
        Grid(caption="Rule by rule", names=("rule", "", "expected", "got"), rows=rows, marks=marks),
        *(Code(what="Rows", text=query) for query in queries),
    )
    return [Section(title="Decision", blocks=tuple(blocks))]
