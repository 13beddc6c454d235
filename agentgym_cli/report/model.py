"""A report as plain values: what every form of it shows. Knows no database, no terminal and no Markdown."""

from __future__ import annotations

from dataclasses import dataclass

from agentgym_cli.report.conditions import Conditions
from agentgym_cli.report.figures import Accounting, Averages, Change, Each, FirstAttempts, Ledger, Rate, Unwritten
from agentgym_cli.report.papers import PaperRow
from agentgym_cli.report.spending import Spending
from agentgym_cli.report.tries import Tries
from agentgym_cli.report.verdict import Finding

SCHEMA = 2
"""Of the JSON form of reports, comparisons and decisions: the next number whenever a name in it goes, or comes to mean or hold something else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """Which run this is, and what may be expected of it."""

    run: str
    recipe: str
    verb: str
    profile: str
    profile_reason: str
    label: str | None
    """``laptop result`` where the profile is laptop: not the recipe's experiment."""
    engine: str
    env: str
    policy: str
    seed: int | None
    """None for an imported run."""
    digest: str
    degraded: str | None
    """Why the run is degraded: more infra errors than its recipe allows. None when it is not, or its recipe is not known."""
    drift: tuple[str, ...]
    """Drift from what the digest names, segment by segment, that was allowed; empty when the run is what it was frozen as."""
    stack: str | None
    lock: str | None
    created: str
    ended: str | None
    status: str
    """``finished``, ``interrupted``, ``failed``, or ``in progress`` (also after a kill)."""
    outcome_from: str
    """``reward``, ``verifier``, ``reward and verifier`` or ``n/a``."""
    semantics: str | None
    """What a success means in this environment, where that is not what one would think; foreign text."""
    promise: str
    """``equal bits`` or ``equal schedules``."""
    promise_note: str
    retry_attempts: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Category:
    """One category of tasks of a part."""

    name: str
    accounting: Accounting
    """Under the retry policy; ``first_attempts`` is without it."""
    ledger: Ledger
    first_attempts: FirstAttempts


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Why episodes stopped."""

    reason: str
    cause: str | None
    episodes: int
    example: str
    """A failure's message; foreign text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What all attempts of a part took, retried ones included."""

    attempts: int
    infra_errors: int | None
    """None, as all others below, where records do not say."""
    turns: int | None
    action_tokens: int | None
    seconds: float | None
    """Sum over attempts, which run side by side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """What a choice left out of one category."""

    category: str
    tasks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One split of one phase."""

    phase: str
    split: str
    step: int | None
    """Step of the weights; None in training."""
    accounting: Accounting
    """Under the retry policy; ``first_attempts`` is without it."""
    ledger: Ledger
    categories: tuple[Category, ...]
    averages: Averages | None
    """Over categories; None where there is one."""
    tries: tuple[Tries, ...]
    """Empty in training, and where every task has one episode."""
    tasks: int
    left_out: int | None
    """Tasks of the split that were not scheduled, by choice (``evaluation.limit``, ``evaluation.only``); None where that is unknown."""
    left_out_categories: tuple[LeftOut, ...]
    """The same by category, those of which nothing of theirs was scheduled included; empty where there are none or nobody can say."""
    unwritten: Unwritten | None
    """None where the schedule is complete, or how long it was to be is not known."""
    outcome_from: str
    stops: tuple[Stop, ...]
    action_induced: Rate
    """Of infra errors: those that came back on the same action."""
    truncated: Rate
    """Of scheduled."""
    invalid_actions: Rate
    """Of turns."""
    first_attempts: FirstAttempts
    latency: Latency | None
    """None where no turn was kept."""
    spent: Spent
    per_success: tuple[Each, ...]
    """Over all attempts of the part that are not superseded."""
    rows: str
    """SQL that lists the episodes counted here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitAverages:
    """Averages over the splits of one evaluation."""

    phase: str
    step: int
    averages: Averages


@dataclass(frozen=True, slots=True, kw_only=True)
class StageAccount:
    """Training episodes of one horizon."""

    horizon: int
    first_step: int
    last_step: int
    accounting: Accounting
    """Under the retry policy; ``first_attempts`` is without it."""
    ledger: Ledger
    first_attempts: FirstAttempts


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Seconds of one turn, median and 95th percentile, over the turns of a part of a run that were kept."""

    phase: str | None
    """None: the whole run, which is all of its environment."""
    split: str | None
    """None: all splits of the phase."""
    step: int | None
    """Step of the weights; None for all, and in training."""
    turns: int
    policy_p50: float | None
    policy_p95: float | None
    env_p50: float | None
    env_p95: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One split before and after training."""

    split: str
    before: Accounting
    after: Accounting
    end_to_end: Change
    conditional: Change


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One metric by step."""

    phase: str
    name: str
    points: tuple[tuple[int, float | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A span of steps with one horizon."""

    horizon: int
    first_step: int
    last_step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """What curves are drawn against in place of steps: how much the run had taken at each."""

    name: str
    """``turns``, ``tokens`` (sampled) or ``seconds`` (on the clock)."""
    at: tuple[tuple[int, float], ...]
    """By step, never falling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """What became of the groups of all steps."""

    planned: int
    dropped: Rate
    """Of planned."""
    zero_variance: Rate
    """Of planned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric over the steps of a phase."""

    phase: str
    name: str
    steps: int
    mean: float | None
    least: float | None
    most: float | None
    first: float | None
    last: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning:
    """What training left in the metrics."""

    curves: tuple[Curve, ...]
    axis: Axis | None
    """None: against steps."""
    stages: tuple[Stage, ...]
    groups: Groups | None
    metrics: tuple[Metric, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """What a run did between two (re)starts."""

    segment: int
    resumed_from_step: int | None
    started: str
    ended: str | None
    status: str
    drift: tuple[str, ...]
    """What it ran with although it was not as frozen; foreign text (names of files)."""
    superseded_attempts: int
    superseded_outcomes: int
    superseded_records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One check of one server; all of it is shown only when it did not pass."""

    url: str
    name: str
    result: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerChange:
    """A server got no new episodes any more, or got them again."""

    segment: int
    url: str
    event: str
    """``given up`` or ``taken back``."""
    cause: str | None
    """Cause of the failure that it was given up for; None when it was taken back."""
    detail: str
    """That failure's message; foreign text."""
    happened: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """One checkpoint that counts."""

    step: int
    path: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixTask:
    """One task in every evaluation of its split."""

    task: str
    category: str
    cells: tuple[str | None, ...]
    """``3 of 4``: successes of scheduled, with infra errors and missing episodes named; None where it was not scheduled."""
    solved: tuple[bool | None, ...]
    """Whether all of its episodes were successes; None where it was not scheduled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """Tasks of one split by the evaluations that they were in."""

    split: str
    evaluations: tuple[str, ...]
    """``eval_after, step 330``."""
    tasks: tuple[MatrixTask, ...]
    of: int
    """Tasks of the split that were scheduled; more than ``tasks`` where that is cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How far a run is."""

    finished: bool
    missing: tuple[str, ...]
    """What is not there, in sentences; empty when nothing is. Of a run that finished, episodes without an outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One rule of reward, success or stopping, as it was frozen."""

    about: str
    """``reward and success`` or ``stopping``."""
    key: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PastDecision:
    """What a gate decided about the run."""

    gate: str
    gate_digest: str
    baseline: str | None
    passed: bool
    decided: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointer:
    """A command, a file or a query by which a number can be followed or made again."""

    what: str
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything."""

    header: Header
    standing: Standing
    findings: tuple[Finding, ...]
    """What every rule of the diagnosis says."""
    settings: tuple[Setting, ...]
    overlaps: tuple[str, ...]
    """Tasks that evaluation and training share although they should not, in sentences: what the recipe allows, and what others reported."""
    warnings: tuple[str, ...]
    """What else was said when the run was frozen."""
    comparisons: tuple[Comparison, ...]
    parts: tuple[Part, ...]
    averages: tuple[SplitAverages, ...]
    """For evaluations of several splits."""
    stages: tuple[StageAccount, ...]
    spending: Spending
    latencies: tuple[Latency, ...]
    conditions: Conditions
    """What another run has to share to be compared with this one."""
    papers: tuple[PaperRow, ...]
    learning: Learning
    matrices: tuple[Matrix, ...]
    segments: tuple[Segment, ...]
    probes: tuple[Probe, ...]
    servers: tuple[ServerChange, ...]
    """In order; empty where every server answered."""
    checkpoints: tuple[Checkpoint, ...]
    gates: tuple[PastDecision, ...]
    reproduce: tuple[Pointer, ...]
    schema: int = SCHEMA
