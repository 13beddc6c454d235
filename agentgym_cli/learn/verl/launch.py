"""verl as a process: started, watched, and ended with all that it started. Knows no recipe and no record; imports no verl."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from agentgym_cli.errors import AgentgymError, TrainerError
from agentgym_cli.learn.verl.output import last_words
from agentgym_cli.learn.verl.plugin import LAUNCHER
from agentgym_cli.recipe.resolve import whole_environment

MODULE = "verl.trainer.main_ppo"
MEMORY_HINT = (
    "lower actor_rollout_ref.rollout.gpu_memory_utilization or raise cluster.tensor_parallel (sampling), "
    "lower actor_rollout_ref.actor.ppo_max_token_len_per_gpu (training); agentgym capacity RECIPE shows what each needs"
)
MARK = "AGENTGYM_LAUNCH"
"""Variable that every process of one launch has, with the launch's own value: what has it is ours to end, and nothing else is."""
MARK_FILE = "launch"
"""In the working folder: the value of the last launch."""
START_SECONDS = 1800.0
"""For which verl may take to load models and servers before the first phase of a step."""
RAY_STARTS = 3
"""Tries of a start of Ray: each of its nodes has 30 s for it, whatever else a busy machine does."""
_RAY_SLOW = b"The current node timed out during startup"
LEAST_SECONDS = 600.0
TIMES_P95 = 5.0
GRACE_SECONDS = 20.0
LOOK_SECONDS = 0.25
WEIGH_SECONDS = 10.0
START = "start"
BOUND = "AGENTGYM_TEST_BOUND"
"""Variable ``PHASE=SECONDS``: another bound of one phase, for tests of what happens behind it."""
PLAYED = ("episodes", "evaluation")
"""Phases in which episodes may wait for their world."""
Weigh = Callable[[str], int]
"""Bytes of memory that a launch takes, by its mark."""


@dataclass(slots=True)
class Watch:
    """The phases that a run has been through, and how long each may take: the larger of ten minutes and five times the 95th percentile so far."""

    now: float
    phase: str = START
    step: int = 0
    seconds: dict[str, list[float]] = field(default_factory=dict)
    """Durations of each phase that is over."""
    stop: AgentgymError | None = None
    """Why the run is to be ended, once a worker said so."""
    recovery: float = 0.0
    """Seconds for which episodes wait while their world is down; a worker says so when they are over."""
    peak_bytes: int = 0
    """The most memory that was found taken so far."""
    tested: Mapping[str, float] = field(default_factory=dict)
    """Bounds of phases in a test."""

    def mark(self, phase: str, step: int, now: float) -> None:
        """A phase begins, and the one before it is over."""
        self.seconds.setdefault(self.phase, []).append(now - self.now)
        self.phase, self.step, self.now = phase, step, now

    def moved(self, now: float) -> None:
        """Something of the present phase is done: episodes may take as long as they keep ending."""
        self.now = now

    def bound(self) -> float:
        """Most seconds that the present phase may go without a word."""
        if self.phase in self.tested:
            return self.tested[self.phase]
        if self.phase == START:
            return START_SECONDS
        known = sorted(self.seconds.get(self.phase, ()))
        p95 = known[math.ceil(0.95 * len(known)) - 1] if known else 0.0
        return max(LEAST_SECONDS, TIMES_P95 * p95, 2 * self.recovery if self.phase in PLAYED else 0.0)

    def stalled(self, now: float) -> str | None:
        """What stands still, in a sentence; None while nothing does."""
        if now - self.now <= self.bound():
            return None
        return f"{self.where()}: expected it to go on within {self.bound():.0f} s, got no sign for {now - self.now:.0f} s"

    def where(self) -> str:
        """The present phase, for a sentence."""
        return f"phase {self.phase!r} of step {self.step}"


def tested_bounds() -> dict[str, float]:
    """What a test says in ``BOUND``; nothing else says any."""
    phase, _, seconds = whole_environment().get(BOUND, "").partition("=")
    return {phase: float(seconds)} if seconds else {}


def new_mark() -> str:
    """A value of ``MARK`` that no other launch has."""
    return uuid4().hex


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What is started: one of verl's trainers."""

    words: tuple[str, ...]
    """Of the command line, between the interpreter and what the trainer is told."""
    memory: str
    """What to do where it does not fit in memory."""


