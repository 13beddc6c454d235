"""A model folder that plays through a vLLM server, which is started for it and ended with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from agentgym_cli.env.caller import HttpCaller
from agentgym_cli.episode.policies.endpoint_call import LlmServer
from agentgym_cli.episode.policies.endpoint_pace import Gate
from agentgym_cli.episode.policies.served import Drawing, ServedPolicy
from agentgym_cli.episode.policies.token_turns import TokenTurns
from agentgym_cli.episode.types import Task
from agentgym_cli.errors import PolicyError
from agentgym_cli.learn.verl.model_server import ModelServer, Serving, model_server
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.verbs.folders import short
from agentgym_cli.verbs.home import add_observed
from agentgym_cli.verbs.play import Stage
from agentgym_cli.verbs.prepare import Prepared
from agentgym_cli.verbs.progress import Progress
from agentgym_cli.verbs.recorder import Recorder
from agentgym_cli.verbs.schedules import evaluation_schedule
from agentgym_cli.verbs.served_checks import ServedModel
from agentgym_cli.verbs.turns import turn_tokens
from agentgym_cli.verbs.verl_place import rehearses, variables_of

FOLDER = "vllm"
"""Inside a run's folder: where its servers work, and what they say."""
OBSERVED = "vllm (policy)"
"""In the frozen run, beside what the environment's servers said they are."""


async def evaluate_served(prepared: Prepared, model: ServedModel, splits: Mapping[str, Sequence[Task]], stage: Stage, *, phase: str) -> None:
    """Judge a model folder on every split, at the evaluation's temperature and horizon. Starts no server where every episode has its outcome.

    Args:
        phase: ``eval``, ``eval_before``, ...; the step is the model's.

    Raises:
        PolicyError: the server did not start, or ended before the episodes were over.
    """
    spec = prepared.run.evaluation
    schedule = evaluation_schedule(splits, phase=phase, step=model.step, samples=spec.samples_per_task, horizon=spec.horizon, limit=spec.limit)
    if all(episode.id in stage.history.outcomes for episode in schedule):
        return
    alone = phase == "eval"
    resume = prepared.resume_command("eval" if alone else "train")
    async with open_served(prepared, model, stage.recorder, stage.progress, temperature=spec.temperature, resume=resume) as policy:
        await stage.play(schedule, policy, announce="evaluate" if alone else phase.replace("_", " "))


@asynccontextmanager
async def open_served(
    prepared: Prepared,
    model: ServedModel,
    recorder: Recorder,
    progress: Progress,
    *,
    temperature: float | Literal["greedy"] | None,
    resume: str,
) -> AsyncIterator[ServedPolicy]:
    """The policy of a model folder for as long as the block runs. A server that ends before it ends the block.

    Args:
        temperature: None is the recipe's.
        resume: command that goes on with the run.

    Raises:
        PolicyError: the server did not start, or ended; with its last words.
    """
    run, place = prepared.run, prepared.folder.absolute() / FOLDER
    tokens = turn_tokens(run, beside=prepared.frozen.beside, folder=model.tokenizer)
    turns = TokenTurns(tokens, system_prompt=prepared.system_prompt, context=run.budgets.context_tokens, response=run.budgets.response_tokens)
    place.mkdir(exist_ok=True)
    log = place / f"vllm-{recorder.segment}.log"
    progress.note("vllm", f"loads {short(model.folder)}, which can take minutes; what it says: {short(log)}")
    variables = {**variables_of(run), "VLLM_LOGGING_LEVEL": "INFO"}
    async with model_server(serving_of(run, model.folder), folder=place, variables=variables, log=log) as server:
        progress.note("vllm", f"{server.version} answers after {server.seconds:.0f} s")
        word = f"vLLM {server.version}"
        recorder.probed(server.url, "vllm: server", "pass", word, server.seconds)
        add_observed(prepared, {OBSERVED: word})
        caller = HttpCaller(headers={"authorization": f"Bearer {server.key}"})
        gate = Gate(requests_per_minute=None, tokens_per_minute=None, in_flight=None)
        degrees = 0.0 if temperature == "greedy" else temperature or run.policy.sampling.temperature
        drawing = Drawing(model=server.model, sampling=run.policy.sampling, temperature=degrees)
        policy = ServedPolicy(
            LlmServer(caller, server.url, gate=gate),
            drawing,
            turns,
            step=model.step,
            budgets=run.budgets,
            give_up_after=run.retry.give_up_after,
            name=word,
        )
        try:
            async with _watched(server, resume):
                yield policy
        finally:
            await caller.aclose()


def serving_of(run: Run, folder: Path) -> Serving:
    """What a run's server of a model folder is told: all GPUs of this machine, as many copies as ``cluster.tensor_parallel`` leaves."""
    cluster, on_cpu = run.cluster, rehearses(run)
    assert cluster is not None, "engine verl has a section cluster"
    parallel = cluster.tensor_parallel
    return Serving(
        model=folder.absolute(),
        dtype="float32" if on_cpu else "bfloat16",
        context=run.budgets.context_tokens,
        slots=run.engine.slots,
        tensor_parallel=parallel,
        copies=1 if on_cpu else cluster.gpus_per_node // parallel,
        seed=run.seed,
        on_cpu=on_cpu,
    )


@asynccontextmanager
async def _watched(server: ModelServer, resume: str) -> AsyncIterator[None]:
    """Cancel the block where the server ends before it. Raises PolicyError then, else what the block raises."""
    try:
        async with asyncio.TaskGroup() as group:
            watch = group.create_task(server.watch())
            yield
            watch.cancel()
    except BaseExceptionGroup as failures:
        # Where the server is gone, what the block then failed of says less.
        gone = watch.exception() if watch.done() and not watch.cancelled() else None
        if isinstance(gone, PolicyError):
            raise PolicyError(gone.message, f"{gone.hint}; {resume} goes on") from gone
        first = failures.exceptions[0]
        raise first from first.__cause__
