"""Each faulty server of the zoo is named by the probe, and a healthy or a slow one is not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest

from agentgym_cli.env.checks import CHECKS, Level
from agentgym_cli.env.client import HttpEnvClient
from agentgym_cli.env.contract import EnvClient
from agentgym_cli.env.dialect import load_dialect
from agentgym_cli.env.dialect_schema import CheckName
from agentgym_cli.env.launch import serving
from agentgym_cli.env.probe import EFFORT, CheckResult, probe
from agentgym_cli.env.survey import survey
from agentgym_cli.env.wire import build_http
from tests.env import zoo, zoo_herd
from tests.env.cage import TASK_COUNT, Den, Healthy, Server
from tests.episode.virtual_time import run_virtual

pytestmark = pytest.mark.slow

URL = "http://zoo"
SHIPPED = load_dialect("textcraft")
STRICT = replace(SHIPPED, spec=replace(SHIPPED.spec, done_sticky=True, deviations={}))
"""No deviation is declared: done must latch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Animal:
    """A faulty server and what the probe must say of it."""

    fault: zoo.Fault
    named: CheckName | None
    """The check that names the fault; None for whichever is being made."""
    also: frozenset[CheckName] = frozenset()
    """Checks that fail as a consequence."""
    level: Level = "quick"
    """The level from which on it is found."""


ZOO = [
    Animal(fault=zoo.asleep, named="health"),
    Animal(fault=zoo.wrong_environment, named="identity"),
    Animal(fault=zoo_herd.shares_ids, named="create"),
    Animal(fault=zoo_herd.two_workers, named="create"),
    Animal(fault=zoo.says_nothing, named="reset"),
    Animal(fault=zoo.shows_stale, named="observe"),
    Animal(fault=zoo.error_body, named="step"),
    Animal(fault=zoo.html_page, named="step", also=frozenset({"error_style"})),
    Animal(fault=zoo.redirects, named="step", also=frozenset({"error_style"})),
    Animal(fault=zoo.not_finite, named="step"),
    Animal(fault=zoo.reward_string, named="types"),
    Animal(fault=zoo.done_number, named="types"),
    Animal(fault=zoo.answers_anybody, named="unknown_session", also=frozenset({"use_after_close"})),
    Animal(fault=zoo.crashes_on_unknown, named="error_style"),
    Animal(fault=zoo.reads_any_session, named="wrong_types"),
    Animal(fault=zoo.keeps_open, named="close"),
    Animal(fault=zoo.crashes_on_second_close, named="double_close"),
    Animal(fault=zoo_herd.leaks_on_close, named="use_after_close"),
    Animal(fault=zoo_herd.answers_after_close, named="use_after_close"),
    Animal(fault=zoo_herd.drifts, named="reset_determinism", also=frozenset({"observe", "content"})),
    Animal(fault=zoo_herd.global_random_state, named="reset_determinism_concurrent"),
    Animal(fault=zoo_herd.two_faced, named="reset_determinism_concurrent"),
    Animal(fault=zoo_herd.looks_elsewhere, named="isolation"),
    Animal(fault=zoo_herd.plays_elsewhere, named="isolation"),
    Animal(fault=zoo.wrong_oracle, named="oracle"),
    Animal(fault=zoo.generous, named="noop_floor"),
    Animal(fault=zoo_herd.done_comes_off, named="done_latching"),
    Animal(fault=zoo_herd.recycles_ids, named="id_recycling"),
    Animal(fault=zoo.wraps_tasks, named="task_range"),
    Animal(fault=zoo.other_order, named="content"),
    Animal(fault=zoo.rewords, named="content"),
    Animal(fault=zoo_herd.refuses_a_crowd, named="capacity", level="full"),
    Animal(fault=zoo_herd.never_recovers, named="recovery", also=frozenset({"oversized", "hostile_text", "leak"}), level="full"),
    Animal(fault=zoo.chokes_on_long, named="oversized", level="full"),
    Animal(fault=zoo.chokes_on_escapes, named="hostile_text", level="full"),
    Animal(fault=zoo_herd.leaks_slots, named="leak", level="full"),
    Animal(fault=zoo_herd.forgets_when_idle, named="idle_expiry", level="soak"),
]
PROCESSES = [
    Animal(fault=zoo.huge_body, named="step"),
    Animal(fault=zoo_herd.dies, named=None),
    Animal(fault=zoo_herd.grows, named="leak", level="full"),
]
"""Animals that need a process of their own."""
LESS = {"resets": 96, "least_resets": 0, "seconds": 5.0, "tasks": 4, "timed_steps": 3, "nonsense": 3, "creates": 16, "cycles": 150}
"""What the levels above quick do less of here, so that they take less than a second."""


