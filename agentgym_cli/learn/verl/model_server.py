"""A vLLM server of one model folder as a process: started, waited for, watched, ended with all that it started. Imports no vLLM."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from uuid import uuid4

from agentgym_cli.env.caller import HttpCaller
from agentgym_cli.episode.policies.endpoint_call import LlmServer, Refused
from agentgym_cli.episode.policies.endpoint_pace import Gate
from agentgym_cli.episode.policies.failures import PolicyProtocol
from agentgym_cli.episode.policies.protocol import ContextFull
from agentgym_cli.errors import PolicyError
from agentgym_cli.learn.verl.launch import GRACE_SECONDS, MARK, MARK_FILE, end_all, end_left_over
from agentgym_cli.learn.verl.output import last_words
from agentgym_cli.learn.verl.plugin import LAUNCHER
from agentgym_cli.recipe.resolve import whole_environment

MODULE = "agentgym_cli.learn.verl.serve"
"""What is run; takes the arguments of ``vllm serve``."""
START_SECONDS = 1800.0
"""For which a server may take to load its model."""
LOOK_SECONDS = 0.5
ANSWER_SECONDS = 10.0
PORTS = 3
"""Ports that are tried where others take them first."""
GPU_SHARE = 0.9
"""Of each GPU's memory, which nobody else uses in an evaluation."""
_TAKEN = re.compile(r"address already in use", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """What a server is told."""

    model: Path
    """Folder with config, tokenizer and weights."""
    dtype: Literal["float32", "bfloat16"]
    context: int
    """Tokens of prompt and response together."""
    slots: int
    """Most requests that are computed at once."""
    tensor_parallel: int
    """GPUs that share one copy of the model."""
    copies: int
    """Of the model, that share the requests."""
    seed: int
    on_cpu: bool

    def words(self, *, port: int, name: str) -> list[str]:
        """Arguments of ``vllm serve``; ``name`` is what requests call the model."""
        sizes = {
            "dtype": self.dtype,
            "max-model-len": self.context,
            "max-num-seqs": self.slots,
            "tensor-parallel-size": self.tensor_parallel,
            "data-parallel-size": self.copies,
            "seed": self.seed,
            # The distribution that is drawn from; and no temperature, penalty or stop of the folder's generation_config.json.
            "logprobs-mode": "processed_logprobs",
            "generation-config": "vllm",
        }
        place = {"model": self.model, "host": "127.0.0.1", "port": port, "served-model-name": name}
        words = [word for key, value in {**place, **sizes}.items() for word in (f"--{key}", str(value))]
        device = ["--enforce-eager"] if self.on_cpu else ["--gpu-memory-utilization", str(GPU_SHARE)]
        return [*words, *device, "--disable-uvicorn-access-log"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelServer:
    """A server that answers."""

    url: str
    """Base address of its protocol, on loopback."""
    model: str
    """Name of the model in requests."""
    key: str
    """Sent with every request, so that nobody else on the machine is answered."""
    version: str
    """Of vLLM."""
    seconds: float
    """That it took to start."""
    process: asyncio.subprocess.Process
    log: Path

    async def watch(self) -> None:
        """Wait for its end. Raises PolicyError then: nobody asked for it."""
        raise ended(self.log, await self.process.wait())


@asynccontextmanager
async def model_server(
    serving: Serving, *, folder: Path, variables: Mapping[str, str], log: Path, start_seconds: float = START_SECONDS
) -> AsyncIterator[ModelServer]:
    """A server for as long as the block runs; whatever happens, none of its processes is left behind, nor of an earlier one's in ``folder``.

    Args:
        folder: working folder of the processes; nobody else may use it.
        variables: set beside the environment of this process.
        log: gets all output.

    Raises:
        PolicyError: it ended, or gave no answer in time.
    """
    await end_left_over(folder)
    mark = uuid4().hex
    (folder / MARK_FILE).write_text(mark, encoding="utf-8")
    start = _Start(serving, folder, {**variables, MARK: mark, "VLLM_API_KEY": mark}, log)
    try:
        yield await start.answering(mark, start_seconds)
    finally:
        await start.over(patience=GRACE_SECONDS)
        await end_all(mark, patience=GRACE_SECONDS)


class _Start:
    """The start of a server, on another port where somebody takes the first."""

    def __init__(self, serving: Serving, folder: Path, variables: Mapping[str, str], log: Path) -> None:
        self._serving, self._folder, self._log = serving, folder, log
        # Else a process that gives itself a title writes over its environment, in which its mark is.
        self._variables = {**whole_environment(), **variables, LAUNCHER: str(os.getpid()), "SPT_NOENV": "1"}
        self._process: asyncio.subprocess.Process | None = None

    async def answering(self, mark: str, seconds: float) -> ModelServer:
        """The server, once it lists its model. Raises PolicyError."""
        time = asyncio.get_running_loop().time
        began, caller = time(), HttpCaller(headers={"authorization": f"Bearer {mark}"})
        try:
            for left in reversed(range(PORTS)):
                port, size = _free_port(), self._log.stat().st_size if self._log.exists() else 0
                process = await self._started(port, name=mark)
                root = f"http://127.0.0.1:{port}"
                server = LlmServer(caller, f"{root}/v1", gate=Gate(requests_per_minute=None, tokens_per_minute=None, in_flight=None))
                if await self._lists(server, mark, process, until=began + seconds):
                    version = await _version(LlmServer(caller, root, gate=Gate(requests_per_minute=None, tokens_per_minute=None, in_flight=None)))
                    return ModelServer(url=server.url, model=mark, key=mark, version=version, seconds=time() - began, process=process, log=self._log)
                if not left or not _TAKEN.search(_behind(self._log, size)):
                    break
        finally:
            await caller.aclose()
        raise ended(self._log, process.returncode)

    async def over(self, *, patience: float) -> None:
        """Ask the process to end, which ends its own, and kill it after ``patience`` seconds."""
        if (process := self._process) is None:
            return
        for end in (process.terminate, process.kill):
            with suppress(ProcessLookupError):
                end()
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), patience)
                return

    async def _started(self, port: int, *, name: str) -> asyncio.subprocess.Process:
        with self._log.open("ab") as output:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                MODULE,
                *self._serving.words(port=port, name=name),
                cwd=self._folder,
                env=self._variables,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        return self._process

    async def _lists(self, server: LlmServer, name: str, process: asyncio.subprocess.Process, *, until: float) -> bool:
        """Whether it came to list its model; False where it ended first. Raises PolicyError where neither happens in time."""
        time = asyncio.get_running_loop().time
        over, asked = asyncio.ensure_future(process.wait()), None
        try:
            while time() < until:
                asked = asyncio.ensure_future(_has(server, name))
                await asyncio.wait({over, asked}, return_when=asyncio.FIRST_COMPLETED)
                if over.done() or await asked:
                    return not over.done()
                await asyncio.wait({over}, timeout=LOOK_SECONDS)
        finally:
            for each in (over, *filter(None, [asked])):
                each.cancel()
        raise PolicyError(
            f"vLLM: expected a server of {self._serving.model} that answers, got none in time; the last that it said: {last_words(self._log).words}",
            f"{self._log} has all that it said",
        )


