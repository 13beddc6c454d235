"""BabyAI's text and actions against views drawn by hand. Needs no MiniGrid."""

from __future__ import annotations

import base64
import struct
import zlib

import pytest

from agentgym_envs.babyai.actions import actions_in
from agentgym_envs.babyai.options import ready
from agentgym_envs.babyai.paths import Paths
from agentgym_envs.babyai.png import data_url, png
from agentgym_envs.babyai.view import Sight, describe, things_in
from tests.envs.grids import seen

LEFT, RIGHT, FORWARD, PICK_UP, DROP, TOGGLE = range(6)
ROOM = "The room has walls around you. "
EMPTY_HANDS = "You are not carrying anything."


def text(sight: Sight) -> str:
    return describe(sight, things_in(sight))


def moves(sight: Sight) -> dict[str, tuple[int, ...]]:
    return actions_in(sight, things_in(sight)).moves


def refusals(sight: Sight) -> dict[str, str]:
    return actions_in(sight, things_in(sight)).refused


def test_things_are_told_from_the_nearest_on_and_equal_names_are_numbered() -> None:
    sight = seen("  k    ", "      b", "   k   ", "   ^   ")
    assert text(sight) == (
        "In front of you in this room, you can see several objects: There is a red key 1 right in front of you 1 steps away.  "
        "There is a red key 2 3 steps in front of you and 1 steps to your left.  There is a blue ball 1 2 steps in front of you and 3 steps to "
        "your right.  " + ROOM + EMPTY_HANDS
    )


def test_of_equally_near_things_the_farther_row_comes_first_and_then_the_left() -> None:
    names = [thing.name for thing in things_in(seen("   b   ", "  x K  ", " k ^ k "))]
    assert names == ["blue ball", "green box", "yellow key", "red key", "red key"]
    places = [(thing.forward, thing.rightward) for thing in things_in(seen("   b   ", "  x K  ", " k ^ k "))]
    assert places == [(2, 0), (1, -1), (1, 1), (0, -2), (0, 2)]


def test_a_room_without_anything_in_sight() -> None:
    assert text(seen("   ^   ")) == "You cannot see any objects within sight." + ROOM + EMPTY_HANDS


def test_the_wall_or_box_straight_ahead_is_told_and_walls_are_not_listed() -> None:
    walled = seen("WWWWWWW", "       ", "   ^   ")
    assert text(walled) == (
        "In front of you in this room, you can see several objects: " + ROOM + "You are facing a wall 2 steps away. " + EMPTY_HANDS
    )
    boxed = seen("WWWWWWW", "   x   ", "   ^   ", carrying=("red", "key"))
    assert text(boxed).endswith(ROOM + "You are facing a box 1 steps away. You are carrying a red key.")


def test_doors_are_told_with_their_state() -> None:
    said = text(seen("WoWcWlW", "   ^   "))
    assert [name for name in ("red open door 1", "red closed door 1", "yellow locked door 1") if f"There is a {name} " in said] == [
        "red open door 1",
        "red closed door 1",
        "yellow locked door 1",
    ]


def test_what_the_agent_carries_is_no_thing_in_view() -> None:
    sight = seen("   ^   ", carrying=("blue", "ball"))
    held = [[list(cell) for cell in column] for column in sight.cells]
    held[3][6] = [6, 2, 0]
    assert things_in(Sight(cells=held, place=(10, 10), facing=3, carrying=("blue", "ball"))) == ()


@pytest.mark.parametrize(("facing", "place"), [(0, (12, 11)), (1, (9, 12)), (2, (8, 9)), (3, (11, 8))], ids=["right", "down", "left", "up"])
def test_a_thing_two_ahead_and_one_to_the_right_has_a_place_on_the_map(facing: int, place: tuple[int, int]) -> None:
    (thing,) = things_in(seen("    b  ", "       ", "   ^   ", facing=facing))
    assert (thing.place, thing.forward, thing.rightward) == (place, 2, 1)


def test_actions_in_an_empty_room() -> None:
    assert moves(seen("   ^   ")) == {"turn left": (LEFT,), "turn right": (RIGHT,), "move forward": (FORWARD,), "check available actions": ()}


def test_a_barrier_ahead_refuses_to_move_forward_and_a_key_does_not() -> None:
    assert refusals(seen("WWWWWWW", "   ^   "))["move forward"] == "There is a barrier in front of you, you can't move forward."
    assert "move forward" not in moves(seen("   x   ", "   ^   "))
    assert moves(seen("   k   ", "   ^   "))["move forward"] == (FORWARD,)


def test_going_to_a_thing_ends_before_it_and_picking_up_ends_with_the_pick_up() -> None:
    sight = seen("   k   ", "       ", "   ^   ")
    assert moves(sight)["go to red key 1"] == (FORWARD,)
    assert moves(sight)["pickup red key 1"] == (FORWARD, PICK_UP)
    assert moves(seen("   k   ", "   ^   "))["go to red key 1"] == ()


def test_a_thing_to_the_side_is_reached_by_going_first_and_turning_then() -> None:
    # One ahead and two to the right: forward, turn right, forward; turning first takes four moves.
    assert moves(seen("     b ", "   ^   "))["go to blue ball 1"] == (FORWARD, RIGHT, FORWARD)
    assert moves(seen("  k    ", "   ^   "))["go to red key 1"] == (FORWARD, LEFT)


def test_a_way_leads_around_what_blocks_it() -> None:
    # The ball is two ahead behind a box, in a corridor three cells wide: around the left side, since left is tried before right.
    sight = seen("WW b WW", "WW x WW", "WW ^ WW")
    assert moves(sight)["go to blue ball 1"] == (LEFT, FORWARD, RIGHT, FORWARD, FORWARD, RIGHT)


