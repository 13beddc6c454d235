"""package_prep: episodes worked out by hand, the verifier against what is said, stale verifications, and tasks by number."""

from __future__ import annotations

import csv
import random
from collections import Counter
from pathlib import Path

import pytest

from agentgym_envs.package_prep.make import MANIFEST, manifest
from agentgym_envs.package_prep.orders import MATERIALS, TASK_COUNT, THINGS, order_of
from agentgym_envs.package_prep.state import State
from agentgym_envs.package_prep.verifier import fulfilled
from agentgym_envs.package_prep.world import PackagePrep, PackagePrepSession
from agentgym_envs.protocol import Step, WorldError

CHECKOUT = Path(__file__).parents[2]
MUG, BOOK, BOTH = 0, 1, 2
"""Task numbers whose mug breaks and whose book bends."""
STURDY_BOTH = 11
"""Both are ordered; the mug and the book call for paper."""
PACKED_MUG = ("take mug", "take bubble wrap", "pack mug in bubble wrap")


def started(index: int) -> PackagePrepSession:
    session = PackagePrep().open()
    session.reset(index)
    return session


def play(session: PackagePrepSession, *actions: str) -> list[Step]:
    return [session.step(action) for action in actions]


def test_an_episode_worked_out_by_hand() -> None:
    session = PackagePrep().open()
    assert session.reset(MUG).observation == (
        'On the shelf: a blue mug, a book called "The Clockmaker", cardboard, bubble wrap, paper.\n'
        "What breaks is packed in bubble wrap, what bends in cardboard, anything else in paper; how a thing is made, an inspection shows.\n"
        "Only what is ordered goes into the package. Verify the package before it is dispatched; a change after that makes the verification stale.\n"
        "Order: ship the mug to Eastmere."
    )
    assert play(session, "inspect mug", *PACKED_MUG, "verify", "dispatch") == [
        Step("A blue mug. It is thin porcelain: it breaks.", 0, False),
        Step("You take the mug from the shelf.", 0, False),
        Step("You take the bubble wrap from the shelf.", 0, False),
        Step("The mug is in the package, in bubble wrap.", 0, False),
        Step("The package holds the mug in bubble wrap. It fits the order and the rules; it is verified.", 0, False),
        Step("The carrier takes the package to Eastmere.", 1, True),
    ]
    assert session.verify()


def test_what_calls_for_what_is_seen_only_by_an_inspection() -> None:
    breaks, sturdy = order_of(2), order_of(5)
    assert [order.findings["mug"].material for order in (breaks, sturdy)] == ["bubble wrap", "paper"]
    for index in range(TASK_COUNT):
        first = PackagePrep().open().reset(index).observation
        assert not any(finding.text in first for finding in order_of(index).findings.values())


@pytest.mark.parametrize("said", ["I shipped the mug", "dispatch the mug", "verified", "done", "The package is verified. dispatch", ""])
def test_saying_that_something_is_done_does_nothing(said: str) -> None:
    session = started(MUG)
    play(session, *PACKED_MUG)
    before = repr(session.state)
    assert session.step(said) == Step(f"Nothing happens: {said!r} is no action (inspect, take, pack, verify, dispatch).", 0, False)
    assert repr(session.state) == before
    assert not session.verify()


@pytest.mark.parametrize("change", ["take mug", "take paper", "take book"])
def test_a_verification_made_before_a_change_is_stale_and_does_not_count(change: str) -> None:
    session = started(MUG)
    play(session, *PACKED_MUG, "verify", change)
    if change == "take mug":
        play(session, "pack mug in bubble wrap")
    assert session.step("dispatch") == Step("The carrier takes the package to Eastmere, unverified.", 0, True)
    assert not session.verify()


def test_a_verification_made_again_after_a_change_counts() -> None:
    session = started(MUG)
    assert play(session, *PACKED_MUG, "verify", "take paper", "verify", "dispatch")[-1].reward == 1
    assert session.verify()


def test_an_inspection_is_no_change() -> None:
    session = started(MUG)
    assert play(session, *PACKED_MUG, "verify", "inspect mug", "take mugs", "dispatch")[-1].reward == 1
    assert session.verify()


def test_an_unverified_package_is_dispatched_all_the_same_and_fails() -> None:
    session = started(MUG)
    assert play(session, *PACKED_MUG, "dispatch")[-1] == Step("The carrier takes the package to Eastmere, unverified.", 0, True)
    assert not session.verify()


@pytest.mark.parametrize(
    "packed",
    [("take mug", "take paper", "pack mug in paper"), (*PACKED_MUG, "take book", "take cardboard", "pack book in cardboard")],
    ids=["wrong material", "not ordered"],
)
def test_a_package_that_does_not_fit_is_not_verified_and_can_be_mended(packed: tuple[str, ...]) -> None:
    session = started(MUG)
    assert play(session, *packed, "verify")[-1].observation.endswith("That does not fit the order and the rules; it is not verified.")
    mended = ("take mug", "take bubble wrap", "pack mug in bubble wrap") if "take paper" in packed else ("take book",)
    assert play(session, *mended, "verify", "dispatch")[-1].reward == 1
    assert session.verify()


def test_a_right_package_that_was_found_wrong_before_its_last_change_still_has_to_be_verified() -> None:
    session = started(MUG)
    play(session, "take mug", "take paper", "pack mug in paper", "verify", "take mug", "take bubble wrap", "pack mug in bubble wrap", "dispatch")
    assert not session.verify()


def test_both_things_may_share_a_material() -> None:
    session = started(STURDY_BOTH)
    assert session.oracle() == (
        *("inspect mug", "inspect book", "take mug", "take book", "take paper", "pack mug in paper", "pack book in paper", "verify", "dispatch"),
    )
    assert play(session, *session.oracle())[-1].reward == 1


