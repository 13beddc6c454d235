"""Answers without a judgement of memory, on one screen and as JSON."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from agentgym_cli.cli.commands import app
from agentgym_cli.cli.show_unjudged import SERVED_UNITS
from tests.cli.test_show_capacity import numbers

TEXTCRAFT = "recipes/textcraft_grpo.yaml"
LIMITS = ("policy.endpoint.requests_per_minute=60", "policy.endpoint.tokens_per_minute=100000")
PRICED = ("policy.endpoint.price_per_million_input=0.5", "policy.endpoint.price_per_million_output=1.5")


def printed(*arguments: str) -> str:
    found = CliRunner().invoke(app, ["capacity", TEXTCRAFT, *arguments], env={"COLUMNS": "80"})
    assert found.exit_code == 0, found.output
    return found.stdout


@pytest.mark.parametrize("arguments", [("profile=endpoint", *LIMITS, *PRICED, "--width", "0.1"), ("profile=rehearsal",)])
def test_an_answer_is_one_screen_of_80_columns(arguments: tuple[str, ...]) -> None:
    lines = printed(*arguments).splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 30


def test_an_endpoint_is_answered_with_its_bounds_and_without_a_verdict() -> None:
    text = " ".join(printed("profile=endpoint", *LIMITS).split())
    assert "fits not judged: the server has it, whose devices are not ours" in text
    assert "bottleneck tokens a minute (policy.endpoint.tokens_per_minute): 0.72 turns a second" in text
    assert "episodes 100 of at most 30 turns (test 100 tasks); 64 at once" in text
    assert "the server's times are a guess (0.5 s a call, 0.02 s a token; --from RUN of an evaluation there measures)" in text


def test_a_rehearsal_says_what_it_is() -> None:
    text = " ".join(printed("profile=rehearsal").split())
    assert "fits not judged: a rehearsal launches a tiny model in place of Qwen/Qwen2.5-7B-Instruct" in text
    assert "rehearsals took about 6.7 GiB in all" in text


@pytest.mark.parametrize("arguments", [("profile=endpoint", *LIMITS, *PRICED, "--width", "0.1", "--difference", "0.1"), ("profile=rehearsal",)])
def test_every_number_of_the_json_has_a_unit(arguments: tuple[str, ...]) -> None:
    values = json.loads(printed(*arguments, "--json"))
    assert values["fits"] is None and values["why_not_judged"]
    found = set(numbers(values))
    assert [path for path in found if not any(key in values["units"] for key in path)] == []


def test_every_unit_is_of_a_number() -> None:
    found = {
        key
        for arguments in (("profile=endpoint", *LIMITS), ("profile=rehearsal",))
        for path in numbers(json.loads(printed(*arguments, "--json")))
        for key in path
    }
    assert set(SERVED_UNITS) <= found
