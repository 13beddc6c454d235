"""A probe of AgentGym's other servers finds what their dialects declare, nothing more and nothing less."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentgym_cli.env.dialect import load_dialect, shipped_dialects
from agentgym_cli.env.probe import probe
from tests.env.upstream_worlds import Upstream

FAMILIES = ("babyai", "sciworld", "searchqa", "webarena")
NEED_AN_ORACLE = {"oracle", "done_latching"}


@pytest.mark.parametrize("family", FAMILIES)
async def test_promise_09_a_server_as_it_is_known_passes_but_for_what_its_dialect_declares(family):
    server, dialect = Upstream(family), load_dialect(family)
    async with server.http() as http:
        report = await probe(["http://upstream"], dialect, http=http)
    results = {check.name: check.result for check in report.servers[0].checks}
    assert {name for name, result in results.items() if result == "fail"} == set()
    assert {name for name, result in results.items() if result == "known deviation"} == set(dialect.spec.deviations) - NEED_AN_ORACLE
    assert {name for name, result in results.items() if result == "n/a"} == {*NEED_AN_ORACLE, "content"}
    assert server.tasks == {}


@pytest.mark.parametrize("family", FAMILIES)
async def test_a_server_of_another_family_is_told_apart(family):
    for other in set(FAMILIES) - {family}:
        async with Upstream(other).http() as http:
            report = await probe(["http://upstream"], load_dialect(family), http=http)
        assert {check.name for check in report.servers[0].failed} & {"identity", "create"}, other


@pytest.mark.parametrize("family", FAMILIES)
async def test_what_a_dialect_declares_would_otherwise_be_a_failure(family):
    dialect = load_dialect(family)
    bare = replace(dialect, spec=replace(dialect.spec, done_sticky=True, deviations={}))
    async with Upstream(family).http() as http:
        report = await probe(["http://upstream"], bare, http=http)
    assert {check.name for check in report.servers[0].failed} <= set(dialect.spec.deviations)
    assert bool(report.servers[0].failed) is bool(set(dialect.spec.deviations) - NEED_AN_ORACLE)


def test_every_shipped_dialect_but_textcraft_is_probed_here():
    assert {*FAMILIES, "textcraft"} == set(shipped_dialects())