def test_what_cannot_be_reached_is_refused_and_does_not_count_in_the_numbers_of_the_rest() -> None:
    # The nearer of two keys stands walled in, so that the farther one is number 2 in the text and number 1 in the actions.
    sight = seen("  WWW  ", "  WkW  ", "  WWW  ", "   ^  k")
    assert "There is a red key 2 0 steps in front of you and 3 steps to your right" in text(sight)
    assert moves(sight)["go to red key 1"] == (RIGHT, FORWARD, FORWARD) and "go to red key 2" not in moves(sight)
    sight = seen("WWW    ", "WkW    ", "WWW    ", "   ^  k")
    assert "There is a red key 2 2 steps in front of you and 2 steps to your left" in text(sight)
    assert refusals(sight)["go to red key 2"] == "You cannot go to red key 2, as there is no path leading to it."
    assert refusals(sight)["pickup red key 2"] == "You cannot pickup red key 2, as there is no path leading to it."


def test_hands_decide_between_picking_up_and_dropping() -> None:
    empty, full = seen(" k     ", "   ^   "), seen(" k     ", "   ^   ", carrying=("blue", "ball"))
    assert "pickup red key 1" in moves(empty) and "drop" not in moves(empty)
    assert refusals(empty)["drop"] == "You cannot drop the object, as you are not carrying anything."
    assert moves(full)["drop"] == (DROP,) and not any(action.startswith("pickup") for action in moves(full))
    blocked = seen("   k   ", "   ^   ", carrying=("blue", "ball"))
    assert refusals(blocked)["drop"] == "You cannot drop the object, as there is already an object in front of you."


def test_an_open_door_is_gone_through_and_a_closed_one_toggled_first() -> None:
    assert moves(seen("WWWoWWW", "   ^   "))["go through red open door 1"] == (FORWARD,)
    closed = seen("WWWcWWW", "   ^   ")
    assert moves(closed)["toggle and go through red closed door 1"] == (TOGGLE, FORWARD)
    assert moves(closed)["toggle"] == (TOGGLE,)
    assert refusals(closed)["go through red closed door 1"] == (
        "You cannot go through red closed door 1, as it is closed. You should toggle it first."
    )
    assert "toggle" not in moves(seen("WWWcWWW", "       ", "   ^   "))


def test_a_locked_door_wants_the_key_of_its_colour() -> None:
    action = "toggle and go through yellow locked door 1"
    assert refusals(seen("WWWlWWW", "   ^   "))[action] == f"You cannot {action}, as you are not carrying a key."
    assert refusals(seen("WWWlWWW", "   ^   ", carrying=("yellow", "ball")))[action] == f"You cannot {action}, as you are not carrying a key."
    assert refusals(seen("WWWlWWW", "   ^   ", carrying=("red", "key")))[action] == (
        f"You cannot {action}, as the color of the key you are carrying does not match the color of door."
    )
    unlocked = moves(seen("WWWlWWW", "   ^   ", carrying=("yellow", "key")))
    assert unlocked[action] == (TOGGLE, FORWARD) and unlocked["toggle"] == (TOGGLE,)


def test_mended_a_closed_door_out_of_reach_is_refused_by_its_number() -> None:
    action = "toggle and go through red closed door 1"
    walled = seen("WcWWWWW", "WWWWWWW", "WWW^WWW")
    assert refusals(walled)[action] == f"You cannot {action}, as there is no path leading to it."


def test_actions_are_listed_in_the_order_of_the_original() -> None:
    assert list(moves(seen("WWWcWWW", " k     ", "   ^   "))) == [
        "turn left",
        "turn right",
        "move forward",
        "pickup red key 1",
        "toggle and go through red closed door 1",
        "go to red closed door 1",
        "go to red key 1",
        "check available actions",
    ]


def test_every_way_is_as_short_as_any() -> None:
    # In the open, facing a cell dx aside and dy ahead (both at least 1) takes dx + dy - 1 steps and one turn.
    paths = Paths(seen("   ^   "), set())
    for aside in (-3, -2, -1, 1, 2, 3):
        for ahead in range(1, 7):
            way = paths.facing((10 + aside, 10 - ahead))
            assert way is not None and len(way) == abs(aside) + ahead
            assert way.count(FORWARD) == abs(aside) + ahead - 1


def test_a_picture_is_a_png_with_every_pixel() -> None:
    pixels = bytes(range(18))
    image = png(pixels, width=3, height=2)
    assert image[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">I4sII5B", image[8:29]) == (13, b"IHDR", 3, 2, 8, 2, 0, 0, 0)
    length = struct.unpack(">I", image[33:37])[0]
    assert zlib.decompress(image[41 : 41 + length]) == b"\0" + pixels[:9] + b"\0" + pixels[9:]
    assert struct.unpack(">I", image[41 + length : 45 + length])[0] == zlib.crc32(image[37 : 41 + length])
    assert image[-8:-4] == b"IEND"
    assert base64.b64decode(data_url(image).removeprefix("data:image/png;base64,")) == image


def test_pixels_that_do_not_fill_the_picture_are_refused() -> None:
    with pytest.raises(ValueError, match="expected 12 bytes for 2 x 2 pixels, got 11"):
        png(bytes(11), 2, 2)


def test_without_minigrid_the_world_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentgym_envs.babyai.options.find_spec", lambda _: None)
    assert ready() == "expected the package minigrid, got none: pip install 'agentgym-cli[envs-babyai]'"
    monkeypatch.setattr("agentgym_envs.babyai.options.find_spec", lambda _: object())
    assert ready() is None
