"""Reports, comparisons, decisions of gates and tables of episodes: on stdout or in a file, in the form that was asked for."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from agentgym_cli.cli.show import stdout_console
from agentgym_cli.errors import GateFailed, RecipeError

if TYPE_CHECKING:
    from agentgym_cli.report.blocks import Section
    from agentgym_cli.report.model import Report
    from agentgym_cli.verbs.report import Answer

_FILE_WIDTH = 80


def show_answer(answer: Answer, *, form: str, output: Path | None = None) -> None:
    """Print or write an answer in its form.

    Raises:
        RecipeError: the file cannot be written.
        GateFailed: the answer is a decision, and a rule is not met.
    """
    from agentgym_cli.report.gate import Decision

    if form == "terminal" and output is None:
        _print(answer, stdout_console())
    elif form == "terminal":
        stream = StringIO()
        _print(answer, Console(file=stream, width=_FILE_WIDTH, highlight=False))
        _write(stream.getvalue(), output)
    else:
        _write(_text(answer, form), output)
    if isinstance(answer, Decision) and not answer.passed:
        failed = ", ".join(check.rule for check in answer.checks if not check.passed)
        raise GateFailed(f"{answer.gate}: expected every rule to be met by {answer.run}, got not met: {failed}", f"agentgym report {answer.run}")


def _write(text: str, output: Path | None) -> None:
    if output is None:
        sys.stdout.write(text)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as err:
        raise RecipeError(f"{output}: cannot be written: {err.strerror or err}", "name another file with -o") from err


def _print(answer: Answer, console: Console) -> None:
    from agentgym_cli.report.terminal import print_report, print_sections

    report = _report(answer)
    if report is not None:
        print_report(report, console)
    else:
        title, sections = _sections(answer)
        print_sections(title, sections, console)


def _text(answer: Answer, form: str) -> str:
    """An answer as Markdown, JSON, HTML or CSV."""
    from agentgym_cli.report.csv_episodes import to_csv
    from agentgym_cli.report.html import page
    from agentgym_cli.report.html_report import report_page
    from agentgym_cli.report.jsonout import to_json
    from agentgym_cli.report.markdown import render, render_sections
    from agentgym_cli.verbs.report import EpisodeTable

    if isinstance(answer, EpisodeTable):
        return to_csv(answer.columns, answer.rows)
    report = _report(answer)
    if form == "json":
        return to_json(answer) + "\n"
    if form == "html":
        return report_page(report) if report is not None else page(_sections(answer)[0], list(_sections(answer)[1]))
    return render(report) if report is not None else render_sections(*_sections(answer))


def _report(answer: Answer) -> Report | None:
    from agentgym_cli.report.model import Report

    return answer if isinstance(answer, Report) else None


def _sections(answer: Answer) -> tuple[str, Iterable[Section]]:
    """Title and sections of a comparison or a decision."""
    from agentgym_cli.report.compare import Comparisons
    from agentgym_cli.report.compared import compared
    from agentgym_cli.report.compared import title as comparison_title
    from agentgym_cli.report.gate import Decision, decided
    from agentgym_cli.report.gate import title as decision_title

    if isinstance(answer, Decision):
        return decision_title(answer), decided(answer)
    assert isinstance(answer, Comparisons)
    return comparison_title(answer), compared(answer)
