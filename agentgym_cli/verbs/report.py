"""``agentgym report`` and ``agentgym store``: what the store says of a run, and the store made again from journals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentgym_cli.errors import RecipeError, StoreError
from agentgym_cli.recipe.wording import listed, shown
from agentgym_cli.report.build import build_comparisons, build_report
from agentgym_cli.report.compare import Comparisons
from agentgym_cli.report.face import AXES
from agentgym_cli.report.gate import Decision
from agentgym_cli.report.model import Report
from agentgym_cli.store.diagnosis_queries import EPISODE_COLUMNS, episodes
from agentgym_cli.store.digest import ResultsDigest, results_digest
from agentgym_cli.store.opening import open_for_reading
from agentgym_cli.store.queries import find_run
from agentgym_cli.store.rebuild import Rebuilt, rebuild
from agentgym_cli.verbs.gate import decide

FORMS = ("terminal", "md", "json", "html", "csv")
MOST_RUNS = 10
"""Runs that one comparison takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportWords:
    """What a person asked to be reported."""

    runs: Sequence[str]
    """One run; more are compared with the first."""
    database: Path
    form: str
    output: Path | None
    """File to write; None for stdout."""
    x: str | None
    """What curves are drawn against; None for steps."""
    gate: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeTable:
    """Every scheduled episode of a run."""

    run: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]


Answer = Report | Decision | EpisodeTable | Comparisons


def report_on(run: str, database: Path, x: str = "steps") -> Report:
    """Build the report of one run; ``x`` is what curves are drawn against. Raises StoreError when there is no such store or run."""
    _refuse_no_store(database)
    return build_report(database, run, x)


def answer(words: ReportWords) -> Answer:
    """A report, a comparison, a gate's decision or a table of episodes.

    Raises:
        RecipeError: words that would be ignored or cannot be meant, a broken gate file.
        StoreError: there is no such store or run, or it is held.
    """
    check_words(words)
    _refuse_no_store(words.database)
    if words.gate is not None:
        return decide(words.runs[0], words.gate, words.database)
    if len(words.runs) > 1:
        return _comparisons(words)
    if words.form == "csv":
        return _episodes(words.runs[0], words.database)
    report = report_on(words.runs[0], words.database, words.x or "steps")
    if words.x not in (None, "steps") and report.learning.axis is None and any(curve.phase == "train" for curve in report.learning.curves):
        raise RecipeError(
            f"--x {words.x}: expected a run that kept it with its attempts, got {report.header.run}", "leave --x out: steps are always kept"
        )
    return report


def check_words(words: ReportWords, *, tokens: bool = False) -> None:
    """Refuse words that would be ignored or cannot be meant. Raises RecipeError."""
    if words.form not in FORMS:
        raise RecipeError(f"--format: expected one of {listed(FORMS)}, got {shown(words.form)}")
    if words.x is not None and words.x not in AXES:
        raise RecipeError(f"--x: expected one of {listed(AXES)}, got {shown(words.x)}")
    if len(words.runs) > MOST_RUNS:
        raise RecipeError(f"report: expected at most {MOST_RUNS} runs, got {len(words.runs)}")
    one = [("--gate", words.gate is not None), ("--format csv", words.form == "csv"), ("--x", words.x is not None), ("--tokens", tokens)]
    used = [name for name, given in one if given]
    if len(words.runs) > 1 and used:
        raise RecipeError(f"report {used[0]}: expected one run with it, got {len(words.runs)}", "agentgym report RUN OTHER compares whole runs")
    if len(used) > 1:
        raise RecipeError(f"report {used[0]}: expected no {used[1]} with it, since one of them would be ignored")
    if tokens and words.output is not None:
        raise RecipeError("report --output: expected no --tokens with it, since one of them would be ignored")
    if words.output is not None:
        _refuse_output(words.output, words)


def _refuse_output(output: Path, words: ReportWords) -> None:
    """A report must not take the place of what it is made from."""
    if output.is_dir():
        raise RecipeError(f"{output}: expected a file to write, got a folder")
    if output.resolve() in {source.resolve() for source in (words.database, words.gate) if source is not None} or output.parent.name == "journal":
        raise RecipeError(f"{output}: expected a file for the report, got what it is made from", "name another file with -o")


def _comparisons(words: ReportWords) -> Comparisons:
    found = build_comparisons(words.database, words.runs[0], words.runs[1:])
    names = [found.comparisons[0].base.run, *(comparison.other.run for comparison in found.comparisons)]
    twice = [name for place, name in enumerate(names) if name in names[:place]]
    if twice:
        raise RecipeError(f"report: expected different runs, got {shown(twice[0])} twice", "agentgym report RUN OTHER")
    return found


def _refuse_no_store(database: Path) -> None:
    if not database.is_file():
        got = "a folder" if database.is_dir() else "no such file"
        raise StoreError(f"{database}: expected a store, got {got}", "name it with --store FILE, or make it: agentgym store rebuild")


def _episodes(run: str, database: Path) -> EpisodeTable:
    with open_for_reading(database) as connection:
        found = find_run(connection, run)
        return EpisodeTable(run=found.run, columns=EPISODE_COLUMNS, rows=list(episodes(connection, found.run)))


def digest_results(run: str, database: Path) -> tuple[str, ResultsDigest]:
    """The run's name and the digest of its results, part by part. Raises StoreError."""
    with open_for_reading(database) as connection:
        found = find_run(connection, run)
        return found.run, results_digest(connection, found.run)


def rebuild_store(runs_dir: Path, database: Path) -> Rebuilt:
    """Make a store again from the journals of all runs in a folder. Raises RecipeError when there is no such folder."""
    if not runs_dir.is_dir():
        raise RecipeError(f"{runs_dir}: expected a folder of runs, got none", "name it with --runs-dir DIR")
    return rebuild(runs_dir, database)