def tasks() -> list[tuple[int, str]]:
    """The first eight tasks as the healthy server has them, pinned."""

    async def pinned() -> list[tuple[int, str]]:
        env: EnvClient = HttpEnvClient(caged(Healthy()), SHIPPED, [URL])
        return [(index, content.digest) for index, content in (await survey(env, SHIPPED.spec, range(8), attempts=1)).items()]

    return run_virtual(pinned())


def caged(server: Server) -> httpx.AsyncClient:
    """A client of a server in this process."""
    return build_http(transport=Den(zoo=server))


TASKS = tasks()


def probed(fault: zoo.Fault, *, level: Level = "quick", concurrency: int = 2) -> dict[str, CheckResult]:
    """What the probe says, by check; seconds pass as soon as nobody works."""

    async def asked() -> dict[str, CheckResult]:
        async with caged(fault()) as http:
            report = await probe([URL], STRICT, tasks=TASKS, size=TASK_COUNT, concurrency=concurrency, level=level, http=http)
        return {check.name: check for check in report.servers[0].checks}

    return run_virtual(asked())


def table() -> str:
    """The zoo as docs/probe.md has it."""
    lines = ["| server | what it does | level | named by | fails too |", "|---|---|---|---|---|"]
    for animal in [*ZOO, *PROCESSES]:
        does = " ".join((animal.fault.__doc__ or "").split())
        named = animal.named or "the check that is being made; no further one is"
        lines.append(f"| {animal.fault.__name__} | {does} | {animal.level} | {named} | {', '.join(sorted(animal.also))} |")
    return "\n".join(lines) + "\n"


def failures(checks: dict[str, CheckResult]) -> dict[str, str]:
    return {name: check.detail for name, check in checks.items() if check.result == "fail"}


@pytest.fixture(autouse=True)
def _less_effort(monkeypatch):
    for level in ("full", "soak"):
        monkeypatch.setitem(EFFORT, level, replace(EFFORT[level], **LESS))


@pytest.mark.parametrize("animal", ZOO, ids=lambda animal: animal.fault.__name__)
def test_the_probe_names_each_animal_of_the_zoo(animal):
    found = failures(probed(animal.fault, level=animal.level, concurrency=32 if animal.named == "capacity" else 2))
    assert set(found) == {animal.named, *animal.also}, found


@pytest.mark.parametrize(
    ("server", "level"), [(Healthy, "quick"), (Healthy, "full"), (Healthy, "soak"), (zoo.slow, "quick"), (zoo.terminal_escapes, "full")]
)
def test_a_healthy_a_slow_and_a_colourful_server_pass_every_check(server, level):
    checks = probed(server, level=level)
    assert {name: check.detail for name, check in checks.items() if check.result != "pass"} == {"replicas": "there is one server"}


def test_a_replica_with_other_tasks_is_named_and_the_others_are_not():
    async def asked() -> dict[str, set[str]]:
        servers = {"one": Healthy(), "two": zoo.rewords(), "three": Healthy()}
        async with build_http(transport=Den(**servers)) as http:
            report = await probe([f"http://{name}" for name in servers], STRICT, http=http)
        return {server.url: {check.name for check in server.failed} for server in report.servers}

    assert run_virtual(asked()) == {"http://one": set(), "http://two": {"replicas"}, "http://three": set()}


async def served(fault: zoo.Fault, *, level: Level = "quick") -> dict[str, CheckResult]:
    """What the probe says of an animal that is a process of its own."""
    async with serving([zoo.command(fault)], name=fault.__name__) as [url]:
        report = await probe([url], STRICT, tasks=TASKS, concurrency=2, level=level)
    return {check.name: check for check in report.servers[0].checks}


async def test_a_server_that_dies_in_the_middle_is_named_once():
    checks = await served(zoo_herd.dies)
    (detail,) = failures(checks).values()
    assert detail.startswith(("reset: POST ", "connect: POST "))
    later = [check.detail for check in checks.values()][list(checks).index(next(iter(failures(checks)))) + 1 :]
    assert later and all("not run, since " in each for each in later)


async def test_a_server_that_answers_a_step_with_100_mb_is_named_and_its_answer_not_read():
    found = failures(await served(zoo.huge_body))
    assert set(found) == {"step"}
    assert "expected at most 8388608 bytes, got more" in found["step"]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="the memory of another process is seen under Linux only")
async def test_a_server_that_grows_with_every_session_is_named():
    found = failures(await served(zoo_herd.grows, level="full"))
    assert set(found) == {"leak"}
    assert "grew by" in found["leak"]


def test_every_check_that_one_server_and_one_client_can_fail_has_an_animal():
    needs_more = {"two_clients", "replicas"}
    assert {animal.named for animal in ZOO} == set(CHECKS) - needs_more - {"latency"}


def test_the_page_of_the_probe_lists_the_zoo():
    page = (Path(__file__).parents[2] / "docs/probe.md").read_text(encoding="utf-8")
    assert table() in page, f"expected this table under A zoo:\n{table()}"
