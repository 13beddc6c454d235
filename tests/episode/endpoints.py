"""A policy behind a stub of a server, in this process and on a virtual clock: what several tests of it play."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import httpx

from agentgym_cli.env.caller import HttpCaller
from agentgym_cli.env.pointer import Json
from agentgym_cli.env.wire import build_http
from agentgym_cli.episode.loop import run_episode
from agentgym_cli.episode.policies.endpoint import EndpointPolicy
from agentgym_cli.episode.policies.endpoint_call import LlmServer
from agentgym_cli.episode.policies.endpoint_check import GREETING, Qualified, manner_of, qualify, refuse_uncounted
from agentgym_cli.episode.policies.endpoint_pace import Gate
from agentgym_cli.episode.tokens import TurnTokens
from agentgym_cli.episode.types import AttemptResult
from agentgym_cli.recipe.schema.policy import EndpointSpec, SamplingSpec
from agentgym_cli.recipe.schema.world import BudgetsSpec
from tests.episode.fakes import PLAIN, FakeEnv, make_episode, make_rules
from tests.episode.llm_server import LlmStub
from tests.episode.virtual_time import run_virtual

URL = "http://llm/v1"
SPEC = EndpointSpec(url=URL, model="stub")
SAMPLING = SamplingSpec()
BUDGETS = BudgetsSpec(response_tokens=32, context_tokens=1024, policy_call_seconds=60.0, env_call_seconds=10.0, episode_seconds=600.0)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How a stub is asked."""

    stub: LlmStub
    spec: EndpointSpec = SPEC
    budgets: BudgetsSpec = BUDGETS
    sampling: SamplingSpec = SAMPLING
    temperature: float = 1.0
    tokens: TurnTokens | None = None
    system_prompt: str = ""
    calls: bool = False
    key: str | None = None
    give_up_after: int = 5

    def server(self) -> LlmServer:
        headers = {} if self.key is None else {"authorization": f"Bearer {self.key}"}
        transport = httpx.ASGITransport(self.stub.app(), raise_app_exceptions=False)
        gate = Gate(
            requests_per_minute=self.spec.requests_per_minute, tokens_per_minute=self.spec.tokens_per_minute, in_flight=self.spec.max_in_flight
        )
        return LlmServer(HttpCaller(build_http(transport=transport), headers=headers), self.spec.url, gate=gate)

    async def qualified(self, server: LlmServer) -> Qualified:
        ids: list[Json] = [] if self.tokens is None else [*self.tokens.initial(self.system_prompt, GREETING)]
        prompt: dict[str, Json] = {"prompt": ids} if ids else {"messages": [{"role": "user", "content": GREETING}]}
        manner = manner_of(self.spec, self.sampling, self.temperature, tokens=self.tokens)
        found = await qualify(server, self.spec, manner, prompt=prompt, seconds=self.budgets.policy_call_seconds)
        refuse_uncounted(found.manner, self.budgets, self.spec.url)
        return found

    async def policy(self) -> EndpointPolicy:
        server = self.server()
        found = await self.qualified(server)
        return EndpointPolicy(
            server,
            found.manner,
            system_prompt=self.system_prompt,
            budgets=self.budgets,
            tokens=self.tokens,
            retry_seconds=self.spec.retry_seconds,
            give_up_after=self.give_up_after,
            calls=self.calls,
        )


async def one_episode(
    policy: EndpointPolicy, env: FakeEnv, *, budgets: BudgetsSpec, index: int = 0, horizon: int = 5, seed: int = 7
) -> AttemptResult:
    """One attempt in a world in memory; plain texts are actions."""
    return await run_episode(
        make_episode(index, horizon=horizon), attempt=1, seed=seed, policy=policy, env=env, rules=make_rules(), action_rule=PLAIN, budgets=budgets
    )


def played(setting: Setting, env: FakeEnv | None = None, *, horizon: int = 5) -> tuple[AttemptResult, EndpointPolicy]:
    """One episode on a virtual clock, behind the check, and the policy that played it."""

    async def play() -> tuple[AttemptResult, EndpointPolicy]:
        policy = await setting.policy()
        return await one_episode(policy, env or FakeEnv(), budgets=setting.budgets, horizon=horizon), policy

    return run_virtual(play())


def checked(setting: Setting) -> Qualified:
    """The check alone, on a virtual clock."""

    async def check() -> Qualified:
        return await setting.qualified(setting.server())

    return run_virtual(check())


def asked_for_turns(stub: LlmStub) -> Sequence[dict[str, Json]]:
    """Requests behind the check's own."""
    return stub.asked[1:]


def spec_with(**changes: object) -> EndpointSpec:
    """The plain spec with some changes."""
    return replace(SPEC, **changes)  # type: ignore[arg-type]
