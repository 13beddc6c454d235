"""Each faulty server of the zoo is named by the probe, and a healthy or a slow one is not."""

from __future__ import annotations

from dataclasses import dataclass, replace

import httpx
import pytest

from agentgym_cli.env.client import HttpEnvClient
from agentgym_cli.env.contract import EnvClient
from agentgym_cli.env.dialect import Dialect, load_dialect
from agentgym_cli.env.dialect_schema import CheckName
from agentgym_cli.env.probe import CheckResult, Level, probe
from agentgym_cli.env.survey import survey
from agentgym_cli.env.wire import build_http
from tests.env import zoo
from tests.env.cage import Cage, Healthy, Server
from tests.episode.virtual_time import run_virtual

URL = "http://zoo"
SHIPPED = load_dialect("textcraft")
STRICT = replace(SHIPPED, spec=replace(SHIPPED.spec, done_sticky=True, deviations={}))
"""No deviation is declared: done must latch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Animal:
    """A faulty server and what the probe must say of it."""

    fault: zoo.Fault
    named: CheckName
    """The check that names the fault."""
    also: frozenset[CheckName] = frozenset()
    """Checks that fail as a consequence."""
    level: Level = "quick"
    """The level from which on it is found."""


ZOO = [
    Animal(fault=zoo.wrong_environment, named="identity"),
    Animal(fault=zoo.shares_ids, named="create"),
    Animal(fault=zoo.leaks_on_close, named="use_after_close"),
    Animal(fault=zoo.not_finite, named="step"),
    Animal(fault=zoo.reward_string, named="types"),
    Animal(fault=zoo.done_number, named="types"),
    Animal(fault=zoo.error_body, named="step"),
    Animal(fault=zoo.html_page, named="step", also=frozenset({"error_style"})),
    Animal(fault=zoo.redirects, named="step", also=frozenset({"error_style"})),
    Animal(fault=zoo.global_random_state, named="reset_determinism_concurrent"),
    Animal(fault=zoo.two_faced, named="reset_determinism_concurrent"),
    Animal(fault=zoo.drifts, named="reset_determinism", also=frozenset({"observe", "content"})),
    Animal(fault=zoo.done_comes_off, named="done_latching"),
    Animal(fault=zoo.looks_elsewhere, named="isolation"),
    Animal(fault=zoo.plays_elsewhere, named="isolation"),
    Animal(fault=zoo.other_order, named="content"),
    Animal(fault=zoo.crashes_on_unknown, named="error_style"),
    Animal(fault=zoo.wrong_oracle, named="oracle"),
]


def tasks() -> list[tuple[int, str]]:
    """The first eight tasks as the healthy server has them, pinned."""

    async def pinned() -> list[tuple[int, str]]:
        env: EnvClient = HttpEnvClient(caged(Healthy()), SHIPPED, [URL])
        return [(index, content.digest) for index, content in (await survey(env, SHIPPED.spec, range(8), attempts=1)).items()]

    return run_virtual(pinned())


def caged(server: Server) -> httpx.AsyncClient:
    """A client of a server in this process."""
    return build_http(transport=httpx.ASGITransport(Cage(server), raise_app_exceptions=False))


TASKS = tasks()


def probed(fault: zoo.Fault, *, level: Level = "quick", dialect: Dialect = STRICT) -> dict[str, CheckResult]:
    """What the probe says, by check; seconds pass as soon as nobody works."""

    async def asked() -> dict[str, CheckResult]:
        async with caged(fault()) as http:
            report = await probe([URL], dialect, tasks=TASKS, level=level, http=http)
        return {check.name: check for check in report.servers[0].checks}

    return run_virtual(asked())


def failures(checks: dict[str, CheckResult]) -> dict[str, str]:
    return {name: check.detail for name, check in checks.items() if check.result == "fail"}


@pytest.mark.parametrize("animal", ZOO, ids=lambda animal: animal.fault.__name__)
def test_the_probe_names_each_animal_of_the_zoo(animal):
    found = failures(probed(animal.fault, level=animal.level))
    assert set(found) == {animal.named, *animal.also}, found


def test_a_healthy_server_passes_every_check():
    checks = probed(Healthy)
    assert {name for name, check in checks.items() if check.result != "pass"} == {"task_range", "replicas"}


def test_a_slow_server_is_not_called_faulty():
    checks = probed(zoo.slow)
    assert failures(checks) == {}