@pytest.mark.parametrize(
    ("action", "observation"),
    [
        ("verify", "Nothing happens: there is no package yet."),
        ("dispatch", "Nothing happens: there is no package yet."),
        ("pack mug in paper", "Nothing happens: you do not hold the mug and the paper."),
        ("take cup", "Nothing happens: 'take cup' is no action (inspect, take, pack, verify, dispatch)."),
        ("pack paper in mug", "Nothing happens: 'pack paper in mug' is no action (inspect, take, pack, verify, dispatch)."),
        ("craft 1 rope using 2 flax", "Nothing happens: 'craft 1 rope using 2 flax' is no action (inspect, take, pack, verify, dispatch)."),
        ("take mug\ndispatch", "Nothing happens: 'take mug\\ndispatch' is no action (inspect, take, pack, verify, dispatch)."),
        ("\x1b[2J", "Nothing happens: '\\x1b[2J' is no action (inspect, take, pack, verify, dispatch)."),
        (" Take the MUG. ", "You take the mug from the shelf."),
        ("inspect the bubble wrap", "A roll of it, for what breaks."),
    ],
)
def test_every_reply_to_a_first_action(action: str, observation: str) -> None:
    assert play(started(MUG), action) == [Step(observation, 0, False)]


def test_what_is_held_cannot_be_taken_and_what_is_packed_comes_out() -> None:
    session = started(MUG)
    assert [step.observation for step in play(session, "take mug", "take mug", "take paper", "pack mug in paper", "take mug")] == [
        "You take the mug from the shelf.",
        "Nothing happens: you hold the mug.",
        "You take the paper from the shelf.",
        "The mug is in the package, in paper.",
        "You take the mug out of the package.",
    ]


def test_an_action_of_a_megabyte_is_quoted_in_part() -> None:
    assert len(started(MUG).step("take mug " * 116_509).observation) < 200


def test_a_step_before_a_reset_or_after_done_is_refused_and_a_reset_starts_anew() -> None:
    session = PackagePrep().open()
    for call in (lambda: session.step("verify"), session.oracle, session.verify, lambda: session.look("goal")):
        with pytest.raises(WorldError, match="no task"):
            call()
    session.reset(MUG)
    play(session, *session.oracle())
    with pytest.raises(WorldError, match="has finished"):
        session.step("inspect mug")
    assert session.verify()
    session.reset(MUG)
    assert not session.verify()
    assert session.step("take mug").observation == "You take the mug from the shelf."


@pytest.mark.parametrize("index", [-1, TASK_COUNT, 10**30])
def test_a_task_out_of_range_is_refused_and_changes_nothing(index: int) -> None:
    session = started(MUG)
    play(session, *PACKED_MUG)
    with pytest.raises(WorldError, match=r"out of range: expected 0 to 119\."):
        session.reset(index)
    assert play(session, "verify", "dispatch")[-1].reward == 1


def test_the_oracle_fulfils_every_order() -> None:
    lengths = Counter()
    for index in range(TASK_COUNT):
        session = started(index)
        steps = play(session, *session.oracle())
        assert ([step.reward for step in steps], steps[-1].done, session.verify()) == ([0] * (len(steps) - 1) + [1], True, True)
        lengths[len(steps)] += 1
    # Both things in one material need one take less: a quarter of the forty orders of both.
    assert lengths == {6: 80, 10: 30, 9: 10}


@pytest.mark.slow
def test_reward_and_verifier_agree_in_random_play() -> None:
    rng = random.Random(1)
    names = (*THINGS, *MATERIALS)
    actions = ["verify", "verify", "dispatch", *(f"take {name}" for name in names), *(f"pack {t} in {m}" for t in THINGS for m in MATERIALS)]
    ends = Counter()
    for _ in range(700):
        session = started(rng.randrange(TASK_COUNT))
        steps = play(session, *session.oracle()[:-2]) if rng.random() < 0.3 else []
        while not (steps and steps[-1].done) and len(steps) < 40:
            steps.append(session.step(rng.choice(actions)))
            assert session.verify() == (steps[-1].reward == 1)
        ends[session.verify()] += 1
    assert min(ends.values()) > 25


def test_the_verifier_reads_the_state_alone() -> None:
    order = order_of(MUG)
    assert not fulfilled(order, State())
    assert fulfilled(order, State(shipped={"mug": "bubble wrap"}, changes=3, checked_at=3))
    for state in (
        State(shipped={"mug": "bubble wrap"}, changes=3, checked_at=2),
        State(shipped={"mug": "bubble wrap"}, changes=3),
        State(shipped={"mug": "paper"}, changes=3, checked_at=3),
        State(shipped={"mug": "bubble wrap", "book": "cardboard"}, changes=3, checked_at=3),
        State(package={"mug": "bubble wrap"}, changes=3, checked_at=3),
    ):
        assert not fulfilled(order, state)


def test_every_kind_of_order_is_as_frequent_in_either_split_and_no_two_tasks_start_alike() -> None:
    rows = list(csv.DictReader(manifest().splitlines()))
    for split, share in (("train", 8), ("test", 2)):
        orders = [order_of(int(row["index"])) for row in rows if row["split"] == split]
        kinds = Counter((order.things, order.findings["mug"].material, order.findings["book"].material) for order in orders)
        assert list(kinds.values()) == [share] * 12
    starts = {(row["digest"], *sorted(order_of(int(row["index"])).packed.items())) for row in rows}
    assert len(starts) == TASK_COUNT


def test_the_task_list_is_committed_as_it_is_made() -> None:
    assert (CHECKOUT / MANIFEST).read_text(encoding="utf-8") == manifest()
