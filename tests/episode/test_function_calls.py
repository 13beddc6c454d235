"""Function calls become actions by a table, and nothing in them is ever run."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_cli.env.contract import ActionRule
from agentgym_cli.env.dialect import load_dialect
from agentgym_cli.episode.actions import action_text, read_action
from agentgym_cli.episode.function_calls import MAX_CALL_CHARS, called_action
from agentgym_cli.errors import PolicyError

TABLE = {
    "goto": ("go to {recep}",),
    "take": ("take {obj} from {recep}",),
    "look": ("look",),
    "use": ("use {tool}", "use {tool} on {obj}"),
    "wait": ("wait{n}",),
}
SCIWORLD, ALFWORLD, WEBSHOP = (load_dialect(name).rules().actions for name in ("sciworld", "alfworld", "webshop"))


@pytest.mark.parametrize(
    ("said", "action"),
    [
        ({"function_name": "goto", "arguments": {"recep": "fridge 1"}}, "go to fridge 1"),
        ({"thought": "hm", "function_name": " take ", "arguments": {"recep": "desk 1", "obj": "mug 2"}}, "take mug 2 from desk 1"),
        ({"function_name": "look", "arguments": {}}, "look"),
        ({"function_name": "look"}, "look"),
        ({"function_name": "use", "arguments": {"tool": "lamp"}}, "use lamp"),
        ({"function_name": "use", "arguments": {"tool": "lamp", "obj": "mug"}}, "use lamp on mug"),
        ({"function_name": "wait", "arguments": {"n": 10}}, "wait10"),
        ({"function_name": "goto", "arguments": '{"recep": "fridge 1"}'}, "go to fridge 1"),
        ({"function_name": "goto", "arguments": {"recep": "{recep} {obj}"}}, "go to {recep} {obj}"),
        ({"function_name": "goto", "arguments": {"recep": "a", "obj": "b"}}, None),
        ({"function_name": "goto", "arguments": {}}, None),
        ({"function_name": "fly", "arguments": {}}, None),
        ({"function_name": "goto", "arguments": {"recep": ["fridge"]}}, None),
        ({"function_name": "goto", "arguments": {"recep": True}}, None),
        ({"function_name": "goto", "arguments": {"recep": None}}, None),
        ({"function_name": "goto", "arguments": ["fridge 1"]}, None),
        ({"function_name": "goto", "arguments": "fridge 1"}, None),
        ({"function_name": ["goto"], "arguments": {}}, None),
        ({"name": "goto"}, None),
        (["goto"], None),
        ("goto", None),
    ],
)
def test_a_call_in_json_is_said_by_the_template_with_its_arguments(said: object, action: str | None) -> None:
    assert called_action(json.dumps(said), syntax="json", functions=TABLE) == action


@pytest.mark.parametrize(
    ("code", "action"),
    [
        ('goto("fridge 1")', "go to fridge 1"),
        ("# I need a mug\ntake('mug 2', 'desk 1')\n", "take mug 2 from desk 1"),
        ("take('mug 2', recep='desk 1')", "take mug 2 from desk 1"),
        ("take(recep='desk 1', obj='mug 2')", "take mug 2 from desk 1"),
        ("look()", "look"),
        ("wait(10)", "wait10"),
        ("go to fridge 1", "go to fridge 1"),
        ("search[red shoes]", "search[red shoes]"),
        ("goto('a', 'b')", None),
        ("goto('a', recep='b')", None),
        ("goto(recep)", None),
        ("goto('a' + 'b')", None),
        ("goto(f'{1}')", None),
        ("goto(*['a'])", None),
        ("goto(**{'recep': 'a'})", None),
        ("goto(b'a')", None),
        ("goto(None)", None),
        ("goto('a'); look()", None),
        ("goto('a')\nlook()", None),
        ("goto('a'", None),
        ("os.system('x')", None),
        ("__import__('os').system('x')", None),
        ("open('/etc/passwd')", None),
        ("goto('\x00", None),
    ],
)
def test_a_call_in_python_is_read_and_never_run(code: str, action: str | None) -> None:
    assert called_action(code, syntax="python", functions=TABLE) == action


@pytest.mark.parametrize(
    "text", ["f(" * 4_000, "f(" + "-" * 8_000, "f('" + "\\d" * 100 + "')", "f(" + "9" * 8_000 + ")", "[" * 8_000, "{" * 8_000, '{"a":' * 1_500]
)
def test_promise_11_deep_and_strange_calls_are_refused_quietly(text: str) -> None:
    assert called_action(text, syntax="json", functions=TABLE) is None
    assert called_action(text, syntax="python", functions=TABLE) in (None, text)


def test_promise_11_a_long_call_is_not_even_parsed() -> None:
    padded = f'{{"function_name": "look", "thought": "{"x" * MAX_CALL_CHARS}"}}'
    assert called_action(padded, syntax="json", functions=TABLE) is None


@settings(deadline=None)
@given(st.text(max_size=60))
def test_promise_11_any_text_is_a_known_action_or_none(text: str) -> None:
    assert (called_action(f"goto({text})", syntax="python", functions=TABLE) or "go to ").startswith("go to ")
    assert called_action(text, syntax="json", functions=TABLE) is None


@pytest.mark.parametrize(
    ("rules", "action_format", "text", "action"),
    [
        (SCIWORLD, "function_call", 'So:\n```json\n{"thought": "a\nb", "function_name": "wait", "arguments": {"duration": 1}}\n```', "wait1"),
        (SCIWORLD, "function_call", '{"function_name": "lookin", "arguments": {"obj": "box"}}', "look in box"),
        (SCIWORLD, "function_call", '{"function_name": "read", "arguments": {"info": "book"}}', "read book"),
        (SCIWORLD, "function_call", '{"function_name": "use", "arguments": {"tool": "stopwatch"}}', "use stopwatch"),
        (SCIWORLD, "code_block", "```python\n# wait\nchoose(2)\n```", "2"),
        (SCIWORLD, "code_block", "```python\ndunk('cup', 'water')\n```", "dunk cup in water"),
        (ALFWORLD, "function_call", '{"function_name": "examine", "arguments": {"recep": "desk 1"}}', "examine desk 1"),
        (ALFWORLD, "code_block", "First ```look()``` then ```put('mug 1', 'desk 1')```", "put mug 1 in/on desk 1"),
        (ALFWORLD, "code_block", "```toggle(obj='lamp 1')```", "toggle lamp 1"),
        (WEBSHOP, "function_call", '{"function_name": "click", "arguments": "{\\"item\\": \\"buy now\\"}"}', "click[buy now]"),
        (WEBSHOP, "code_block", "```python\nsearch('red [shoes]')\n```", "search[red [shoes]]"),
        (WEBSHOP, "function_call", '{"function_name": "buy", "arguments": {}}', None),
        (WEBSHOP, "function_call", "I would rather not.", None),
        (WEBSHOP, "function_call", "{} {}", None),
        (ALFWORLD, "code_block", "no block at all", None),
        (ALFWORLD, "code_block", "```python\neval('1')\n```", None),
    ],
)
def test_families_read_calls_and_answer_unknown_ones_without_the_world(
    rules: dict[str, ActionRule], action_format: str, text: str, action: str | None
) -> None:
    parsed = read_action(text, rules[action_format])
    assert (parsed.action, parsed.valid) == (action or "", action is not None)
    assert (parsed.local_observation is None) is (action is not None)
    if action is None:
        assert str(parsed.local_observation).startswith("No function call could be read, so nothing was done.")


@pytest.mark.parametrize("rules", [SCIWORLD, ALFWORLD, WEBSHOP])
def test_a_known_action_said_in_a_block_is_read_back_and_as_a_call_it_is_refused(rules: dict[str, ActionRule]) -> None:
    assert read_action(action_text("search[mug 1]", "code_block"), rules["code_block"]).action == "search[mug 1]"
    with pytest.raises(PolicyError, match="expected react, code_block or plain"):
        action_text("look", "function_call")


@pytest.mark.parametrize(
    "value",
    ["NaN", "Infinity", "1e999", "10000000000000000000", '"a\\nb"', '"a\\u0000b"', "true", "[1]"],
)
def test_promise_11_an_argument_that_no_action_can_say_is_no_call(value: str) -> None:
    said = f'{{"function_name": "open", "arguments": {{"obj": {value}}}}}'
    assert called_action(said, syntax="json", functions={"open": ("open {obj}",)}) is None


@pytest.mark.parametrize("code", ["open(1e400)", "open(0x" + "F" * 5000 + ")", 'open("a\\nb")'])
def test_promise_11_the_same_in_python(code: str) -> None:
    assert called_action(code, syntax="python", functions={"open": ("open {obj}",)}) is None


def test_half_of_a_surrogate_pair_never_leaves_a_call() -> None:
    said = '{"function_name": "open", "arguments": {"obj": "\\ud800"}}'
    assert called_action(said, syntax="json", functions={"open": ("open {obj}",)}) == "open ?"
