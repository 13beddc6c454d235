"""The named checks of a probe. Each returns what it saw, or raises NotMet, NotApplicable or EnvFailure. Sessions they make are closed."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable

from agentgym_cli.env.content import pinned_tasks
from agentgym_cli.env.contract import EnvFailure, InfraCause, StepReply, content_digest
from agentgym_cli.env.dialect_schema import CheckName
from agentgym_cli.env.findings import Bench, NotApplicable, NotMet, answered, spread
from agentgym_cli.env.reply import SessionId, shortened

Check = Callable[[Bench], Awaitable[str]]

NONSENSE = "agentgym probe"
"""An action that no world knows."""
_LISTED_ACTIONS = 12
_NO_SESSION: dict[type, SessionId] = {int: 1_999_999_973, str: "agentgym-no-such-session"}


async def health(bench: Bench) -> str:
    """The server is up."""
    status, _ = await bench.endpoint.greeting()
    if not 200 <= status < 300:
        raise NotMet(f"expected HTTP 2xx, got {status}")
    return f"HTTP {status}"


async def identity(bench: Bench) -> str:
    """The server is the environment that the dialect describes."""
    greeting = bench.spec.routes.health.greeting
    status, body = await bench.endpoint.greeting()
    if not greeting.holds(status, body):
        raise NotMet(f"this is another environment, or none: expected greeting {greeting.described()}, got {shortened(body)}")
    return shortened(body)


async def create(bench: Bench) -> str:
    """Sessions can be made at the same time, and each has an id of its own."""
    count = bench.spec.probe_sessions
    async with bench.sessions(count) as sessions:
        twice = [session for session in dict.fromkeys(sessions) if sessions.count(session) > 1]
        if twice:
            raise NotMet(f"expected {count} sessions with ids of their own, got id {shortened(twice[0])} for {sessions.count(twice[0])} of them")
    return f"{count} sessions at once"


async def reset(bench: Bench) -> str:
    """A task starts with an observation that has text."""
    observation = await bench.first_observation(bench.tasks[0][0])
    if not observation.strip():
        raise NotMet("expected a first observation with text, got an empty one")
    return f"{len(observation)} characters"


async def observe(bench: Bench) -> str:
    """The observation route repeats the observation of the reset."""
    if bench.spec.routes.observe is None:
        raise NotApplicable("the dialect has no such route")
    async with bench.sessions(1) as [session]:
        first = await bench.endpoint.reset(session, bench.tasks[0][0])
        again = await bench.endpoint.observe(session)
    if again != first:
        raise NotMet(f"expected the observation of the reset, {shortened(first)}, got {shortened(again)}")
    return "repeats the last observation"


async def step(bench: Bench) -> str:
    """An action is answered with an observation, a finite reward and a done; one that no world knows is called invalid."""
    async with bench.sessions(1) as [session]:
        await bench.endpoint.reset(session, bench.tasks[0][0])
        reply = await bench.endpoint.step(session, NONSENSE)
    if bench.spec.invalid_action and not bench.spec.says_invalid(reply.observation):
        raise NotMet(f"expected an action that no world knows to be called invalid, got {shortened(reply.observation)}")
    return f"reward {reply.reward:g}, done {str(reply.done).lower()} for an unknown action"


async def unknown_session(bench: Bench) -> str:
    """A session that does not exist is refused, never answered."""
    return f"refused: {(await _refusal(bench)).cause.value}"


async def error_style(bench: Bench) -> str:
    """The refusal can be told from a crash: a reported error or HTTP 4xx."""
    failure = await _refusal(bench)
    if failure.cause not in (InfraCause.REPORTED_ERROR, InfraCause.SERVER_4XX):
        raise NotMet(f"expected an unknown session to be a reported error or HTTP 4xx, got {failure.cause.value}: {failure}")
    return failure.cause.value


async def close(bench: Bench) -> str:
    """A session can be closed, and answers no step afterwards."""
    if bench.spec.routes.close is None:
        raise NotApplicable("the dialect has no such route; sessions last as long as the server")
    session = await _closed_session(bench)
    try:
        reply = await bench.endpoint.step(session, NONSENSE)
    except EnvFailure as failure:
        return f"closed; a later step is refused: {failure.cause.value}"
    raise NotMet(f"expected a closed session to refuse a step, got {shortened(reply.observation)}")


async def double_close(bench: Bench) -> str:
    """A second close does no harm."""
    if bench.spec.routes.close is None:
        raise NotApplicable("the dialect has no such route")
    session = await _closed_session(bench)
    try:
        await bench.endpoint.close(session)
    except EnvFailure as failure:
        if failure.cause in (InfraCause.REPORTED_ERROR, InfraCause.SERVER_4XX):
            return f"refused: {failure.cause.value}"
        raise NotMet(f"expected a second close to be refused or accepted, got {failure.cause.value}: {failure}") from failure
    return "accepted"


async def reset_determinism(bench: Bench) -> str:
    """A task is the same in every session, whatever was played before."""
    indices = bench.indices(bench.effort.tasks)
    for index in indices:
        await bench.first_observation(index)
    async with bench.sessions(1) as [session]:
        for index in reversed(indices):
            _same(index, bench.seen[index], await bench.endpoint.reset(session, index), "in a session used before")
    return f"{len(indices)} tasks, each the same in another session and order"


async def reset_determinism_concurrent(bench: Bench) -> str:
    """A task is the same when many sessions start one at once."""
    indices = bench.indices(bench.effort.tasks)
    alone = {index: await bench.first_observation(index) for index in indices}
    count, began, resets = bench.spec.probe_sessions, time.monotonic(), 0
    async with bench.sessions(count) as sessions:
        for turn in range(bench.effort.rounds):
            chosen = [indices[(turn + place) % len(indices)] for place in range(count)]
            replies = answered(await asyncio.gather(*map(bench.endpoint.reset, sessions, chosen), return_exceptions=True))
            for index, observation in zip(chosen, replies, strict=True):
                _same(index, alone[index], observation, f"with {count} resets at once")
            resets += count
            if time.monotonic() - began > bench.effort.seconds:
                break
    return f"{resets} resets, {count} at once"


async def isolation(bench: Bench) -> str:
    """Two sessions played in turns are answered as if each were alone."""
    pair = bench.indices(2)
    first, second = pair[0], pair[-1]
    probing = bench.spec.probe_actions
    listed = spread(bench.spec.random.found(await bench.first_observation(first)), _LISTED_ACTIONS)
    script = await _oracle(bench, first) or (*listed, *probing)
    alone = await _alone(bench, first, script), await _alone(bench, second, probing)
    async with bench.sessions(2) as [one, other]:
        starts = await bench.endpoint.reset(one, first), await bench.endpoint.reset(other, second)
        _same(first, await bench.first_observation(first), starts[0], "beside another session")
        _same(second, await bench.first_observation(second), starts[1], "beside another session")
        answers: tuple[list[StepReply], list[StepReply]] = ([], [])
        for turn in range(max(len(alone[0]), len(alone[1]))):
            for place, (session, actions) in enumerate(((one, script), (other, probing))):
                if turn < len(alone[place]):
                    reply = await bench.endpoint.step(session, actions[turn])
                    answers[place].append(reply)
                    _unmoved(actions[turn], alone[place][turn], reply)
    return f"{len(answers[0])} and {len(answers[1])} steps, the same as alone"


async def oracle(bench: Bench) -> str:
    """The oracle's actions solve their task."""
    solved = []
    for index in bench.indices(2):
        actions = await _oracle(bench, index)
        if actions is None:
            raise NotApplicable("no oracle route, or it is off")
        replies = await _alone(bench, index, actions)
        if not replies or not replies[-1].done or not bench.spec.success.met([reply.reward for reply in replies]):
            last = shortened(replies[-1].observation) if replies else "no action at all"
            raise NotMet(f"expected the oracle to solve task {index}, got {last} after {len(replies)} actions")
        solved.append(len(replies))
    return f"tasks solved in {', '.join(map(str, solved))} actions"


