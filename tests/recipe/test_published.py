"""Published lists of ids are read strictly: every way in which one can be wrong names the file and the place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe import published
from agentgym_cli.recipe.published import read_published


def written(folder: Path, content: str | bytes) -> Path:
    path = folder / "train.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_numbers_come_in_the_order_of_the_list(tmp_path: Path) -> None:
    text = '[{"item_id": "textcraft_31"}, {"conversations": [{"from": "human", "loss": null, "value": "hi"}], "item_id": "textcraft_0"}]'
    assert read_published(written(tmp_path, text), env="textcraft") == (31, 0)


def test_a_list_of_tasks_that_were_never_played_has_null_conversations(tmp_path: Path) -> None:
    assert read_published(written(tmp_path, '[{"item_id": "babyai_3", "conversations": null}]'), env="babyai") == (3,)


def test_an_environment_may_have_an_underscore_in_its_name(tmp_path: Path) -> None:
    assert read_published(written(tmp_path, '[{"item_id": "lmrlgym_maze_7"}]'), env="lmrlgym_maze") == (7,)


def test_windows_line_ends_and_a_byte_order_mark_change_nothing(tmp_path: Path) -> None:
    text = '\ufeff[\r\n  {"item_id": "toy_1"},\r\n  {"item_id": "toy_2"}\r\n]\r\n'
    assert read_published(written(tmp_path, text), env="toy") == (1, 2)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", ":1: expected JSON, got: an empty file"),
        (" \n ", ": expected JSON, got: an empty file"),
        ('[\n{"item_id": "toy_1"},\n]', ":3: expected JSON, got: "),
        ("[]", ': expected a list of {"item_id": "toy_NUMBER"}, got an empty list'),
        ('{"item_id": "toy_1"}', ': expected a list of {"item_id": "toy_NUMBER"}, got a mapping of item_id'),
        ("null", ': expected a list of {"item_id": "toy_NUMBER"}, got null'),
        ('["toy_1"]', ": entry 1: expected a mapping with item_id, got 'toy_1'"),
        ("[{}]", ": entry 1: item_id: expected toy_NUMBER, got nothing"),
        ('[{"item_id": 7}]', ": entry 1: item_id: expected toy_NUMBER, got 7"),
        ('[{"item_id": "toy_1"}, {"item_id": "toy_-1"}]', ": entry 2: item_id: expected toy_NUMBER, got 'toy_-1'"),
        ('[{"item_id": "toy_1.0"}]', ": entry 1: item_id: expected toy_NUMBER, got 'toy_1.0'"),
        ('[{"item_id": "toy_1e9"}]', ": entry 1: item_id: expected toy_NUMBER, got 'toy_1e9'"),
        ('[{"item_id": "toy_01"}]', ": entry 1: item_id: expected toy_NUMBER, got 'toy_01'"),
        ('[{"item_id": "toy_\u0663"}]', ": entry 1: item_id: expected toy_NUMBER, got 'toy_\u0663'"),
        ('[{"item_id": "toy_1234567890123"}]', ": entry 1: item_id: expected toy_NUMBER, got 'toy_1234567890123'"),
        ('[{"item_id": "7"}]', ": entry 1: item_id: expected toy_NUMBER, got '7'"),
        ('[{"item_id": "toy_1", "id": 3}]', ": entry 1: expected one of item_id, conversations, got the unknown key 'id'"),
        ('[{"item_id": "toy_1", "conversations": "x"}]', ": entry 1: conversations: expected a list or null, got 'x'"),
        (
            '[{"item_id": "toy_1"}, {"item_id": "toy_2"}, {"item_id": "toy_1"}]',
            ": entry 3: item_id: expected each task once, got toy_1 again (first is entry 1)",
        ),
        ('[{"item_id": "toy_1", "item_id": "toy_2"}]', ": expected JSON, got: a mapping with a key twice ('item_id')"),
        ('[{"item_id": "toy_1", "conversations": [NaN]}]', ": expected JSON, got: the number NaN"),
        ("[" * 100_000, ": expected JSON, got: "),
        (b'[{"item_id": "toy_\xff"}]', ":1: expected UTF-8, got byte 0xff at position 18"),
    ],
)
def test_promise_08_nothing_unknown_in_a_published_list_is_ignored(tmp_path: Path, content: str | bytes, message: str) -> None:
    path = written(tmp_path, content)
    with pytest.raises(RecipeError) as caught:
        read_published(path, env="toy")
    said = str(caught.value)
    assert said.removeprefix(str(path)).lstrip(":0123456789").startswith(message.lstrip(":0123456789"))
    assert said.startswith(f"{path}{message}") or message.startswith(": ")


def test_a_list_of_another_environment_says_of_which(tmp_path: Path) -> None:
    with pytest.raises(RecipeError) as caught:
        read_published(written(tmp_path, '[{"item_id": "babyai_12"}]'), env="textcraft")
    assert str(caught.value).endswith("entry 1: item_id: expected textcraft_NUMBER, got 'babyai_12'")
    assert caught.value.hint == "this is a list of 'babyai', and the dialect of the recipe is textcraft"


def test_ids_that_are_names_are_explained(tmp_path: Path) -> None:
    name = "look_at_obj_in_light-AlarmClock-None-DeskLamp-301/trial_T20190907_174127_043461"
    with pytest.raises(RecipeError) as caught:
        read_published(written(tmp_path, json.dumps([{"item_id": name}])), env="alfworld")
    assert "entry 1: item_id: expected alfworld_NUMBER, got 'look_at_obj_in_light-" in str(caught.value)
    assert caught.value.hint is not None


def test_a_list_of_sixty_megabytes_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "train.json"
    with path.open("wb") as file:
        file.truncate(60_000_000)
    with pytest.raises(RecipeError) as caught:
        read_published(path, env="toy")
    assert str(caught.value) == f"{path}: expected at most {published.MAX_BYTES} bytes, got more"
