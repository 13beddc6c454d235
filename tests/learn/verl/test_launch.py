"""A launch is watched: what stands still is named, what failed is understood, and nothing that it started stays behind."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from agentgym_cli.errors import Interrupted, TrainerError
from agentgym_cli.learn.verl import launch
from agentgym_cli.learn.verl.launch import MARK, Watch, end_all, failure_of, host_bytes, processes_of, run_verl

NOTHING = "import time; time.sleep(600)"


def left_running(mark: str, before: str = "") -> subprocess.Popen[bytes]:
    """A process with a launch's mark that does nothing, once it is there."""
    made = subprocess.Popen([sys.executable, "-c", f"{before}print(flush=True); {NOTHING}"], env={MARK: mark}, stdout=subprocess.PIPE)
    assert made.stdout is not None
    made.stdout.readline()
    made.stdout.close()
    return made


def test_a_phase_may_take_ten_minutes_or_five_times_what_it_took() -> None:
    watch = Watch(now=0.0)
    watch.mark("update", 1, 10.0)
    assert watch.bound() == 600.0
    assert (watch.stalled(610.0), watch.stalled(610.5) is None) == (None, False)
    # 20 updates of 1 to 20 minutes: the 95th percentile of them is 19 minutes, the 19th of 20.
    now = 10.0
    for minutes in range(1, 21):
        now += 60.0 * minutes
        watch.mark("rest", minutes, now)
        watch.mark("update", minutes + 1, now)
    assert watch.bound() == 5 * 19 * 60.0
    assert watch.stalled(now + 5701.0) == "phase 'update' of step 21: expected it to go on within 5700 s, got no sign for 5701 s"


def test_episodes_may_wait_for_their_world_as_long_as_the_recipe_says() -> None:
    watch = Watch(now=0.0, recovery=1200.0)
    watch.mark("update", 1, 0.0)
    assert watch.bound() == 600.0
    for phase in ("episodes", "evaluation"):
        watch.mark(phase, 1, 0.0)
        assert watch.bound() == 2400.0


def test_episodes_that_keep_ending_are_a_sign_of_life() -> None:
    watch = Watch(now=0.0)
    watch.mark("episodes", 3, 0.0)
    watch.moved(599.0)
    assert watch.stalled(1199.0) is None
    assert watch.stalled(1199.5) is not None


@pytest.mark.parametrize(
    ("said", "message", "hint"),
    [
        (
            "(WorkerDict pid=7) torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
            "to fit in memory, got OutOfMemoryError",
            "gpu_memory_utilization",
        ),
        (
            "[rank1]: Traceback (most recent call last):\n[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n"
            "E1130 api.py:882] failed (exitcode: 1)\ntorch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n===\n",
            "to fit in memory, got OutOfMemoryError: CUDA out of memory",
            "gpu_memory_utilization",
        ),
        ("Traceback:\n  x\nValueError: bad shape\nmore words", "exit status 0, got 1 in phase 'update' of step 3: ValueError: bad shape", "log"),
        ("something odd\n", "exit status 0, got 1 in phase 'update' of step 3: something odd", "log"),
        ("", "exit status 0, got 1 in phase 'update' of step 3: nothing", "log"),
    ],
)
def test_what_verl_said_last_is_the_reason(tmp_path: Path, said: str, message: str, hint: str) -> None:
    log = tmp_path / "verl.log"
    log.write_text(said)
    failure = failure_of(log, 1, memory=launch.MEMORY_HINT, during="phase 'update' of step 3")
    assert message in failure.message
    assert failure.hint is not None and hint in failure.hint


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="this system has no /proc")
async def test_only_processes_with_the_mark_are_ended() -> None:
    ours = [left_running("m1") for _ in range(2)]
    stubborn = left_running("m1", "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); ")
    other = left_running("m2")
    try:
        assert sorted(processes_of("m1")) == sorted(each.pid for each in (*ours, stubborn))
        await end_all("m1", patience=0.3)
        assert [each.wait(timeout=10) for each in (*ours, stubborn)] == [-15, -15, -9]
        assert other.poll() is None
    finally:
        for each in (*ours, stubborn, other):
            each.kill()
            each.wait()


def stand_in(monkeypatch: pytest.MonkeyPatch, folder: Path, code: str) -> None:
    """A module in the place of verl's, so that no verl is needed."""
    (folder / "stand_in_for_verl.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setattr(launch, "MODULE", "stand_in_for_verl")
    monkeypatch.setattr(launch, "GRACE_SECONDS", 1.0)


async def run(folder: Path, watch: Watch) -> None:
    await run_verl(["a=b"], folder=folder, variables={"TOLD": "yes"}, log=folder / "log", watch=watch, weigh=lambda mark: len(mark))


async def test_a_launch_ends_well_and_its_output_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in(monkeypatch, tmp_path, "import os, sys; print(sys.argv[1:], os.environ['TOLD'], os.getcwd())")
    await run(tmp_path, Watch(now=asyncio.get_running_loop().time()))
    assert (tmp_path / "log").read_text() == f"['a=b'] yes {tmp_path}\n"


async def test_a_launch_is_weighed_from_its_start_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in(monkeypatch, tmp_path, "import time; time.sleep(0.3)")
    watch = Watch(now=asyncio.get_running_loop().time())
    await run(tmp_path, watch)
    assert watch.peak_bytes == len((tmp_path / "launch").read_text()) > 0


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="this system has no /proc")
async def test_the_memory_of_a_launch_is_that_of_all_its_processes() -> None:
    held = "kept = bytearray(64 << 20); "
    ours = [left_running("w1", held) for _ in range(2)]
    other = left_running("w2", held)
    try:
        for _ in range(100):
            if host_bytes("w1") > 128 << 20:
                break
            await asyncio.sleep(0.05)
        assert 128 << 20 < host_bytes("w1") < 192 << 20
        assert host_bytes("nobody") == 0
    finally:
        for each in (*ours, other):
            each.kill()
            each.wait()


