"""Books from recipe files in the game's format, on folders that the tests write; the recipes are invented."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from agentgym_envs.textcraft.book import BookError
from agentgym_envs.textcraft.game import game_book
from agentgym_envs.textcraft.listing import needed_recipes
from agentgym_envs.textcraft.options import add_options, build
from agentgym_envs.textcraft.world import TextCraft


def shaped(output: object, pattern: list[str], key: dict[str, object], **rest: object) -> dict[str, object]:
    return {"type": "minecraft:crafting_shaped", "pattern": pattern, "key": key, "result": output, **rest}


def shapeless(output: object, *ingredients: object, **rest: object) -> dict[str, object]:
    return {"type": "minecraft:crafting_shapeless", "ingredients": list(ingredients), "result": output, **rest}


def item(name: str, **rest: object) -> dict[str, object]:
    return {"item": f"minecraft:{name}", **rest}


def tag(name: str) -> dict[str, object]:
    return {"tag": f"minecraft:{name}"}


def folder_of(root: Path, **files: object) -> Path:
    """A folder with one recipe file for each name."""
    for name, recipe in files.items():
        (root / f"{name}.json").write_text(json.dumps(recipe))
    return root


def lines(root: Path, **files: object) -> list[str]:
    return [str(recipe) for recipe in game_book(folder_of(root, **files)).recipes]


def test_shaped_and_shapeless_recipes_become_lines_with_counts(tmp_path: Path) -> None:
    assert lines(
        tmp_path,
        a=shaped(item("fir_raft", count=2), ["# #", "#r#"], {"#": item("fir_log"), "r": item("red_rope")}),
        b=shapeless(item("glow_soup"), item("bog_leaf"), item("tin_bowl"), item("bog_leaf")),
    ) == ["craft 2 fir raft using 4 fir log, 1 red rope", "craft 1 glow soup using 2 bog leaf, 1 tin bowl"]


def test_other_spellings_of_the_format_are_read(tmp_path: Path) -> None:
    assert lines(
        tmp_path,
        a=shaped("minecraft:rope", ["ff"], {"f": "minecraft:flax"}),
        b=shapeless({"id": "minecraft:mat", "count": 3}, "#minecraft:reeds", [item("rope"), item("cord")]),
        c={"type": "crafting_shapeless", "ingredients": [item("mat")], "result": item("rug")},
        d={"type": "minecraft:smelting", "ingredient": item("rug"), "result": "minecraft:ash"},
    ) == ["craft 1 rope using 2 flax", "craft 3 mat using 1 reeds, 1 rope", "craft 1 rug using 1 mat"]


def test_files_are_read_in_sorted_order_however_they_were_written(tmp_path: Path) -> None:
    files = {name: shapeless(item(name), item("flax")) for name in ("zed", "mat", "ark")}
    assert game_book(folder_of(tmp_path, **files)).goals == ("ark", "mat", "zed")


def test_a_recipes_folder_inside_is_found(tmp_path: Path) -> None:
    (tmp_path / "recipes").mkdir()
    folder_of(tmp_path / "recipes", a=shapeless(item("mat"), item("flax")))
    assert game_book(tmp_path).goals == ("mat",)


def test_a_tag_is_satisfied_by_made_items_of_its_group(tmp_path: Path) -> None:
    book = game_book(
        folder_of(
            tmp_path,
            fir=shapeless(item("fir_board", count=4), item("fir_log"), group="boards"),
            elm=shapeless(item("elm_board", count=4), item("elm_log"), group="boards"),
            rack=shaped(item("rack"), ["##"], {"#": tag("boards")}),
        )
    )
    assert dict(book.tags) == {"boards": ("elm board", "fir board")}
    assert book.depths["rack"] == 2
    assert len(needed_recipes(book, "rack")) == 3
    session = TextCraft(book=book).open()
    session.reset(book.goals.index("rack"))
    replies = [session.step(action) for action in ("get 1 fir log", "craft fir board using 1 fir log", "craft 1 rack using 2 fir board")]
    assert [(reply.observation, reply.reward) for reply in replies] == [
        ("Got 1 fir log", 0),
        ("Crafted 4 minecraft:fir_board", 0),
        ("Crafted 1 minecraft:rack", 1),
    ]


def test_a_tag_without_made_members_becomes_an_item_that_is_found(tmp_path: Path) -> None:
    book = game_book(
        folder_of(tmp_path, board=shapeless(item("fir_board", count=4), tag("fir_logs")), saw=shapeless(item("saw"), item("fir_log"), item("blade")))
    )
    session = TextCraft(book=book).open()
    session.reset(0)
    assert [session.step(action).observation for action in ("get 1 fir log", "craft fir board using 1 fir log", "get 1 fir logs")] == [
        "Got 1 fir log",
        "Could not find a valid recipe for 1 minecraft:fir_board",
        "Got 1 fir logs",
    ]
    assert session.step("craft 4 fir board using 1 fir logs").done


def test_a_recipe_from_one_block_is_left_out_and_its_output_is_found(tmp_path: Path) -> None:
    book = game_book(
        folder_of(
            tmp_path,
            back=shapeless(item("jade", count=9), item("jade_block")),
            block=shaped(item("jade_block"), ["###", "###", "###"], {"#": item("jade")}),
        )
    )
    assert [str(recipe) for recipe in book.recipes] == ["craft 1 jade block using 9 jade"]
    assert book.is_found("jade")


def test_a_recipe_that_closes_a_cycle_over_those_read_before_is_left_out(tmp_path: Path) -> None:
    assert lines(
        tmp_path,
        a_bale=shapeless(item("bale"), item("hay")),
        b_hay=shapeless(item("hay", count=9), item("bale")),
        c_cart=shapeless(item("cart"), item("bale"), item("wheel")),
        d_bale=shapeless(item("bale"), item("cart")),
    ) == ["craft 1 bale using 1 hay", "craft 1 cart using 1 bale, 1 wheel"]


def test_recipes_that_need_each_other_through_a_tag_are_read_or_refused_in_words(tmp_path: Path) -> None:
    beside = {"b_elm": shapeless(item("elm_board"), item("elm_log"), group="boards"), "c_crate": shapeless(item("crate"), tag("boards"))}
    looped = {"a_fir": shapeless(item("fir_board"), item("crate"), group="boards")}
    book = game_book(folder_of(tmp_path, **looped, **beside))
    assert {name: book.depths[name] for name in ("elm board", "crate", "fir board")} == {"elm board": 1, "crate": 2, "fir board": 3}
    (tmp_path / "b_elm.json").unlink()
    with pytest.raises(BookError, match=r"expected every item to be reachable, got \['boards', 'crate', 'fir board'\] from nothing that is found"):
        game_book(tmp_path)


def test_a_group_named_like_its_output_is_no_tag(tmp_path: Path) -> None:
    book = game_book(folder_of(tmp_path, a=shapeless(item("rope"), item("flax"), group="rope"), b=shapeless(item("mat"), item("rope"))))
    assert dict(book.tags) == {}
    assert book.depths["mat"] == 2


def test_a_member_of_a_tag_whose_recipe_closes_a_cycle_is_found_and_satisfies_the_tag(tmp_path: Path) -> None:
    book = game_book(
        folder_of(
            tmp_path,
            a_dry=shapeless(item("dry_board"), item("soft_board")),
            b_soft=shapeless(item("soft_board"), item("dry_board"), group="boards"),
            c_fir=shapeless(item("fir_board"), item("fir_log"), group="boards"),
            d_rack=shapeless(item("rack"), tag("boards")),
        )
    )
    assert (dict(book.tags), dict(book.found_members)) == ({"boards": ("fir board",)}, {"boards": ("soft board",)})
    assert book.depths["rack"] == 2, "the found member has no part in the tag's depth"
    session = TextCraft(book=book).open()
    session.reset(book.goals.index("rack"))
    assert [session.step(action).observation for action in ("get 1 soft board", "craft rack using 1 soft board")] == [
        "Got 1 soft board",
        "Crafted 1 minecraft:rack",
    ]


def test_a_tag_is_as_deep_as_the_recipes_that_name_it(tmp_path: Path) -> None:
    book = game_book(
        folder_of(
            tmp_path,
            a_cord=shapeless(item("cord"), item("flax")),
            b_rope=shapeless(item("rope"), item("cord"), group="ropes"),
            c_rope=shapeless(item("rope"), item("hemp")),
            d_net=shapeless(item("net"), tag("ropes")),
        )
    )
    assert {name: book.depths[name] for name in ("cord", "rope", "net")} == {"cord": 1, "rope": 1, "net": 3}


def test_an_item_under_two_letters_of_a_pattern_is_two_inputs_and_repeated_in_a_list_is_one(tmp_path: Path) -> None:
    assert lines(
        tmp_path,
        a=shaped(item("net"), ["xyx"], {"x": item("rope"), "y": item("rope")}),
        b=shapeless(item("coil"), item("rope"), item("rag"), item("rope")),
    ) == ["craft 1 net using 2 rope, 1 rope", "craft 1 coil using 2 rope, 1 rag"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"type": 5}',
        '{"type": "minecraft:crafting_shaped", "result": "minecraft:x"}',
        '{"type": "minecraft:crafting_shapeless", "ingredients": [{}], "result": "minecraft:x"}',
        '{"type": "minecraft:crafting_shapeless", "ingredients": [[]], "result": "minecraft:x"}',
        '{"type": "minecraft:crafting_shapeless", "ingredients": [], "result": "minecraft:x"}',
        '{"type": "minecraft:crafting_shapeless", "ingredients": ["minecraft:y"], "result": {}}',
        '{"type": "minecraft:crafting_shapeless", "ingredients": ["minecraft:y"], "result": {"item": "minecraft:x", "count": 0}}',
        '{"type": "minecraft:crafting_shapeless", "ingredients": ["minecraft:y"], "result": {"item": "minecraft:x", "count": "two"}}',
        '{"type": "minecraft:crafting_shaped", "pattern": ["a"], "key": {"b": "minecraft:y"}, "result": "minecraft:x"}',
        '{"type": "minecraft:crafting_shaped", "pattern": ["a"], "key": {"a": "minecraft:y"}, "result": "minecraft:x", "group": 4}',
        '{"type": "minecraft:crafting_shapeless", "ingredients": ["minecraft:y"], "result": {"item": "minecraft:x", "count": true}}',
        '{"type": "minecraft:crafting_shapeless", "ingredients": ["minecraft:y"], "result": {"item": "minecraft:x", "count": 1000001}}',
        '{"type": "minecraft:crafting_shapeless", "ingredients": [' + "[" * 1000 + "]" * 1000 + '], "result": "minecraft:x"}',
        '{"type": "minecraft:crafting_shapeless", "ingredients": [[["minecraft:y"]]], "result": "minecraft:x"}',
        '{"type": "minecraft:crafting_shapeless", "ingredients": [{"item": ' + "[" * 1000 + "]" * 1000 + '}], "result": "minecraft:x"}',
        '{"type": "minecraft:crafting_shapeless", "ingredients": ["minecraft:y"], "result": ' + "[" * 1000 + "]" * 1000 + "}",
        '{"type": "minecraft:crafting_shaped", "pattern": [1], "key": {"1": "minecraft:y"}, "result": "minecraft:x"}',
        json.dumps(shapeless("minecraft:x", *(f"minecraft:y{number}" for number in range(33)))),
        "[" * 100_000,
    ],
)
def test_a_file_that_is_no_recipe_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "odd.json").write_text(text)
    with pytest.raises(BookError, match=r"^odd\.json: expected"):
        game_book(tmp_path)


@pytest.mark.parametrize(
    "name", ["a, 1 b", "a,b", "a\nb", "a\u2028b", " a", "a_", "", "minecraft:", "\x1b[2J", "a using b", "a_using_b", "x" * 101], ids=repr
)
def test_a_name_that_cannot_stand_in_an_action_is_refused_by_its_file(tmp_path: Path, name: str) -> None:
    for recipe in (shapeless(name, item("y")), shapeless(item("x"), name), shapeless(item("x"), {"tag": name})):
        (tmp_path / "odd.json").write_text(json.dumps(recipe), encoding="utf-8")
        with pytest.raises(
            BookError, match=r"^odd\.json: expected a recipe in the game's format, got ValueError: a name that cannot stand in an action, "
        ):
            game_book(tmp_path)


def test_a_craft_of_the_most_inputs_with_the_longest_names_and_counts_is_executed(tmp_path: Path) -> None:
    names = [f"{number:02}{'x' * 98}" for number in range(32)]
    book = game_book(folder_of(tmp_path, a=shapeless({"item": "g" * 100, "count": 1_000_000}, *names, names[0])))
    session = TextCraft(book=book).open()
    session.reset(0)
    assert [session.step(action).done for action in session.oracle()] == [False] * 32 + [True]


def test_a_large_file_is_refused_unread(tmp_path: Path) -> None:
    (tmp_path / "odd.json").write_bytes(b" " * 1_000_001)
    with pytest.raises(BookError, match=r"^odd\.json: expected at most 1000000 bytes"):
        game_book(tmp_path)


def test_a_folder_without_recipes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BookError, match=r"expected 1 to 20000 recipe files \(\*\.json\), got 0"):
        game_book(tmp_path)


def test_a_folder_that_makes_nothing_is_refused(tmp_path: Path) -> None:
    folder_of(tmp_path, a={"type": "minecraft:smelting"}, b=shapeless(item("jade"), item("jade_block")))
    with pytest.raises(BookError, match=r"expected a recipe that makes something from something, got none in 2 files"):
        game_book(tmp_path)


def test_a_folder_that_is_not_there_is_said_to_be_not_there(tmp_path: Path) -> None:
    with pytest.raises(BookError, match=rf"^{tmp_path}/none: expected a folder of recipe files \(\*\.json\), got none: it is not there$"):
        game_book(tmp_path / "none")
    (tmp_path / "file").write_text("")
    with pytest.raises(BookError, match=r"/file: expected a folder of recipe files \(\*\.json\), got a file$"):
        game_book(tmp_path / "file")


def test_the_option_recipes_serves_the_folder_and_the_option_book_a_shipped_book(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    add_options(parser)
    folder_of(tmp_path, a=shapeless(item("reed_mat"), item("reed")))
    world = build(parser.parse_args(["--recipes", str(tmp_path)]))
    assert (world.task_count, world.open().reset(0).observation) == (1, "Crafting commands:\ncraft 1 reed mat using 1 reed\n\nGoal: craft reed mat.")
    assert [build(parser.parse_args(args)).task_count for args in ([], ["--book", "big"], ["--book", "laptop"])] == [544, 544, 1920]
