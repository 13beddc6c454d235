"""``agentgym eval`` with a limit in money: the run ends as interrupted, says what it takes to go on, and goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.commands import only_run, run
from tests.episode.llm_server import LlmStub, served

pytestmark = pytest.mark.e2e
PRICES = ("policy.endpoint.price_per_million_input=1000", "policy.endpoint.price_per_million_output=1000", "engine.slots=2", "evaluation.horizon=1")


def test_a_run_that_spent_its_money_is_interrupted_and_a_resume_with_more_runs_the_rest(tmp_path: Path) -> None:
    with served(LlmStub(say=lambda fields, number: "Action: dispatch")) as url:
        words = ("eval", "recipes/package_prep.yaml", "--endpoint", url, "--model", "stub", *PRICES)
        ended = run(tmp_path, *words, "budgets.run_cost=10")
        assert ended.code == 130, ended.err
        folder = only_run(tmp_path)
        assert "budgets.run_cost: expected less than 10 spent before a policy call, got 1" in ended.message[0]
        assert "of 24 episodes have no outcome yet, a resume with a higher limit runs them" in ended.message[0]
        assert ended.message[1] == f"hint: agentgym eval runs/{folder.name} --resume"

        stopped = run(tmp_path, "report", folder.name, "--json")
        before = stopped.json["parts"][0]["accounting"]
        assert stopped.json["header"]["status"] == "interrupted"
        assert before["missing"] > 0 and before["failure"] > 0
        assert (before["scheduled"], before["success"], before["infra_error"]) == (24, 0, 0)

        again = run(tmp_path, "eval", f"runs/{folder.name}", "--resume", "budgets.run_cost=50", "--json")
    assert again.code == 0, again.err
    after = again.json["parts"][0]["accounting"]
    assert (after["scheduled"], after["failure"], after["missing"]) == (24, 24, 0)
