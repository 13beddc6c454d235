"""An environment from outside the package: a dialect file and its prompt in a folder of one's own, or why it is refused."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import httpx
import pytest

from agentgym_cli.cli.main import main
from agentgym_cli.env.client import HttpEnvClient, build_http
from agentgym_cli.env.dialect import load_dialect, shipped_dialects
from agentgym_cli.env.pattern_trial import slow_text
from agentgym_cli.env.probe import probe
from agentgym_cli.episode.actions import read_action
from agentgym_cli.errors import RecipeError
from tests.env.upstream_worlds import Upstream

MINE = r"""
name: shopping
default_port: 8000
prompt: say.txt
session: {field: env_idx, recycled: false}
done_sticky: true
routes:
  health: {call: GET /, greeting: {pointer: "", equals: ok}}
  create: {call: POST /create, session: ""}
  reset: {call: POST /reset, task_field: session_id, observation: /0}
  step: {call: POST /step, action_field: action, observation: /state, reward: /reward, done: /done}
functions:
  click: ["click[{item}]"]
actions:
  react: {pattern: 'Action:(.*)'}
  function_call: {pattern: '\A[^{]*(\{.*\})', call: json, on_none: Call a function., prompt: call.txt}
success: {reward_kind: terminal, at_least: 1}
semantics: a purchase that fits
probe_actions: ["search[chair]"]
deviations: {error_style: a crash}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.yaml").write_text(MINE)
    (tmp_path / "say.txt").write_text("Shop.")
    (tmp_path / "call.txt").write_text("Shop by calls.")
    return tmp_path


async def test_a_dialect_of_ones_own_is_read_played_and_probed(folder):
    dialect = load_dialect(folder / "mine.yaml")
    assert (dialect.name, dialect.system_prompt) == ("shopping", "Shop.")
    assert [dialect.prompt_for(name) for name in ("react", "function_call")] == ["Shop.", "Shop by calls."]
    world = Upstream("webshop")
    session = await HttpEnvClient(world.http(), dialect, ["http://mine"]).open()
    assert await session.reset(4) == "WebShop [SEP] Instruction: [SEP] Find chair 4 [SEP] Search"
    assert (await session.step("click[Buy Now]")).reward == 1.0
    async with world.http() as http:
        assert (await probe(["http://mine"], dialect, http=http)).ok


def riddles(request: httpx.Request) -> httpx.Response:
    """The server that docs/contracts.md describes."""
    body = json.loads(request.content or b"{}")
    answers = {
        "/": {"world": "riddles"},
        "/new": {"session": "a1"},
        "/begin": {"puzzle": f"Riddle {body.get('number')}: what says meow?"},
        "/try": {"verdict": "Right." if body.get("guess") == "cat" else "That is no word.", "points": 10, "over": body.get("guess") == "cat"},
        "/end": {"ended": True},
    }
    wrong = request.url.path in ("/begin", "/try", "/end") and body.get("session") != "a1"
    return httpx.Response(200, json={"problem": "no such session"} if wrong else answers[request.url.path])


