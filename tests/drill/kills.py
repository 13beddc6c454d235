"""The kill drill: runs are killed again and again at drawn moments, resumed each time, and compared with an uninterrupted run."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentgym_cli.store.journal import read_journal, segment_files
from agentgym_cli.store.records import AttemptRecord, OutcomeRecord, ScheduledRecord
from tests.e2e.commands import TIMEOUT_SECONDS, environment, run

_TIMED = ("seconds", "created", "ended", "per_success", "latency")
"""Keys of a report that hold times."""
_OF_TIMES = ("slow world", "stalls")
"""Findings of a report that come from times."""
SCRIPT = Path(__file__).with_name("killed.py")
ROOT = SCRIPT.parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A kind of moment."""

    name: str
    most: int
    """The process is killed at its first to ``most``-th passing."""
    seconds: float = 0.0
    """Most seconds after it that the kill comes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drilled:
    """What is drilled."""

    verb: str
    words: tuple[str, ...]
    points: tuple[Point, ...]


@dataclass(slots=True)
class Summary:
    """What a drill did and found."""

    kills: Counter[str] = field(default_factory=Counter)
    unreached: int = 0
    """Segments that ended by themselves before their moment came."""
    runs: int = 0
    """Runs that were killed until they were complete."""
    scheduled: int = 0
    """Episodes scheduled, over all of these runs."""
    cut: int = 0
    """Kills that left work undone; the others came while a complete run was resumed, loaded or closed."""
    torn: int = 0
    """Torn last lines that the kills left."""
    again: int = 0
    """Attempts that were made again because a checkpoint was behind them: kept, superseded, never counted."""

    def table(self) -> str:
        """As Markdown."""
        rows = [f"| {point} | {count} |" for point, count in sorted(self.kills.items())]
        totals = (
            f"{self.kills.total()} kills over {self.runs} runs of {self.scheduled} episodes in all, {self.cut} of them with work left to do; "
            f"{self.torn} torn lines; {self.again} attempts superseded; every run equal to the uninterrupted one"
        )
        return "\n".join(["| killed | times |", "|---|---|", *rows, "", totals])


def drill(drilled: Drilled, folder: Path, *, kills: int, seed: int) -> Summary:
    """Kill, resume and kill again until ``kills`` have happened, then let the last run end; each complete run must equal the reference.

    Raises:
        AssertionError: something was lost, counted twice, or differs.
    """
    generator, summary = random.Random(seed), Summary()
    reference = folder / "reference"
    reference.mkdir()
    ended = run(reference, drilled.verb, *drilled.words, "--json")
    assert ended.code == 0, ended.err
    expected = results(reference)
    while summary.kills.total() < kills:
        place = folder / f"killed-{summary.runs + 1}"
        place.mkdir()
        _until_complete(drilled, place, summary, generator, kills)
        ended_as = results(place)
        assert ended_as == expected, f"{place}: a killed run ended otherwise than an uninterrupted one: {list(differences(expected, ended_as))[:20]}"
        summary.runs += 1
        summary.scheduled += len({record.episode for record in read_journal(_run_folder(place)) if isinstance(record, ScheduledRecord)})
    return summary


def _until_complete(drilled: Drilled, place: Path, summary: Summary, generator: random.Random, kills: int) -> None:
    """One run, killed at drawn moments until there were enough kills or it was complete twice before its moment came."""
    finished = 0
    before: dict[int, bytes] = {}
    while finished < 2 and summary.kills.total() < kills:
        point = generator.choice(drilled.points)
        number, seconds = generator.randint(1, point.most), generator.uniform(0.0, point.seconds)
        died = killed(place, _words(drilled, place), point.name, number, seconds)
        if died:
            summary.kills[point.name] += 1
        else:
            summary.unreached += 1
            finished += 1
        if not (place / "runs").exists():
            continue
        before = _nothing_lost(_run_folder(place), before, drilled.verb)
        summary.cut += died and not _complete(_run_folder(place))
    ended = run(place, *_words(drilled, place))
    assert ended.code == 0, ended.err
    _nothing_lost(_run_folder(place), before, drilled.verb)
    reader = read_journal(_run_folder(place))
    attempts = [(record.episode, record.attempt) for record in reader if isinstance(record, AttemptRecord)]
    summary.torn += reader.torn
    summary.again += len(attempts) - len(set(attempts))


def _words(drilled: Drilled, place: Path) -> Sequence[str]:
    if (place / "runs").exists():
        return (drilled.verb, str(_run_folder(place)), "--resume", "--json")
    return (drilled.verb, *drilled.words, "--json")


def killed(place: Path, words: Sequence[str], point: str, number: int, seconds: float) -> bool:
    """Run to the moment; False when the command ended well before it came."""
    command = [sys.executable, str(SCRIPT), point, str(number), str(seconds), *words]
    variables = environment(PYTHONPATH=f"{ROOT}:{ROOT / 'envs'}")
    ended = subprocess.run(command, cwd=place, env=variables, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    assert ended.returncode in (0, -signal.SIGKILL), f"{point} {number}: {ended.stderr}"
    return ended.returncode != 0


def _run_folder(place: Path) -> Path:
    (found,) = (place / "runs").iterdir()
    return found


def _nothing_lost(folder: Path, before: dict[int, bytes], verb: str) -> dict[int, bytes]:
    """What earlier segments wrote is there to the byte, and no attempt or outcome of an evaluation stands there twice."""
    now = {segment: path.read_bytes() for segment, path in segment_files(folder)}
    for segment, content in before.items():
        assert now[segment] == content, f"segment {segment} of {folder} changed after its end"
    if verb == "eval":
        records = list(read_journal(folder))
        attempts = Counter((r.episode, r.attempt) for r in records if isinstance(r, AttemptRecord))
        outcomes = Counter(r.episode for r in records if isinstance(r, OutcomeRecord))
        assert set(attempts.values()) <= {1} and set(outcomes.values()) <= {1}, f"{folder}: something was done twice"
    return now


def _complete(folder: Path) -> bool:
    """Whether everything that was ever scheduled has an outcome, and something was."""
    records = list(read_journal(folder))
    scheduled = {record.episode for record in records if isinstance(record, ScheduledRecord)}
    return bool(scheduled) and scheduled == {record.episode for record in records if isinstance(record, OutcomeRecord)}


def results(place: Path) -> dict[str, Any]:
    """The digest of a run's results, and its report without what differs between two runs: names, addresses, times, segments, what they cost."""
    name = _run_folder(place).name
    digest, report = run(place, "store", "digest", name, "--json"), run(place, "report", name, "--json")
    assert (digest.code, report.code) == (0, 0), digest.err + report.err
    document = json.loads(report.out.replace(name, "RUN"))
    for part in ("segments", "probes", "servers", "reproduce", "latencies", "spending"):
        document.pop(part, None)
    return {"digest": digest.json["digest"], "report": _without_times(document)}


def differences(one: object, other: object, at: str = "") -> Iterator[str]:
    """Where two documents differ, and in what."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            yield from differences(one.get(key), other.get(key), f"{at}/{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for place, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from differences(left, right, f"{at}/{place}")
    elif one != other:
        yield f"{at}: {one!r:.200} became {other!r:.200}"


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_times(inner) for key, inner in value.items() if key not in _TIMED}
    if isinstance(value, list):
        timed = [entry for entry in value if isinstance(entry, dict) and _of_times(str(entry.get("name", entry.get("rule", ""))))]
        return [_without_times(entry) for entry in value if entry not in timed]
    return value


def _of_times(name: str) -> bool:
    return name.startswith("time/") or name in _OF_TIMES
