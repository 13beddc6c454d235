"""Where one worker of an engine plays: its own client of the world, the run's rules, and the writer that it hands records to."""

from __future__ import annotations

import asyncio
from pathlib import Path

from agentgym_cli.env.breaker import BreakerRule
from agentgym_cli.env.client import HttpEnvClient, build_http
from agentgym_cli.env.contract import ServersLost
from agentgym_cli.env.replicas import ServerChange
from agentgym_cli.episode.policies.sampled import SampledPolicy, Sampler
from agentgym_cli.episode.policies.token_turns import TokenTurns
from agentgym_cli.episode.runner import EpisodeResult, run_schedule
from agentgym_cli.episode.types import AttemptResult, Task
from agentgym_cli.errors import AgentgymError, Interrupted
from agentgym_cli.learn.rewards import member_of
from agentgym_cli.learn.verl.rows import TRAIN, Row, read_rows
from agentgym_cli.learn.verl.seam import Played
from agentgym_cli.learn.verl.setup import Setup, read_setup
from agentgym_cli.recipe.frozen_file import read_frozen
from agentgym_cli.store.codec import decode, encode
from agentgym_cli.store.desk import Visitor
from agentgym_cli.store.records import AttemptRecord
from agentgym_cli.verbs.play import budget_of, rules_of
from agentgym_cli.verbs.prepare import system_prompt_of
from agentgym_cli.verbs.recording import attempt_record, outcome_record, restore
from agentgym_cli.verbs.spoken import spoken_dialect
from agentgym_cli.verbs.turns import turn_tokens
from agentgym_cli.verbs.world import service_token


class WorkerSite:
    """See ``Site``. What ends the whole run is told to the writer, which ends it; the episode is then never heard of."""

    def __init__(self, setup: Setup) -> None:
        frozen = read_frozen(Path(setup.frozen))
        run, beside = frozen.run, frozen.beside
        dialect = spoken_dialect(run, beside=beside)
        self._run, self._setup = run, setup
        self._rows = {name: read_rows(Path(path)) for name, path in setup.rows.items()}
        self._desk = Visitor(setup.desk)
        self._places = asyncio.Semaphore(setup.slots)
        tasks: list[Task] = [row.task for rows in self._rows.values() for row in rows]
        self._rules = rules_of(run, dialect, tasks)
        self._budget = budget_of(run)
        tokens = turn_tokens(run, beside=beside, folder=Path(setup.tokenizer))
        prompt = system_prompt_of(run, dialect, beside)
        self._turns = TokenTurns(tokens, system_prompt=prompt, context=run.budgets.context_tokens, response=run.budgets.response_tokens)
        self._told: set[asyncio.Task[object]] = set()
        self._env = HttpEnvClient(
            build_http(),
            dialect,
            setup.urls,
            call_seconds=run.budgets.env_call_seconds,
            token=service_token(run.env),
            rule=BreakerRule(failures=run.retry.give_up_after, pause=run.retry.pause_seconds, longest=run.retry.longest_pause_seconds),
            recovery_seconds=run.retry.recovery_seconds,
            on_change=self._server_changed,
        )

    def row(self, rows: str, place: int) -> Row:
        """See ``Site``."""
        return self._rows[rows][place]

    async def play(self, row: Row, *, member: int, step: int, sampler: Sampler) -> Played | None:
        """See ``Site``."""
        async with self._places:
            try:
                return await self._played(row, member=member, step=step, sampler=sampler)
            except (AgentgymError, ServersLost) as stopped:
                await self._desk.say("stop", message=str(stopped), interrupted=isinstance(stopped, Interrupted | ServersLost))
                raise

    async def aclose(self) -> None:
        """Close every connection. A worker's process needs none of it: it ends with them."""
        await self._env.aclose()
        await self._desk.close()

    async def _played(self, row: Row, *, member: int, step: int, sampler: Sampler) -> Played | None:
        # The writer has the schedule: an episode is written down, with all others of its step, before its world is asked for anything.
        begun = await self._desk.say("begin", phase=row.phase, step=row.step if row.phase == TRAIN else step, at=step)
        episode = row.episode(member, phase=begun["phase"], step=begun["step"])
        known = await self._desk.say("recorded", episode=episode.id)
        if known["outcome"] is not None and row.phase != TRAIN:
            return None
        earlier = [restore(_attempt(text), episode) for text in known["attempts"]]
        policy = SampledPolicy(sampler, self._turns, name="verl")
        waiting: list[asyncio.Task[object]] = []

        def attempted(result: AttemptResult) -> None:
            record = attempt_record(result, run=self._setup.run, segment=self._setup.segment, keep_tokens=self._run.store.keep_tokens)
            waiting.append(self._handed_in(encode(record)))

        def over(result: EpisodeResult) -> None:
            waiting.append(self._handed_in(encode(outcome_record(result, run=self._setup.run, segment=self._setup.segment))))

        (result,) = await run_schedule(
            [episode],
            policy=policy,
            env=self._env,
            rules=self._rules,
            action_rule=self._rules.actions[self._run.prompt.action_format],
            budgets=self._run.budgets,
            retry=self._run.retry,
            concurrency=1,
            run_seed=self._run.seed,
            on_attempt=attempted,
            on_final=over,
            recorded={episode.id: earlier} if earlier else None,
            run_budget=self._budget,
        )
        for each in waiting:
            await each
        return self._learned(result)

    def _learned(self, result: EpisodeResult) -> Played | None:
        member = member_of(self._run.reward, result.final, self._rules.reward_kind)
        if member.reward is None or member.trajectory is None:
            return None
        return Played(trajectory=member.trajectory, reward=member.reward, turns=len(result.final.turns))

    def _handed_in(self, line: bytes) -> asyncio.Task[object]:
        return asyncio.ensure_future(self._desk.say("record", line=line.decode()))

    def _server_changed(self, change: ServerChange) -> None:
        cause = change.cause.value if change.cause else None
        task: asyncio.Task[object] = asyncio.ensure_future(
            self._desk.say("server", url=change.url, event=change.event, cause=cause, detail=change.detail)
        )
        self._told.add(task)
        task.add_done_callback(self._told.discard)


def _attempt(text: str) -> AttemptRecord:
    record = decode(text.encode())
    assert isinstance(record, AttemptRecord)
    return record


async def open_site(setup: Path) -> WorkerSite:
    """The site of this process. verl goes on without an episode whose site cannot be opened; the writer, which is told, does not."""
    told = read_setup(setup)
    try:
        return WorkerSite(told)
    except AgentgymError as stopped:
        desk = Visitor(told.desk)
        await desk.say("stop", message=str(stopped), interrupted=False)
        await desk.close()
        raise