SLOW = "import os, sys; open('tries', 'a').write('x'); tries = len(open('tries').read())\n"


async def test_a_ray_that_does_not_start_in_its_time_is_started_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said = "raise Exception('The current node timed out during startup. This could happen because')"
    stand_in(monkeypatch, tmp_path, f"{SLOW}if tries < 3:\n    {said}\n")
    await run(tmp_path, Watch(now=asyncio.get_running_loop().time()))
    assert (tmp_path / "tries").read_text() == "xxx"


async def test_a_ray_that_never_starts_in_its_time_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in(monkeypatch, tmp_path, f"{SLOW}raise Exception('The current node timed out during startup')")
    with pytest.raises(TrainerError, match=r"got 1 in .*: Exception: The current node timed out during startup"):
        await run(tmp_path, Watch(now=asyncio.get_running_loop().time()))
    assert (tmp_path / "tries").read_text() == "xxx"


async def test_another_failure_of_a_start_is_final(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "log").write_text("The current node timed out during startup")
    stand_in(monkeypatch, tmp_path, f"{SLOW}raise RuntimeError('no actor')")
    with pytest.raises(TrainerError, match="no actor"):
        await run(tmp_path, Watch(now=asyncio.get_running_loop().time()))
    assert (tmp_path / "tries").read_text() == "x"


async def test_a_launch_that_fails_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in(monkeypatch, tmp_path, "raise RuntimeError('no actor')")
    with pytest.raises(TrainerError, match="got 1 in phase 'start' of step 0: RuntimeError: no actor"):
        await run(tmp_path, Watch(now=asyncio.get_running_loop().time()))


async def test_a_phase_that_stands_still_ends_the_launch_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in(monkeypatch, tmp_path, NOTHING)
    monkeypatch.setattr(launch, "LEAST_SECONDS", 0.4)
    watch = Watch(now=0.0)
    watch.mark("weights to servers", 7, asyncio.get_running_loop().time())
    with pytest.raises(TrainerError, match="phase 'weights to servers' of step 7: expected it to go on"):
        await run(tmp_path, watch)


async def test_a_word_from_a_launch_that_is_being_ended_does_not_hide_what_stood_still(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in(monkeypatch, tmp_path, NOTHING)
    monkeypatch.setattr(launch, "LEAST_SECONDS", 0.4)
    watch = Watch(now=0.0)
    watch.mark("update", 7, asyncio.get_running_loop().time())
    ending = launch.end_all

    async def ended(mark: str, *, patience: float) -> None:
        watch.mark("weights to servers", 7, asyncio.get_running_loop().time())
        await ending(mark, patience=patience)

    monkeypatch.setattr(launch, "end_all", ended)
    with pytest.raises(TrainerError, match="phase 'update' of step 7: expected it to go on"):
        await run(tmp_path, watch)


async def test_what_a_worker_ends_the_run_with_is_what_is_raised(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in(monkeypatch, tmp_path, NOTHING)
    watch = Watch(now=asyncio.get_running_loop().time())
    watch.stop = Interrupted("the world is gone")
    with pytest.raises(Interrupted, match="the world is gone"):
        await run(tmp_path, watch)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="this system has no /proc")
async def test_what_a_killed_launcher_left_is_ended_by_the_next_launch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in(monkeypatch, tmp_path, "pass")
    left = left_running("before")
    (tmp_path / "launch").write_text("before")
    try:
        await run(tmp_path, Watch(now=asyncio.get_running_loop().time()))
        assert left.wait(timeout=10) == -15
        assert (tmp_path / "launch").read_text() != "before"
    finally:
        left.kill()
        left.wait()


def test_a_process_ends_with_the_launcher_that_started_it() -> None:
    # The launcher is a process of its own, killed without a chance to clean up.
    child = "import os, time; from agentgym_cli.learn.verl import plugin; plugin.end_with(os.getppid()); print('there', flush=True); time.sleep(600)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True) as launcher:
        assert launcher.stdout is not None and launcher.stdout.readline() == "there\n"
        launcher.kill()
        # The pipe is the child's too: it ends when the child has.
        assert launcher.stdout.read() == ""


def test_a_test_bounds_one_phase_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(launch.BOUND, "weights to servers=5")
    watch = Watch(now=0.0, tested=launch.tested_bounds())
    watch.mark("weights to servers", 2, 10.0)
    assert watch.stalled(15.0) is None
    assert watch.stalled(16.0) == "phase 'weights to servers' of step 2: expected it to go on within 5 s, got no sign for 6 s"
    watch.mark("checkpoint", 2, 16.0)
    assert watch.bound() == 600.0
    monkeypatch.delenv(launch.BOUND)
    assert launch.tested_bounds() == {}
