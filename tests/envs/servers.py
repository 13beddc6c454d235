"""A client for a world's app in this process, and worlds that are easy to steer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx

from agentgym_envs.app import App, build_app
from agentgym_envs.protocol import JSON, Start, Step, World, WorldError
from agentgym_envs.textcraft.world import TextCraft
from tests.envs.books import tiny_book


@asynccontextmanager
async def client_of(world: World | None = None, **options: object) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the app of ``world`` (the tiny TextCraft by default), from its start to its end."""
    app = build_app(world or TextCraft(book=tiny_book()), **options)  # type: ignore[arg-type]
    async with living(app), httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://world") as client:
        yield client


@asynccontextmanager
async def living(app: App) -> AsyncIterator[None]:
    """The app between its start and its end, as a server runs it."""
    said: asyncio.Queue[dict[str, object]] = asyncio.Queue()
    answers: asyncio.Queue[MutableMapping[str, object]] = asyncio.Queue()
    life = asyncio.ensure_future(app({"type": "lifespan"}, said.get, answers.put))
    await said.put({"type": "lifespan.startup"})
    assert (await answers.get())["type"] == "lifespan.startup.complete"
    yield
    await said.put({"type": "lifespan.shutdown"})
    assert (await answers.get())["type"] == "lifespan.shutdown.complete"
    await life


@dataclass
class ManualClock:
    """Seconds that pass when a test says so."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class SlowSession:
    """Counts how many calls run inside it at once; each waits for the world's gate."""

    world: SlowWorld
    inside: int = 0

    def reset(self, index: int) -> Start:
        if self.world.broken:
            raise WorldError("The world is broken.")
        return Start(f"task {index}")

    def step(self, action: str) -> Step:
        self.inside += 1
        self.world.entered.release()
        self.world.gate.wait(10)
        said = f"{action}, {self.inside} inside"
        self.inside -= 1
        return Step(said, 0, False)

    def look(self, name: str) -> JSON:
        raise WorldError("The world shows nothing.")

    def oracle(self) -> tuple[str, ...]:
        raise WorldError("This world has no oracle.")

    def verify(self) -> bool:
        raise WorldError("This world has no verifier.")

    def close(self) -> None:
        self.world.closed += 1
        self.world.released.release()


@dataclass
class SlowWorld:
    """A world whose calls run in threads and wait at a gate."""

    gate: threading.Event = field(default_factory=threading.Event)
    entered: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    released: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    closed: int = 0
    broken: bool = False
    over: int = 0
    name: str = "slow"
    wire: str = "textcraft"
    greeting: str = "slow"
    task_count: int = 3
    blocking: bool = True

    def open(self) -> SlowSession:
        return SlowSession(self)

    def close(self) -> None:
        self.over += 1


async def entered(world: SlowWorld) -> None:
    """Wait until a step is inside the world."""
    assert await asyncio.to_thread(world.entered.acquire, True, 10)


async def released(world: SlowWorld) -> None:
    """Wait until a session of the world has been closed."""
    assert await asyncio.to_thread(world.released.acquire, True, 10)


async def answered(client: httpx.AsyncClient, path: str, **body: object) -> object:
    """The JSON that a POST is answered with."""
    return (await client.post(path, json=body)).json()