async def test_the_example_of_the_documentation_is_a_dialect_that_plays(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "contracts.md").read_text()
    (example,) = re.findall(r"```yaml\n(name: riddles\n.*?)```", page, re.DOTALL)
    (tmp_path / "riddles.yaml").write_text(example)
    (tmp_path / "riddles.txt").write_text("Solve.")
    dialect = load_dialect(tmp_path / "riddles.yaml")
    session = await HttpEnvClient(build_http(transport=httpx.MockTransport(riddles)), dialect, ["http://riddles"]).open()
    assert await session.reset(3) == "Riddle 3: what says meow?"
    assert (await session.step("dog")).observation == "That is no word."
    said = read_action("It meows.\nAnswer: cat", dialect.rules().actions["react"]).action
    reply = await session.step(said)
    assert (reply.reward, reply.done, dialect.spec.success.met([reply.reward])) == (10.0, True, True)
    await session.close()


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        ("semantics:", "semantic:", ":18: semantic: expected one of name, ", "did you mean semantics?"),
        ("prompt: call.txt", "prompts: call.txt", ":16: actions.function_call.prompts: expected one of pattern,", "did you mean prompt?"),
        ("call: json", "call: jsn", "actions.function_call.call: expected one of json, python, got 'jsn'", "did you mean json?"),
        ("call: json, ", "", "expected call: json in actions.function_call, and there only, got null in actions.function_call", None),
        ("{pattern: 'Action:(.*)'}", "{pattern: 'A(.*)', call: json, on_none: no}", "and there only, got 'json' in actions.react", None),
        ("on_none: Call a function., ", "", "actions.function_call: expected on_none beside call", None),
        ('functions:\n  click: ["click[{item}]"]\n', "", "expected functions, which actions.function_call calls, got none", None),
        ('["click[{item}]"]', '["click[{item}]", "buy {item}"]', "expected the actions of functions.click to differ in their arguments", None),
        ('["click[{item}]"]', '["click[{item.name}]"]', "functions.click.0: expected text that matches", None),
        ('["click[{item}]"]', "[]", "functions.click: expected at least 1 of them", None),
        ("  click:", "  os.system:", "functions.os.system: expected text that matches", None),
        ("  react: {", "  reakt: {", "expected actions to be of react, function_call, code_block, plain, got reakt", None),
        (
            "task_field: session_id",
            "task_field: env_idx",
            "expected routes.reset.task_field to differ from session.field, got 'env_idx' for both",
            None,
        ),
        ("  step: {", "  stop: {", ":11: routes.stop: expected one of health,", "did you mean step?"),
        ("  reset: {call: POST /reset, task_field: session_id, observation: /0}\n", "", "routes.reset: expected a value, got nothing", None),
        ("prompt: say.txt", "prompt: nowhere.txt", "nowhere.txt: expected a readable file", None),
        ("prompt: call.txt", "prompt: nowhere.txt", "nowhere.txt: expected a readable file", None),
        ("'Action:(.*)'", "'Action:(.*'", "actions.react.pattern: expected a regular expression, got 'Action:(.*'", None),
        ("recycled: false", "recycled: true", "expected deviations.id_recycling to say what the client does", None),
        (
            'session: ""}',
            'session: ""}\n  choices: {call: GET /x, choice: ""}',
            "routes.choices.choice: expected one of call,",
            "did you mean choices?",
        ),
    ],
)
def test_promise_08_what_cannot_be_meant_is_refused_with_its_place(folder, old, new, message, hint):
    assert MINE.count(old) == 1
    (folder / "mine.yaml").write_text(MINE.replace(old, new))
    with pytest.raises(RecipeError) as caught:
        load_dialect(folder / "mine.yaml")
    assert message in str(caught.value)
    assert caught.value.hint == hint
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize(
    ("old", "place"),
    [
        ("  react: {pattern: 'Action:(.*)'}", ":15: actions.react.pattern"),
        ("semantics: a purchase that fits", ":18: invalid_action.0"),
        ("probe_actions:", ":19: random.listed.0.pattern"),
        ("success:", ":17: goal"),
    ],
)
def test_promise_11_a_pattern_that_hostile_text_keeps_busy_is_refused(folder, old, place):
    slow = "(a+)+!"
    new = {
        "  react: {pattern: 'Action:(.*)'}": f"  react: {{pattern: '({slow})'}}",
        "semantics: a purchase that fits": f"invalid_action: ['{slow}']",
        "probe_actions:": f"random: {{listed: [{{pattern: '({slow})', say: '{{}}'}}]}}\nprobe_actions:",
        "success:": f"goal: '({slow})'\nsuccess:",
    }[old]
    (folder / "mine.yaml").write_text(MINE.replace(old, new))
    with pytest.raises(RecipeError) as caught:
        load_dialect(folder / "mine.yaml")
    assert f"{place}: expected a pattern that is done with hostile text in time, got one that is not with 'aaa'" in str(caught.value)
    assert caught.value.hint == "leave out a repeat inside a repeat, and anchor what begins with one"


@pytest.mark.parametrize(
    "pattern", [r"(a+)+!", r"(?:x|xx)+y", r".*.*.*x", r"(\w+\s*)+:", r"(.*?,){12}P", r"<think>(\s*\w*)*</think>", r".*Action:(.*)", r"(\{.*\})"]
)
def test_promise_11_slow_patterns_are_found_within_a_second(pattern):
    began = time.process_time()
    assert slow_text(pattern) is not None
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    "pattern", [r"Action:\s*(.*?)(?=\n|$)", r"\A.*Action:(.*)", r"```(?:python)?(.*?)```", r"\A[^{]*(\{.*\})", r"(?:using|,) (\d+ [a-z ]+)"]
)
def test_patterns_that_read_a_text_a_few_times_are_let_through(pattern):
    assert slow_text(pattern) is None


@pytest.mark.parametrize("name", shipped_dialects())
def test_promise_11_no_pattern_of_a_shipped_dialect_is_slow(name):
    spec = load_dialect(name).spec
    patterns = [
        *(action.pattern for action in spec.actions.values()),
        *spec.invalid_action,
        *(each.pattern for each in spec.random.listed),
        spec.goal,
    ]
    assert [pattern for pattern in patterns if pattern is not None and slow_text(pattern) is not None] == []


def test_the_command_line_takes_a_dialect_by_its_path(folder, capsys, monkeypatch):
    (folder / "mine.yaml").write_text(MINE.replace("prompt: say.txt", "prompt: nowhere.txt"))
    monkeypatch.setattr("sys.argv", ["agentgym", "probe", "--url", "http://127.0.0.1:9", "--dialect", str(folder / "mine.yaml")])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    assert "nowhere.txt: expected a readable file" in capsys.readouterr().err
