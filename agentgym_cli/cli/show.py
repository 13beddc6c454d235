"""Results on stdout: tables for people, JSON for machines. Knows the verbs' answers and no more."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.markup import escape

from agentgym_cli.cli.live import StderrProgress, stderr_progress
from agentgym_cli.errors import Degraded, StoreError
from agentgym_cli.recipe.canonical import printed_json
from agentgym_cli.report.text import for_terminal

if TYPE_CHECKING:
    from agentgym_cli.report.model import Report
    from agentgym_cli.store.digest import ResultsDigest
    from agentgym_cli.store.rebuild import Rebuilt
    from agentgym_cli.verbs.request import Request
    from agentgym_cli.verbs.segment import Finished

_LONGEST_NAME = 255
"""Of a run: it is that of a folder."""
_BLANKS = re.compile(r"[ \t]+(?=\n)")


def stdout_console() -> Console:
    """The console of results; 80 columns wide when it is not a terminal, so that piped output is the same everywhere."""
    if sys.stdout.isatty():
        return Console(file=sys.stdout, highlight=False)
    return Console(file=_Trimmed(sys.stdout), width=80, highlight=False)


class _Trimmed(io.StringIO):
    """Passes text on without blanks at the ends of lines, which rows of a table are filled up with."""

    def __init__(self, file: TextIO) -> None:
        super().__init__()
        self._file = file

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """Of the file behind."""
        return self._file.encoding

    def write(self, text: str) -> int:
        """Whole lines, as a console writes them."""
        return self._file.write(_BLANKS.sub("", text))

    def flush(self) -> None:
        """Hand on what is buffered."""
        self._file.flush()


def print_json(value: object) -> None:
    """One JSON document with sorted keys."""
    sys.stdout.write(printed_json(value, indent=2) + "\n")


def run_and_report(verb: Callable[[Request, StderrProgress], Finished], request: Request, *, as_json: bool) -> None:
    """Run ``train`` or ``eval`` and print the report of its run.

    Raises:
        StoreError: the run is kept, but its store cannot be loaded or read.
        Degraded: its infra share is too large and that is not allowed.
    """
    from agentgym_cli.cli.show_report import show_answer

    progress = stderr_progress()
    finished = verb(request, progress)
    report = report_of(finished)
    if isinstance(report, StoreError):
        _show_unloaded(finished, report, as_json=as_json)
    else:
        show_answer(report, form="json" if as_json else "terminal")
    if finished.degraded is not None:
        if not isinstance(report, StoreError) and not request.allow_degraded:
            raise Degraded(finished.degraded, "look at the causes in the report; --allow-degraded accepts the run as it is")
        progress.warn(finished.degraded)
    if isinstance(report, StoreError):
        raise report


def report_of(finished: Finished) -> Report | StoreError:
    """The report of a run that has ended, or why there is none now."""
    from agentgym_cli.verbs.report import report_on

    if finished.store_trouble is not None:
        return finished.unloaded(finished.store_trouble)
    try:
        return report_on(finished.prepared.name, finished.prepared.database)
    except StoreError as trouble:
        return finished.unloaded(trouble)


def _show_unloaded(finished: Finished, trouble: StoreError, *, as_json: bool) -> None:
    """For machines, where the run is and what is the matter; people read the error."""
    if as_json:
        run = finished.prepared
        print_json({"run": run.name, "folder": str(run.folder), "report": None, "problem": trouble.message, "next": trouble.hint})


def show_rebuilt(made: Rebuilt, *, as_json: bool) -> None:
    """Print what a rebuild loaded, run by run; on stderr, where a store is that could not be opened."""
    if made.set_aside is not None:
        stderr_progress().warn(f"the old store could not be opened and is now {made.set_aside}; what gates decided in it is not in the new one")
    values = [{"run": r.run, "records": r.records, "torn": r.torn} for r in made.runs]
    if as_json:
        print_json(values)
        return
    for value in values:
        name = escape(for_terminal(str(value["run"]), limit=_LONGEST_NAME))
        stdout_console().print(f"{name}: {value['records']} records, {value['torn']} torn lines left out", soft_wrap=True)


def show_digest(run: str, digest: ResultsDigest, *, as_json: bool) -> None:
    """Print the digest of a run's results and of each part."""
    parts = {name: getattr(digest, name) for name in ("scheduled", "attempts", "turns", "tokens", "outcomes", "metrics")}
    if as_json:
        print_json({"run": run, "digest": digest.whole, "rows": digest.rows, "parts": parts})
        return
    console = stdout_console()
    for name, value in parts.items():
        console.print(f"{name:<10}{value}", soft_wrap=True)
    console.print(f"{'results':<10}{digest.whole}", soft_wrap=True)