async def _has(server: LlmServer, name: str) -> bool:
    """Whether the server lists the model that ours has: another one that took the port does not."""
    try:
        body = await server.once("GET", "/models", seconds=ANSWER_SECONDS)
    except (Refused, ContextFull, PolicyProtocol, PolicyError):
        return False
    data = body.get("data") if isinstance(body, dict) else None
    return isinstance(data, list) and any(isinstance(entry, dict) and entry.get("id") == name for entry in data)


async def _version(root: LlmServer) -> str:
    try:
        body = await root.once("GET", "/version", seconds=ANSWER_SECONDS)
    except (Refused, ContextFull) as err:
        raise PolicyError(f"vLLM: expected its version at {root.url}/version, got {err}") from err
    said = body.get("version") if isinstance(body, dict) else None
    if not isinstance(said, str):
        raise PolicyError(f"vLLM: expected its version at {root.url}/version, got none")
    return said[:100]


def ended(log: Path, code: int | None) -> PolicyError:
    """What a server's end means, by its output."""
    said = last_words(log)
    if said.memory:
        return PolicyError(
            f"vLLM: expected the model to fit in memory, got {said.words}",
            "raise cluster.tensor_parallel, or lower engine.slots or budgets.context_tokens; agentgym capacity RECIPE shows what each needs",
        )
    return PolicyError(f"vLLM: expected a server until the end, got exit status {code}: {said.words}", f"{log} has all that it said")


def _behind(log: Path, size: int) -> str:
    with log.open("rb") as file:
        file.seek(size)
        return file.read().decode(errors="replace")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port