async def done_latching(bench: Bench) -> str:
    """Done stays."""
    index = bench.tasks[0][0]
    actions = await _oracle(bench, index)
    if actions is None:
        raise NotApplicable("no oracle to finish a task with")
    async with bench.sessions(1) as [session]:
        await bench.endpoint.reset(session, index)
        replies = await _play(bench, session, actions)
        if not replies or not replies[-1].done:
            raise NotApplicable(f"the oracle does not finish task {index}")
        try:
            after = await bench.endpoint.step(session, bench.spec.probe_actions[0])
        except EnvFailure as failure:
            return f"a step after done is refused: {failure.cause.value}"
    if not after.done:
        raise NotMet(f"expected done to stay, got done false and reward {after.reward:g} for a step after done")
    return "done stays true"


async def content(bench: Bench) -> str:
    """Tasks have the content that was pinned."""
    pinned = [(index, digest) for index, digest in bench.tasks if digest]
    if not pinned:
        raise NotApplicable("no task has a pinned digest")
    chosen = spread(pinned, bench.effort.pinned_tasks)
    known = pinned_tasks(bench.spec, pinned)
    wrong: list[tuple[int, str, str]] = []
    async with bench.sessions(1) as [session]:
        for index, digest in chosen:
            got = content_digest(await bench.endpoint.reset(session, index))
            if got != digest:
                wrong.append((index, digest, got))
    if wrong:
        moved = [each for each in wrong if known.moved(each[2])]
        index, expected, got = (moved or wrong)[0]
        raise NotMet(
            f"{len(wrong)} of {len(chosen)} tasks have other content than was pinned, {len(moved)} of them that of another task of the list, "
            f"e.g. {known.mismatch(index, expected=expected, got=got)}"
        )
    return f"{len(chosen)} tasks as pinned"


