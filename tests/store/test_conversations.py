"""Files of conversations to learn from: what is learned of each reply, and what is refused, with file and line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from agentgym_cli.errors import RecipeError
from agentgym_cli.store.importing.conversations import Spoken, agenttraj_conversations, pairs_of_file


def said(*texts: str, loss: Sequence[bool | None] = ()) -> list[dict[str, object]]:
    """AgentTraj's messages, the human first; ``loss`` of the replies, true where it is not given."""
    flags = [*loss, *[True] * len(texts)]
    return [
        {"from": "gpt" if place % 2 else "human", "value": text, "loss": flags[place // 2] if place % 2 else None} for place, text in enumerate(texts)
    ]


def write(path: Path, *rows: object) -> Path:
    path.write_text(json.dumps(list(rows), indent=1), encoding="utf-8")
    return path


def row(*texts: str, item: object = "textcraft_31", loss: Sequence[bool | None] = ()) -> dict[str, object]:
    return {"item_id": item, "conversations": said(*texts, loss=loss)}


def test_the_canned_reply_to_the_rules_is_left_out_and_the_rest_is_learned_by_its_flag(tmp_path: Path) -> None:
    file = write(tmp_path / "t.json", row("rules", "OK", "Goal", "look", "A shelf", "get lamp", loss=[False, True, False]))
    (found,) = agenttraj_conversations(file, "textcraft")
    assert found.number == 31
    assert found.turns == (Spoken("Goal", "look", True), Spoken("A shelf", "get lamp", False))
    assert found.where == f"{file}:2"


def test_a_first_reply_that_is_learned_is_no_canned_one(tmp_path: Path) -> None:
    (found,) = agenttraj_conversations(write(tmp_path / "t.json", row("Goal", "look", "A shelf", "get lamp")), "textcraft")
    assert found.turns == (Spoken("Goal", "look", True), Spoken("A shelf", "get lamp", True))


def test_a_reply_without_a_flag_is_not_learned(tmp_path: Path) -> None:
    (found,) = agenttraj_conversations(write(tmp_path / "t.json", row("Goal", "look", loss=[None])), "textcraft")
    assert found.turns == (Spoken("Goal", "look", False),)


@pytest.mark.parametrize(
    ("bad", "said_of_it"),
    [
        (row("Goal", "look", item="babyai_3"), "expected tasks of textcraft, the environment of the recipe, got 'babyai_3'"),
        (row("Goal", "look", item=3), "expected item_id to be a name and a number like textcraft_31, got 3"),
        (row("Goal", "look", item="textcraft_x"), "expected item_id to be a name and a number like textcraft_31"),
        ({"item_id": "textcraft_1", "conversations": None}, "expected conversations to be a list of messages, got null"),
        ({"item_id": "textcraft_1", "conversations": said("Goal")}, "expected a reply of gpt, got 'none'"),
        ({"item_id": "textcraft_1", "conversations": [{"from": "you", "value": "x"}]}, "expected who speaks to be gpt, human or system, got 'you'"),
        ({"item_id": "textcraft_1", "conversations": [{"from": "gpt", "value": "x", "loss": 1}]}, "expected loss to be true, false or null, got 1"),
        ({"item_id": "textcraft_1", "conversations": said("Goal", "look"), "reward": 1}, "got 'the unknown reward'"),
    ],
)
def test_what_is_no_demonstration_is_refused_with_its_line(tmp_path: Path, bad: object, said_of_it: str) -> None:
    file = write(tmp_path / "t.json", row("Goal", "look"), bad)
    with pytest.raises(RecipeError) as caught:
        list(agenttraj_conversations(file, "textcraft"))
    assert said_of_it in caught.value.message
    assert caught.value.message.startswith(f"{file}:")
    assert not caught.value.message.startswith(f"{file}:2:")


def pair(**changed: object) -> dict[str, object]:
    def side(action: str) -> list[dict[str, str]]:
        return [{"role": "user", "content": "Goal"}, {"role": "assistant", "content": action}]

    return {"task": "textcraft_7", "chosen": side("get lamp"), "rejected": side("sleep")} | changed


def lines(path: Path, *values: object) -> Path:
    path.write_text("".join(f"{json.dumps(value)}\n" for value in values), encoding="utf-8")
    return path


def test_a_line_is_a_pair_of_which_every_reply_is_learned(tmp_path: Path) -> None:
    (found,) = pairs_of_file(lines(tmp_path / "p.jsonl", pair()), "textcraft")
    assert (found.chosen.number, found.chosen.turns, found.rejected.turns) == (
        7,
        (Spoken("Goal", "get lamp", True),),
        (Spoken("Goal", "sleep", True),),
    )


@pytest.mark.parametrize(
    ("bad", "said_of_it"),
    [
        (pair(task="babyai_7"), "expected a task of textcraft like textcraft_31, got 'babyai_7'"),
        (pair(chosen="get lamp"), "expected chosen to be a list of {role, content}"),
        (pair(rejected=[{"role": "user", "content": "Goal"}]), "expected rejected to be a list of {role, content} with a reply of the assistant"),
        (pair(rejected=[{"role": "gpt", "content": "Goal"}]), "expected rejected to be a list"),
        (pair(more=1), "expected the fields task, chosen and rejected"),
        ([], "expected a JSON object, got []"),
    ],
)
def test_what_is_no_pair_is_refused_with_its_line(tmp_path: Path, bad: object, said_of_it: str) -> None:
    file = lines(tmp_path / "p.jsonl", pair(), bad)
    with pytest.raises(RecipeError) as caught:
        list(pairs_of_file(file, "textcraft"))
    assert caught.value.message.startswith(f"{file}:2: ") and said_of_it in caught.value.message


def test_text_that_is_no_json_is_refused_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "p.jsonl"
    file.write_text("\n{oh\n")
    with pytest.raises(RecipeError, match=r"p.jsonl:2: expected a JSON object, got '\{oh"):
        list(pairs_of_file(file, "textcraft"))
