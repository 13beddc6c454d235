"""A server of a model as a process: started, waited for, watched, ended with all that it started."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from agentgym_cli.errors import PolicyError
from agentgym_cli.learn.verl import model_server as servers
from agentgym_cli.learn.verl.launch import MARK, MARK_FILE, processes_of
from agentgym_cli.learn.verl.model_server import ModelServer, Serving, model_server
from agentgym_cli.learn.verl.output import last_words
from agentgym_cli.learn.verl.plugin import LAUNCHER

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="this system has no /proc")
STAND_IN = "tests.learn.verl.stand_in_server"
ROOT = Path(__file__).parents[3]
SERVING = Serving(model=Path("/models/m"), dtype="float32", context=64, slots=4, tensor_parallel=1, copies=1, seed=9, on_cpu=True)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr(servers, "MODULE", STAND_IN)
    monkeypatch.setattr(servers, "GRACE_SECONDS", 1.0)
    monkeypatch.setattr(servers, "LOOK_SECONDS", 0.05)


def module(folder: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """A module of that code in the stand-in's place."""
    (folder / "in_its_place.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", f"{folder}:{ROOT}")
    monkeypatch.setattr(servers, "MODULE", "in_its_place")


def started(folder: Path, *, seconds: float = 20.0) -> AbstractAsyncContextManager[ModelServer]:
    return model_server(SERVING, folder=folder, variables={}, log=folder / "log", start_seconds=seconds)


NOTHING = "import time; time.sleep(600)"