async def latency(bench: Bench) -> str:
    """How long a step takes; slow is no failure."""
    began = time.monotonic()
    times: list[float] = []
    async with bench.sessions(1) as [session]:
        await bench.endpoint.reset(session, bench.tasks[0][0])
        while not times or (len(times) < bench.effort.timed_steps and time.monotonic() - began < bench.effort.seconds):
            start = time.perf_counter()
            reply = await bench.endpoint.step(session, bench.spec.probe_actions[0])
            times.append(1000 * (time.perf_counter() - start))
            if reply.done:
                await bench.endpoint.reset(session, bench.tasks[0][0])
    p95 = statistics.quantiles(times, n=20, method="inclusive")[-1] if len(times) > 1 else times[0]
    return f"p50 {statistics.median(times):.1f} ms, p95 {p95:.1f} ms over {len(times)} steps"


async def _refusal(bench: Bench) -> EnvFailure:
    """How a step in a session that does not exist is refused, after a reset in it was."""
    async with bench.sessions(1) as [session]:
        nobody = _NO_SESSION[type(session)]
    await _refused("reset", bench.endpoint.reset(nobody, bench.tasks[0][0]))
    return await _refused("step", bench.endpoint.step(nobody, NONSENSE))


async def _refused(name: str, call: Awaitable[object]) -> EnvFailure:
    try:
        answer = await call
    except EnvFailure as failure:
        if failure.cause in (InfraCause.CONNECT, InfraCause.TIMEOUT, InfraCause.RESET):
            raise
        return failure
    raise NotMet(f"expected a {name} in a session that does not exist to be refused, got {shortened(answer)}")


async def _closed_session(bench: Bench) -> SessionId:
    session = await bench.endpoint.create()
    await bench.endpoint.reset(session, bench.tasks[0][0])
    await bench.endpoint.close(session)
    return session


async def _oracle(bench: Bench, index: int) -> tuple[str, ...] | None:
    """The actions that solve a task; None where the server does not tell them."""
    async with bench.sessions(1) as [session]:
        await bench.endpoint.reset(session, index)
        try:
            return await bench.endpoint.oracle(session)
        except EnvFailure as failure:
            if failure.cause is InfraCause.SERVER_4XX:
                return None
            raise


async def _alone(bench: Bench, index: int, actions: tuple[str, ...]) -> list[StepReply]:
    async with bench.sessions(1) as [session]:
        await bench.endpoint.reset(session, index)
        return await _play(bench, session, actions)


async def _play(bench: Bench, session: SessionId, actions: tuple[str, ...]) -> list[StepReply]:
    """Replies to ``actions`` up to done."""
    replies: list[StepReply] = []
    for action in actions:
        replies.append(await bench.endpoint.step(session, action))
        if replies[-1].done:
            break
    return replies


def _same(index: int, expected: str, got: str, when: str) -> None:
    if got != expected:
        raise NotMet(
            f"task {index} differs {when}: expected {content_digest(expected)} {shortened(expected)}, got {content_digest(got)} {shortened(got)}"
        )


def _unmoved(action: str, expected: StepReply, got: StepReply) -> None:
    if got != expected:
        raise NotMet(f"{action!r} is answered otherwise beside another session: expected {shortened(expected)}, got {shortened(got)}")


CHECKS: dict[CheckName, tuple[Check, tuple[CheckName, ...]]] = {
    "health": (health, ()),
    "identity": (identity, ("health",)),
    "create": (create, ("identity",)),
    "reset": (reset, ("create",)),
    "observe": (observe, ("reset",)),
    "step": (step, ("reset",)),
    "unknown_session": (unknown_session, ("reset",)),
    "error_style": (error_style, ("unknown_session",)),
    "close": (close, ("reset",)),
    "double_close": (double_close, ("close",)),
    "reset_determinism": (reset_determinism, ("reset",)),
    "reset_determinism_concurrent": (reset_determinism_concurrent, ("reset_determinism",)),
    "isolation": (isolation, ("step", "reset_determinism")),
    "oracle": (oracle, ("step",)),
    "done_latching": (done_latching, ("step",)),
    "content": (content, ("reset",)),
    "latency": (latency, ("step",)),
}
"""By name, in order, each with the checks that it makes no sense without."""