async def run_verl(
    arguments: Sequence[str],
    *,
    folder: Path,
    variables: Mapping[str, str],
    log: Path,
    watch: Watch,
    weigh: Weigh,
    program: Program | None = None,
) -> None:
    """Run verl to its end; whatever happens, none of its processes is left behind.

    Args:
        folder: working folder of the processes.
        variables: set beside the environment of this process; the launch's own mark, where it is among them, is one that no other launch has.
        log: gets all output.
        weigh: how much memory is taken, asked now and then.
        program: None is the trainer that reinforces.

    Raises:
        TrainerError: verl failed, or a phase stood still.
        AgentgymError: what a worker ended the run with.
    """
    program = program or Program(words=("-m", MODULE), memory=MEMORY_HINT)
    told = {MARK: new_mark(), **variables}
    await end_left_over(folder)
    (folder / MARK_FILE).write_text(told[MARK], encoding="utf-8")
    for left in reversed(range(RAY_STARTS)):
        before = _size(log)
        ended = await _run_once([*program.words, *arguments], folder=folder, told=told, log=log, watch=watch, weigh=weigh)
        if not (left and isinstance(ended, int) and ended and watch.phase == START and _ray_was_slow(log, before)):
            break
    if watch.stop is not None:
        raise watch.stop
    if isinstance(ended, str):
        raise TrainerError(f"verl: {ended}; its processes were ended", f"{log} has what they said; agentgym train RUN --resume goes on")
    if ended:
        raise failure_of(log, ended, memory=program.memory, during=watch.where())


async def _run_once(words: Sequence[str], *, folder: Path, told: Mapping[str, str], log: Path, watch: Watch, weigh: Weigh) -> int | str | None:
    """One try; see ``_until_over`` for what comes back."""
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *words,
            cwd=folder,
            env={**whole_environment(), **told, LAUNCHER: str(os.getpid())},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        weighing = asyncio.ensure_future(_weigh_now_and_then(weigh, told[MARK], watch))
        try:
            return await _until_over(process, watch)
        finally:
            weighing.cancel()
            await end_all(told[MARK], patience=GRACE_SECONDS)
            await process.wait()


def _size(log: Path) -> int:
    return log.stat().st_size if log.exists() else 0


def _ray_was_slow(log: Path, before: int) -> bool:
    """Whether what was said behind ``before`` bytes is that a node of Ray's did not start in its time."""
    with log.open("rb") as file:
        file.seek(before)
        return _RAY_SLOW in file.read()


async def _weigh_now_and_then(weigh: Weigh, mark: str, watch: Watch) -> None:
    while True:
        watch.peak_bytes = max(watch.peak_bytes, await asyncio.to_thread(weigh, mark))
        await asyncio.sleep(WEIGH_SECONDS)


async def _until_over(process: asyncio.subprocess.Process, watch: Watch) -> int | str | None:
    """The exit status; what stands still, in a sentence, where something does; None where a worker ended the run."""
    time = asyncio.get_running_loop().time
    while watch.stop is None:
        if (still := watch.stalled(time())) is not None:
            return still
        try:
            return await asyncio.wait_for(asyncio.shield(process.wait()), timeout=0.5)
        except TimeoutError:
            continue
    return None


def failure_of(log: Path, code: int, *, memory: str, during: str) -> TrainerError:
    """What verl's output says about its end, which came ``during`` a phase."""
    said = last_words(log)
    if said.memory:
        return TrainerError(f"verl: expected {during} to fit in memory, got {said.words}", memory)
    return TrainerError(
        f"verl: expected exit status 0, got {code} in {during}: {said.words}", f"{log} has all that it said; agentgym train RUN --resume goes on"
    )


async def end_left_over(folder: Path) -> None:
    """End what an earlier launch in this folder left, whose launcher was killed before it could."""
    place = folder / MARK_FILE
    if place.exists():
        await end_all(place.read_text(encoding="utf-8"), patience=GRACE_SECONDS)


async def end_all(mark: str, *, patience: float) -> None:
    """End every process of a launch: asked first, killed after ``patience`` seconds. Processes of others are never touched."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in processes_of(mark):
            with suppress(ProcessLookupError):
                os.kill(process, number)
        for _ in range(math.ceil(patience / LOOK_SECONDS)):
            if not processes_of(mark):
                return
            await asyncio.sleep(LOOK_SECONDS)


def processes_of(mark: str) -> list[int]:
    """Processes of this machine that have the launch's mark; none where the system has no /proc."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (place / "environ").read_bytes().split(b"\0") and (place / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
                found.append(int(place.name))
        except OSError:
            continue
    return found


def host_bytes(mark: str) -> int:
    """Memory of this machine that a launch's processes take together: proportional set sizes, in which what several share counts once."""
    return sum(map(_proportional, processes_of(mark)))


def _proportional(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
