"""Sections that every form of a report has, beside its parts and curves: diagnosis, averages, spending, published rows, tasks, rules."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym_cli.report import phrases
from agentgym_cli.report.averages import averaged
from agentgym_cli.report.blocks import Block, Code, Facts, Grid, Prose, Section
from agentgym_cli.report.estimates import estimates
from agentgym_cli.report.model import Latency, Matrix, Part, Report
from agentgym_cli.report.paper_rows import paper_grids
from agentgym_cli.report.spending import Amount, PhaseSpending
from agentgym_cli.report.tries import TaskMean
from agentgym_cli.report.verdict import FOUND, NO_DATA, QUIET, Finding

_UNSOLVED_NAMED = 20
_CHANGES_NAMED = 20


def standing(report: Report) -> list[Section]:
    """That a run is not over, and what it lacks; nothing for one that is over and lacks nothing."""
    if report.standing.finished and not report.standing.missing:
        return []
    scored = sum(part.accounting.scored for part in report.parts)
    if report.standing.finished:
        title, said = "Without an outcome", "This run finished, and not everything that was scheduled has an outcome."
    else:
        title = "In progress" if report.header.status == "in progress" else "Not finished"
        said = f"This run has not finished ({report.header.status}); every number is of what was recorded so far."
    said += " Nothing was scored: it claims nothing." if report.parts and not scored else ""
    blocks = [Prose(text=said, tone="warning"), *(Prose(text=sentence) for sentence in report.standing.missing)]
    return [Section(title=title, blocks=tuple(blocks))]


def overlaps(report: Report) -> list[Section]:
    """Tasks that evaluation shares with training, and other warnings of the frozen run."""
    blocks = [Prose(text=sentence, tone="warning") for sentence in report.overlaps] + [Prose(text=sentence) for sentence in report.warnings]
    title = "Overlaps of evaluation and training" if report.overlaps else "Said when the run was frozen"
    return [Section(title=title, blocks=tuple(blocks))] if blocks else []


def diagnosis(report: Report, *, queries: bool) -> list[Section]:
    """What rules found, what was quiet, what could not be judged; ``queries`` adds the SQL of each finding."""
    found = [finding for finding in report.findings if finding.state == FOUND]
    blocks: list[Block] = []
    for finding in found:
        blocks += [Prose(text=f"{finding.rule}: {finding.said}", tone="warning")]
        blocks += [Facts(pairs=(("called out when", finding.threshold), ("try", finding.advice)))]
        blocks += [Code(what="rows", text=finding.rows)] if queries else []
    if not found:
        blocks.append(Prose(text="No rule found anything.", tone="good"))
    rest = [("quiet", _named(report.findings, QUIET)), ("no data for", _named(report.findings, NO_DATA))]
    blocks.append(Facts(pairs=tuple((name, names) for name, names in rest if names)))
    return [Section(title=f"Diagnosis: {len(found)} of {len(report.findings)} rules found something", blocks=tuple(blocks))]


def _named(findings: Sequence[Finding], state: str) -> str:
    return ", ".join(finding.rule for finding in findings if finding.state == state)


def quiet_rules(report: Report) -> Grid:
    """Every rule that did not fire, with its evidence."""
    rows = tuple((finding.rule, finding.state, finding.said, finding.threshold) for finding in report.findings if finding.state != FOUND)
    return Grid(caption="Rules that found nothing", names=("rule", "", "evidence", "called out when"), rows=rows)


def averages(report: Report) -> list[Section]:
    """Pooled and macro averages of evaluations and training, named, where several scenarios are shown."""
    named = [
        (f"{part.phase} / {part.split}" + ("" if part.step is None else f", step {part.step}"), part.averages)
        for part in report.parts
        if part.averages and part.phase != "warm_start"
    ]
    named += [(f"{item.phase}, step {item.step}", item.averages) for item in report.averages]
    rows = [(name if place == 0 else "", *row) for name, found in named for place, row in enumerate(averaged(found))]
    names = ("", "average", "end to end", "conditional", "infra")
    grid = Grid(caption="Pooled: all episodes together. Macro: every scenario alike.", names=names, rows=tuple(rows))
    return [Section(title="Averages", blocks=(grid,))] if rows else []


def several_tries(report: Report) -> list[Section]:
    """pass@k, pass^k and avg@k."""
    rows = [
        (
            f"{part.phase} / {part.split}",
            str(item.k),
            item.counted,
            _mean(item.any_of),
            _mean(item.all_of),
            _mean(item.average),
            _over(item.tasks, item.too_few),
        )
        for part in report.parts
        for item in part.tries
    ]
    names = ("", "k", "counted", "pass@k", "pass^k", "avg@k", "tasks")
    return [Section(title="Several tries at a task", blocks=(Grid(caption="Means over tasks", names=names, rows=tuple(rows)),))] if rows else []


def _mean(mean: TaskMean) -> str:
    if mean.value is None:
        return f"{phrases.NO_DATA}\n{mean.why}"
    return f"{phrases.percent(mean.value)}\n{phrases.bounds(mean.low, mean.high)}"


def _over(tasks: int, too_few: int) -> str:
    return f"{tasks:,}" + (f"\n{too_few:,} with fewer" if too_few else "")


def stages(report: Report) -> list[Section]:
    """Training by stage of the horizon."""
    rows = []
    for item in report.stages:
        found = item.accounting
        shares = [
            "\n".join(
                [f"{phrases.percent(rate.value)} {phrases.of(rate)}", phrases.interval(rate), rate.method or "", *phrases.apart_from(rate, rate)]
            )
            for rate in (found.end_to_end, found.conditional)
        ]
        extremes = phrases.extremes(found).replace(" to ", "\nto ")
        where = f"horizon {item.horizon}\nsteps {item.first_step} to {item.last_step}"
        rows.append((where, *shares, phrases.percent(found.infra_share.value), extremes))
    names = ("stage", "end to end", "conditional", "infra", "worst to best")
    grid = Grid(caption="Stages, under the retry policy", names=names, rows=tuple(rows))
    sums = Facts(pairs=tuple((f"horizon {item.horizon}", phrases.counted(item.ledger, item.first_attempts)) for item in report.stages))
    return [Section(title="Training by stage of the horizon", blocks=(grid, sums))] if rows else []


def category_sums(part: Part) -> Facts:
    """Where the episodes of every category of a part went."""
    return Facts(pairs=tuple((item.name, phrases.counted(item.ledger, item.first_attempts)) for item in part.categories))


def spending(report: Report) -> list[Section]:
    """What the run took, what a success of it took, and how long a turn takes."""
    found = report.spending
    amounts = [("tokens read", found.tokens_read), ("tokens sampled", found.tokens_sampled), ("seconds on the clock", found.clock_seconds)]
    amounts += [("GPU-hours", found.gpu_hours), ("cost", found.cost)]
    each = {item.what: item for item in found.per_success}
    rows = []
    for name, amount in amounts:
        per = each.get(name)
        known = per is not None and per.value is not None
        rows.append(
            (name, _amount(amount), phrases.number(per.value) if per and known else phrases.NO_DATA, amount.why or (per.why if per else None) or "")
        )
    infra = "how many ended in infra errors is not known" if found.infra_errors is None else f"{found.infra_errors:,} ended in infra errors"
    others = f" of the policy; {found.demonstrated:,} more of demonstrations, whose attempts are in the sums" if found.demonstrated else ""
    pairs = (("attempts", f"{found.attempts:,}, {infra}"), ("successes", f"{found.successes:,}{others}"))
    blocks: list[Block] = [
        Facts(pairs=pairs),
        Grid(caption="Over everything that was spent", names=("", "in all", "for each success", "why not"), rows=tuple(rows)),
    ]
    if len(found.phases) > 1:
        blocks.append(_phases(found.phases))
    if report.latencies:
        blocks.append(_latencies(report.header.env, report.latencies))
    return [Section(title="Spending and latency", blocks=tuple(blocks)), *estimates(report)]


def _phases(found: Sequence[PhaseSpending]) -> Grid:
    rows = []
    for item in found:
        each = {of.what: phrases.NO_DATA if of.value is None else phrases.number(of.value) for of in item.per_success}
        amounts = map(_amount, (item.tokens_sampled, item.attempt_seconds, item.cost))
        rows.append((item.phase, f"{item.attempts:,}", *amounts, f"{item.successes:,}", each["tokens sampled"], each["attempt seconds"]))
    names = ("phase", "attempts", "tokens sampled", "attempt seconds", "cost", "successes", "tokens each", "seconds each")
    return Grid(caption="By phase; each: for one success of the phase, n/a where it has none", names=names, rows=tuple(rows))


def _amount(amount: Amount) -> str:
    return phrases.number(amount.value)


def _latencies(env: str, found: Sequence[Latency]) -> Grid:
    """The whole run, which is all of its environment, each phase, and each split where a phase has several."""
    names = ("", "turns kept", "policy p50", "policy p95", "world p50", "world p95")
    phases = [item for item in found if item.phase is not None and item.split is None]
    several = {item.phase for item in phases if sum(each.split is not None and each.phase == item.phase for each in found) > 1}
    whole = [item for item in found if item.phase is None] if len(phases) != 1 else []
    rows = [(env, *_times(item)) for item in whole]
    for phase in phases:
        rows.append((str(phase.phase), *_times(phase)))
        parts = [item for item in found if item.split is not None and item.phase == phase.phase] if phase.phase in several else []
        rows += [(f"  {item.split}" + ("" if item.step is None else f", step {item.step}"), *_times(item)) for item in parts]
    return Grid(caption="Seconds of one turn, median and 95th percentile", names=names, rows=tuple(rows))


def _times(item: Latency) -> tuple[str, ...]:
    quantiles = (item.policy_p50, item.policy_p95, item.env_p50, item.env_p95)
    return (f"{item.turns:,}", *("not kept" if value is None else phrases.turn_seconds(value) for value in quantiles))


def papers(report: Report, *, brief: bool) -> list[Section]:
    """Published rows beside the run's; what keeps each from being the same measurement is said once for all.

    ``brief`` shows only whole splits of the last evaluation.
    """
    rows = list(report.papers)
    if brief and rows:
        last = max(rows, key=lambda row: (row.step or 0, row.phase == "eval_after"))
        rows = [row for row in rows if not row.category and (row.phase, row.step) == (last.phase, last.step)]
    if not rows:
        return []
    said = dict.fromkeys(f"{item.what}: {item.ours} here, {item.theirs} there; {item.why}" for row in rows for item in row.incomparable)
    notes = dict.fromkeys(f"{row.model}: {row.note}" for row in rows if row.note)
    return [Section(title="Beside published results", blocks=(*paper_grids(rows), *(Prose(text=sentence) for sentence in (*said, *notes))))]


def matrices(report: Report, most: int) -> list[Section]:
    """Tasks by evaluations, up to ``most`` of each split; 0 gives the counts and the names of those never solved."""
    return [_matrix(matrix, most) for matrix in report.matrices if matrix.tasks]


def _matrix(matrix: Matrix, most: int) -> Section:
    never = [task.task for task in matrix.tasks if not any(task.solved)]
    solved = [sum(bool(task.solved[place]) for task in matrix.tasks) for place in range(len(matrix.evaluations))]
    pairs = [
        (name, f"{count:,} of {len(matrix.tasks):,} tasks solved in every episode") for name, count in zip(matrix.evaluations, solved, strict=True)
    ]
    named = ", ".join(never[:_UNSOLVED_NAMED]) + (f" and {len(never) - _UNSOLVED_NAMED:,} more" if len(never) > _UNSOLVED_NAMED else "")
    pairs += [("in none", named)] if never else []
    if matrix.of > len(matrix.tasks):
        pairs.append(("not shown", f"{matrix.of - len(matrix.tasks):,} more tasks, which view per_task has"))
    blocks: list[Block] = [Facts(pairs=tuple(pairs))]
    if most:
        shown = matrix.tasks[:most]
        rows = tuple((task.task, task.category, *(cell or phrases.NO_DATA for cell in task.cells)) for task in shown)
        marks = tuple(("", "", *({True: "good", False: "bad", None: "weak"}[solved] for solved in task.solved)) for task in shown)
        caption = "Successes of scheduled episodes" + (f", the first {len(shown):,} tasks" if len(shown) < matrix.of else "")
        blocks.append(Grid(caption=caption, names=("task", "category", *matrix.evaluations), rows=rows, marks=marks))
    return Section(title=f"Tasks of {matrix.split}", blocks=tuple(blocks))


def servers(report: Report) -> list[Section]:
    """Servers that were given up and taken back, and those that were out at the end; nothing where every server answered."""
    if not report.servers:
        return []
    shown = report.servers[-_CHANGES_NAMED:]
    pairs = tuple((phrases.moment(item.happened), phrases.server(item)) for item in shown)
    pairs += (("before", f"{len(report.servers) - len(shown):,} more, which table servers has"),) if len(shown) < len(report.servers) else ()
    last = {item.url: item.event for item in report.servers if item.segment == report.servers[-1].segment}
    out = [url for url, event in last.items() if event == "given up"]
    said = f"Not taken back: {', '.join(out)}." if out else "Every one of them answered again."
    said += " A server that is given up gets no new episodes until it answers again."
    return [Section(title="Servers given up", blocks=(Facts(pairs=pairs), Prose(text=said, tone="warning" if out else "good")))]


def gates(report: Report) -> list[Section]:
    """What gates decided about the run."""
    rows = tuple(
        (item.gate, "passed" if item.passed else "not passed", item.decided.replace("+00:00", "Z"), item.baseline or "", item.gate_digest[:12])
        for item in report.gates
    )
    grid = Grid(caption="Evidence is in table gates of the store", names=("gate", "", "decided", "baseline", "SHA-256"), rows=rows)
    return [Section(title="Decisions of gates", blocks=(grid,))] if rows else []


def rules(report: Report) -> list[Section]:
    """Reward definition and stopping rules, as frozen."""
    groups = dict.fromkeys(item.about for item in report.settings)
    blocks: list[Block] = []
    for about in groups:
        blocks += [
            Prose(text=f"{about.capitalize()}:"),
            Facts(pairs=tuple((item.key, item.value) for item in report.settings if item.about == about)),
        ]
    return [Section(title="Rules of reward and stopping, as frozen", blocks=tuple(blocks))] if blocks else []
