"""What it means that a server has another task than was pinned, in words."""

from __future__ import annotations

from dataclasses import replace

from agentgym_cli.env.content import PinnedTasks, pinned_tasks
from agentgym_cli.env.dialect import load_dialect

SPEC = replace(load_dialect("textcraft").spec, order_note="ids move.", content_note=None)


def test_content_of_another_pinned_task_is_an_order_that_differs():
    known = pinned_tasks(SPEC, [(5, "aa"), (12, "bb")])
    assert known.mismatch(5, expected="aa", got="bb") == (
        "task 5 is what the list has as 12: the server's order differs from the pinned one; ids move."
    )


def test_content_of_no_pinned_task_is_other_content():
    known = pinned_tasks(SPEC, [(5, "aa"), (12, "bb")])
    assert known.mismatch(5, expected="aa", got="cc") == (
        "task 5: expected a first observation with digest aa, got cc, which no task of the list has: its content differs from the pinned one; "
        "the server has another version of its tasks, or other data"
    )


def test_of_two_tasks_with_one_content_the_first_is_named_and_unpinned_ones_are_never():
    known = pinned_tasks(SPEC, [(1, ""), (2, "aa"), (3, "aa")])
    assert dict(known.numbers) == {"aa": 2}
    assert not known.moved("")


def test_nothing_is_known_without_a_list():
    assert PinnedTasks().mismatch(1, expected="aa", got="bb").startswith("task 1: expected a first observation with digest aa, got bb")