def left_running(mark: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", NOTHING], env={**os.environ, MARK: mark})


def left(folder: Path) -> list[int]:
    return processes_of((folder / MARK_FILE).read_text())


def test_what_vllm_is_told_on_a_cpu_and_on_gpus() -> None:
    told = SERVING.words(port=5, name="n")
    assert told[:8] == ["--model", "/models/m", "--host", "127.0.0.1", "--port", "5", "--served-model-name", "n"]
    pairs = dict(zip(told[0:-2:2], told[1:-2:2], strict=True))
    assert pairs["--max-model-len"] == "64" and pairs["--max-num-seqs"] == "4" and pairs["--dtype"] == "float32" and pairs["--seed"] == "9"
    assert pairs["--logprobs-mode"] == "processed_logprobs" and pairs["--generation-config"] == "vllm"
    assert told[-2:] == ["--enforce-eager", "--disable-uvicorn-access-log"]
    gpus = Serving(model=Path("/m"), dtype="bfloat16", context=64, slots=4, tensor_parallel=2, copies=4, seed=9, on_cpu=False)
    pairs = dict(zip(gpus.words(port=5, name="n")[0:-1:2], gpus.words(port=5, name="n")[1:-1:2], strict=True))
    assert (pairs["--tensor-parallel-size"], pairs["--data-parallel-size"], pairs["--gpu-memory-utilization"]) == ("2", "4", "0.9")


@pytest.mark.slow
async def test_a_server_answers_while_the_block_runs_and_is_gone_behind_it(tmp_path: Path) -> None:
    async with started(tmp_path) as server:
        assert (server.version, left(tmp_path)) == ("0.0.1", [server.process.pid])
        assert f"--served-model-name {server.model} --dtype float32" in (tmp_path / "log").read_text()
    assert left(tmp_path) == [] and server.process.returncode is not None


@pytest.mark.slow
async def test_a_block_that_fails_or_is_cancelled_leaves_no_process(tmp_path: Path) -> None:
    async def hold() -> None:
        async with started(tmp_path):
            ready.set()
            await asyncio.sleep(600)

    with pytest.raises(ValueError, match="mine"):
        async with started(tmp_path):
            raise ValueError("mine")
    ready = asyncio.Event()
    task = asyncio.ensure_future(hold())
    await ready.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert left(tmp_path) == []


@pytest.mark.slow
async def test_a_start_that_is_cancelled_leaves_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module(tmp_path, monkeypatch, "import time; print('loading', flush=True); time.sleep(600)")

    async def start() -> None:
        async with started(tmp_path):
            raise AssertionError("it answers nothing")

    task = asyncio.ensure_future(start())
    await asyncio.sleep(0.3)
    assert len(left(tmp_path)) == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert left(tmp_path) == []


ROOT_CAUSE = """\
(EngineCore pid=7) ERROR 11-30 14:57:23 [core.py:1209] Traceback (most recent call last):
(EngineCore pid=7) ERROR 11-30 14:57:23 [core.py:1209] KeyError: 'layers.0.mlp'
(EngineCore pid=7) ERROR 11-30 14:57:23 [core.py:1209] Exception: WorkerProc initialization failed due to an exception in a background process.
(APIServer pid=6) Traceback (most recent call last):
(APIServer pid=6) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""


@pytest.mark.slow
async def test_a_server_that_ends_at_its_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module(tmp_path, monkeypatch, f"import sys; print({ROOT_CAUSE!r}); sys.exit(3)")
    with pytest.raises(PolicyError, match=r"got exit status 3: KeyError: 'layers\.0\.mlp'") as raised:
        async with started(tmp_path):
            raise AssertionError("it ended")
    assert raised.value.hint == f"{tmp_path / 'log'} has all that it said"


@pytest.mark.parametrize(
    "said",
    [
        "ValueError: Free memory on device cuda:0 (3.1/79.1 GiB) on startup is less than desired GPU memory utilization (0.9, 71.2 GiB).",
        "ValueError: To serve at least one request (4.0 GiB KV cache is needed, which is larger than the available KV cache memory",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
    ],
)
def test_too_little_memory_is_answered_with_what_to_change(tmp_path: Path, said: str) -> None:
    (tmp_path / "log").write_text(f"(EngineCore pid=7) ERROR 11-30 14:57:23 [core.py:1209] {said}\n")
    failure = servers.ended(tmp_path / "log", 1)
    assert failure.message.startswith("vLLM: expected the model to fit in memory, got ")
    assert failure.hint is not None and "cluster.tensor_parallel" in failure.hint


@pytest.mark.slow
async def test_a_server_that_says_nothing_in_time_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module(tmp_path, monkeypatch, "import time; print('compiling', flush=True); time.sleep(600)")
    with pytest.raises(PolicyError, match="that answers, got none in time; the last that it said: compiling"):
        async with started(tmp_path, seconds=1.5):
            raise AssertionError("it answers nothing")
    assert left(tmp_path) == []


@pytest.mark.slow
async def test_a_port_that_others_take_first_is_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ports = [taken.getsockname()[1], servers._free_port()]
        monkeypatch.setattr(servers, "_free_port", lambda: ports.pop(0))
        async with started(tmp_path) as server:
            assert ports == [] and server.process.returncode is None
    assert "Address already in use" in (tmp_path / "log").read_text()


@pytest.mark.slow
async def test_two_servers_at_once_are_two_ports_and_only_their_own_are_ended(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    async with started(tmp_path / "a") as first:
        async with started(tmp_path / "b") as second:
            assert first.url != second.url and first.model != second.model
        assert (first.process.returncode, left(tmp_path / "b")) == (None, [])


@pytest.mark.slow
async def test_what_a_server_started_itself_ends_with_it_and_what_a_killed_launcher_left_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = f"subprocess.Popen([sys.executable, '-c', {NOTHING!r}])"
    code = f"import subprocess, sys, runpy; {child}; runpy.run_module({STAND_IN!r}, run_name='__main__')"
    old = left_running("before")
    (tmp_path / MARK_FILE).write_text("before")
    try:
        module(tmp_path, monkeypatch, code)
        async with started(tmp_path):
            assert old.wait(timeout=10) == -signal.SIGTERM
            assert len(left(tmp_path)) == 2
        assert left(tmp_path) == []
    finally:
        old.kill()
        old.wait()


@pytest.mark.slow
async def test_the_end_of_a_server_is_heard(tmp_path: Path) -> None:
    async with started(tmp_path) as server:
        watch = asyncio.ensure_future(server.watch())
        os.kill(server.process.pid, signal.SIGKILL)
        with pytest.raises(PolicyError, match="expected a server until the end, got exit status -9"):
            await asyncio.wait_for(watch, 10)


def test_the_last_error_is_the_reason_and_not_what_repeats_it(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(ROOT_CAUSE)
    assert last_words(tmp_path / "log").words == "KeyError: 'layers.0.mlp'"


@pytest.mark.slow
def test_vllms_server_gets_our_words_and_ends_with_a_launcher_that_is_killed(tmp_path: Path) -> None:
    place = tmp_path / "vllm" / "entrypoints" / "openai"
    place.mkdir(parents=True)
    (place / "api_server.py").write_text(f"import sys\nif __name__ == '__main__':\n    print(*sys.argv[1:], flush=True)\n    {NOTHING}\n")
    child = "[sys.executable, '-m', 'agentgym_cli.learn.verl.serve', '--model', 'm']"
    parent = f"import os, subprocess, sys; subprocess.run({child}, env={{**os.environ, {LAUNCHER!r}: str(os.getpid())}})"
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True, env=environment) as launcher:
        assert launcher.stdout is not None and launcher.stdout.readline() == "--model m\n"
        launcher.kill()
        # The pipe is the server's too: it ends when that has.
        assert launcher.stdout.read() == ""
