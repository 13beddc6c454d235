"""How a task ends: the oracle solves it, nonsense does not, and done stays."""

from __future__ import annotations

from agentgym_cli.env.contract import EnvFailure
from agentgym_cli.env.findings import Bench, NotApplicable, NotMet
from agentgym_cli.env.probing.play import LOST, NONSENSE, alone, oracle_actions, play
from agentgym_cli.env.reply import SessionId, shortened


async def oracle(bench: Bench) -> str:
    """The oracle's actions solve their task: the ceiling is where it should be."""
    solved = []
    for index in bench.indices(2):
        actions = await oracle_actions(bench, index)
        if actions is None:
            raise NotApplicable("no oracle route, or it is off")
        replies = await alone(bench, index, actions)
        if not replies or not replies[-1].done or not bench.spec.success.met([reply.reward for reply in replies]):
            last = shortened(replies[-1].observation) if replies else "no action at all"
            raise NotMet(f"expected the oracle to solve task {index}, got {last} after {len(replies)} actions")
        solved.append(len(replies))
    return f"tasks solved in {', '.join(map(str, solved))} actions"


async def noop_floor(bench: Bench) -> str:
    """Nonsense solves no task: the floor is where it should be."""
    indices, said = bench.indices(2), 0
    async with bench.sessions(1) as [session]:
        for index in indices:
            await bench.endpoint.reset(session, index)
            rewards: list[float] = []
            for _ in range(bench.effort.nonsense):
                try:
                    reply = await bench.endpoint.step(session, NONSENSE)
                except EnvFailure as failure:
                    if failure.cause in LOST:
                        raise
                    break
                rewards.append(reply.reward)
                if reply.done:
                    break
            said += len(rewards)
            if rewards and reply.done and await _solved(bench, session, rewards):
                raise NotMet(f"expected {NONSENSE!r} to solve no task, got task {index} solved after {len(rewards)} times, reward {rewards[-1]:g}")
    return f"{len(indices)} tasks, none solved by {said} actions that make no sense"


async def done_latching(bench: Bench) -> str:
    """Done stays."""
    index = bench.first_task
    actions = await oracle_actions(bench, index)
    if actions is None:
        raise NotApplicable("no oracle to finish a task with")
    async with bench.sessions(1) as [session]:
        await bench.endpoint.reset(session, index)
        replies = await play(bench.endpoint, session, actions)
        if not replies or not replies[-1].done:
            raise NotApplicable(f"the oracle does not finish task {index}")
        try:
            after = await bench.endpoint.step(session, bench.spec.probe_actions[0])
        except EnvFailure as failure:
            if failure.cause in LOST:
                raise
            return f"a step after done is refused: {failure.cause.value}"
    if not after.done:
        raise NotMet(f"expected done to stay, got done false and reward {after.reward:g} for a step after done")
    return "done stays true"


async def _solved(bench: Bench, session: SessionId, rewards: list[float]) -> bool:
    """Whether an episode that is done counts as a success: by the verifier where there is one, else by its rewards."""
    if bench.spec.routes.verify is not None:
        return await bench.endpoint.verify(session)
    return bench.spec.success.met(rewards)
