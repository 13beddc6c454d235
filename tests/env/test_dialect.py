"""Dialect files: what they may say, and how loudly what they may not say is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agentgym_cli.env.dialect import Dialect, load_dialect, shipped_dialects
from agentgym_cli.env.dialect_routes import Match
from agentgym_cli.errors import RecipeError

TEXTCRAFT = load_dialect("textcraft")


def edited(folder: Path, old: str, new: str) -> Dialect:
    text = TEXTCRAFT.path.read_text()
    assert text.count(old) >= 1
    (folder / "mine.yaml").write_text(text.replace(old, new, 1))
    (folder / "textcraft.txt").write_text("Craft.")
    return load_dialect(folder / "mine.yaml")


@pytest.mark.slow
def test_every_shipped_dialect_loads_by_name():
    assert "textcraft" in shipped_dialects()
    for name in shipped_dialects():
        dialect = load_dialect(name)
        assert dialect.name == name
        assert dialect.path.name == f"{name}.yaml"
        assert dialect.prompt_path.read_text() == dialect.system_prompt


def test_the_rules_of_textcraft():
    rules = TEXTCRAFT.rules()
    assert (rules.env, rules.reward_kind, rules.success_reward, rules.verified) == ("textcraft", "terminal", 1.0, False)
    assert set(rules.actions) == {"react", "plain"}
    assert rules.actions["plain"].pattern is None
    assert rules.system_prompt.startswith("You play a crafting game")


def test_the_rules_say_how_long_an_oracle_may_take_where_a_dialect_does():
    assert (load_dialect("sciworld").rules().oracle_seconds, TEXTCRAFT.rules().oracle_seconds) == (300, 0)


@pytest.mark.parametrize("seconds", ["0", "-1", "3601", "true", "soon"])
def test_the_seconds_of_an_oracle_are_a_number_of_at_most_an_hour(tmp_path, seconds):
    with pytest.raises(RecipeError, match=r"routes\.oracle\.seconds"):
        edited(tmp_path, "actions: /actions}", f"actions: /actions, seconds: {seconds}}}")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Thought: x\nAction: get 2 oak log", ["get 2 oak log"]),
        ("Action:\ncraft 1 stick using 1 bamboo\nand more", ["craft 1 stick using 1 bamboo"]),
        ("Action: a\nAction: b", ["a", "b"]),
        ("I will get wood", []),
        ("Action:", [""]),
    ],
)
def test_textcraft_reads_actions_as_agentgym_does(text, found):
    assert re.findall(TEXTCRAFT.rules().actions["react"].pattern, text, re.DOTALL) == found


def test_textcraft_says_what_a_task_asks_for():
    assert TEXTCRAFT.spec.goal_in("Crafting commands:\ncraft 1 a using 1 b\n\nGoal: craft cyan banner.") == "cyan banner"
    assert TEXTCRAFT.spec.goal_in("Goal: fly") == TEXTCRAFT.spec.goal_in("") == ""


def test_textcraft_deletes_what_agentgym_deletes():
    assert re.sub(TEXTCRAFT.rules().actions["react"].remove, "", "`get 2 oak_log`, [now]!") == "get 2 oaklog, now"


@pytest.mark.parametrize(
    ("observation", "invalid"),
    [
        ("Could not execute fly to the moon", True),
        ("Could not find unobtainium", True),
        ("Could not find enough items to craft minecraft:light_blue_dye", True),
        ("Wrong item format: blue orchid", True),
        ("Got 0 lapis lazuli", False),
        ("Crafted 1 minecraft:stick", False),
        ("Inventory: [Could not ] (1)", False),
    ],
)
def test_textcraft_knows_what_could_not_be_executed(observation, invalid):
    assert TEXTCRAFT.spec.says_invalid(observation) is invalid


def test_what_the_random_policy_finds_in_a_listing():
    observation = "Crafting commands:\ncraft 4 acacia planks using 1 acacia logs\ncraft 1 bow using 3 stick, 3 string\n\nGoal: craft bow."
    listed = TEXTCRAFT.rules().random_listed
    found = [rule.say.replace("{}", match[1]) for rule in listed for match in re.finditer(rule.pattern, observation, re.MULTILINE)]
    assert found == [
        "craft 4 acacia planks using 1 acacia logs",
        "craft 1 bow using 3 stick, 3 string",
        "get 1 acacia logs",
        "get 3 stick",
        "get 3 string",
    ]


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        (
            "action_field",
            "action_feild",
            ":14: routes.step.action_feild: expected one of call, send, errors, not_errors, action_field",
            "did you mean action_field?",
        ),
        ("session: {field", "sesion: {field", ":7: sesion: expected one of name,", "did you mean session?"),
        ("pattern: null", "patern: null", ":30: actions.plain.patern: expected one of pattern, remove", "did you mean pattern?"),
        ("{pointer: /error}", "{pointer: /error, equal: 3}", ":22: errors.0.equal: expected one of status, pointer", "did you mean equals?"),
        ("done_latching:", "done_latch:", ":47: deviations.done_latch: expected one of health, identity", "did you mean done_latching?"),
        (
            "reward_kind: terminal",
            "reward_kind: final",
            "success.reward_kind: expected one of terminal, per_step, cumulative, got 'final'",
            "did you mean terminal?",
        ),
        ("reward: /reward", "reward: reward", ":14: routes.step.reward: expected text that matches", None),
        ("at_least: 1", "at_least: .nan", ":32: expected a finite number, got .nan", None),
        ("at_least: 1", "at_least: yes", "success.at_least: expected a number, got 'yes'", None),
        ("done_sticky: false", "done_sticky: 0", "done_sticky: expected true or false, got 0", None),
        ("done_sticky: false", "", "done_sticky: expected a value, got nothing", None),
        ("default_port: 36001", "default_port: 99999", "default_port: expected less than or equal to 65535, got 99999", None),
        ("{pointer: /error}", "{pointer: /error, equals: 3, is_null: true}", "errors.0: expected at most one of equals, matches, is_null", None),
        ("{pointer: /error}", "{}", "errors.0: expected a status or a pointer", None),
        ("{pointer: /error}", "{status: 200, equals: 3}", "errors.0: expected a pointer beside equals", None),
        ("'Could not '", "'Could not ('", "invalid_action.0: expected a regular expression, got 'Could not ('", None),
        ("data_idx, observation: /observation", "data_idx", "routes.reset.observation: expected a value, got nothing", None),
        ("call: POST /step", "call: GET /step", "routes.step.call: expected text that matches", None),
        ("prompt: textcraft.txt", "prompt: ../secret.txt", "prompt: expected text that matches", None),
        ("prompt: textcraft.txt", "prompt: missing.txt", "missing.txt: expected a readable file", None),
        ("deviations:\n  done_latching", "deviations:\n  isolation", "expected deviations.done_latching to say what the client does", None),
        ("craft (.+?)", "craft .+?", "expected goal to have a group, got '^Goal: craft .+?\\\\.?$'", None),
        ("recycled: false", "recycled: true", "expected deviations.id_recycling to say what the client does", None),
        ('say: "get {}"', 'say: "get"', "random.listed.1.say: expected text that matches", None),
        ("pattern: 'Action:\\s*(.*?)(?=\\n|$)'", "pattern: 'Action'", "actions.react: expected a pattern with a group, got 'Action'", None),
        ("name: textcraft", "name: textcraft\nname: babyai", "expected each key once", None),
        ("name: textcraft", "name: !!python/name:os.system x", "expected plain values, got the tag", None),
        ("name: textcraft", "name: &a textcraft", "expected plain values, got the anchor", None),
    ],
)
def test_promise_08_a_dialect_that_cannot_be_meant_is_refused(tmp_path, old, new, message, hint):
    with pytest.raises(RecipeError) as caught:
        edited(tmp_path, old, new)
    assert message in str(caught.value)
    assert caught.value.hint == hint
    assert str(tmp_path) in str(caught.value)


def test_promise_08_a_first_observation_that_comes_from_nowhere_is_refused(tmp_path):
    assert edited(tmp_path, "data_idx, observation: /observation", "data_idx, observation: null").spec.routes.reset.observation is None
    observe = '  observe: {call: GET /observation, observation: ""}\n'
    text = (tmp_path / "mine.yaml").read_text()
    assert observe in text
    (tmp_path / "mine.yaml").write_text(text.replace(observe, ""))
    with pytest.raises(RecipeError, match=r"expected an observe route beside reset\.observation: null"):
        load_dialect(tmp_path / "mine.yaml")


def test_promise_08_an_unknown_dialect_is_refused_with_the_nearest_name():
    with pytest.raises(RecipeError) as caught:
        load_dialect("textcarft")
    assert str(caught.value).startswith("dialect: expected one of ")
    assert caught.value.hint == "did you mean textcraft? A dialect of your own is named by its path"


@pytest.mark.slow
def test_promise_11_a_prompt_beyond_bounds_is_refused(tmp_path):
    edited(tmp_path, "name: textcraft", "name: mine")
    (tmp_path / "textcraft.txt").write_text("x" * 70_000)
    with pytest.raises(RecipeError, match="expected at most 65536 bytes"):
        load_dialect(tmp_path / "mine.yaml")


@pytest.mark.parametrize(
    ("match", "status", "body", "holds"),
    [
        (Match(pointer="/error"), 200, {"error": None}, True),
        (Match(pointer="/error"), 200, {"errors": 1}, False),
        (Match(pointer="/error"), 200, "error", False),
        (Match(pointer="/error"), 500, {"error": "x"}, False),
        (Match(pointer="/error", status=500), 500, {"error": "x"}, True),
        (Match(status=503), 503, "busy", True),
        (Match(pointer="", equals=False), 200, False, True),
        (Match(pointer="", equals=False), 200, 0, False),
        (Match(pointer="", equals=0), 200, False, False),
        (Match(pointer="", equals=1), 200, 1.0, True),
        (Match(pointer="/info", is_null=True), 200, {"info": None}, True),
        (Match(pointer="/info", is_null=True), 200, {}, False),
        (Match(pointer="/0", matches="^Timeout"), 200, ["TimeoutError", None], True),
        (Match(pointer="/0", matches="^Timeout"), 200, [5], False),
    ],
)
def test_a_match_holds_only_when_everything_it_names_does(match, status, body, holds):
    assert match.holds(status, body) is holds


@pytest.mark.parametrize(
    ("kind", "rewards", "met"),
    [("terminal", [0.0, 1.0], True), ("terminal", [1.0, 0.0], False), ("per_step", [0.5, 0.5], True), ("cumulative", [0.5, 0.9], False)],
)
def test_rewards_add_up_as_the_dialect_says(tmp_path, kind, rewards, met):
    assert edited(tmp_path, "reward_kind: terminal", f"reward_kind: {kind}").spec.success.met(rewards) is met
