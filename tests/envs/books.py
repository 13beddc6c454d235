"""A tiny book for hand-computed episodes, and players for it."""

from __future__ import annotations

from agentgym_envs.protocol import Step
from agentgym_envs.textcraft.book import Book, parse_recipe
from agentgym_envs.textcraft.world import TextCraft, TextCraftSession

LINES = (
    "craft 2 rope using 3 flax",
    "craft 1 raft using 4 logs, 2 rope",
    "craft 4 ash log using 1 ash tree",
    "craft 4 fir log using 1 fir tree",
    "craft 1 lamp using 1 tin, 1 oil",
    "craft 1 lamp using 2 wax",
)
GOALS = ("rope", "ash log", "fir log", "lamp", "raft")
"""Sorted by depth (1, 1, 1, 1, 2), then by the order of the recipes."""


def tiny_book(*, namespace: str = "") -> Book:
    """Five goals; ``logs`` is a tag of the two made logs."""
    recipes = tuple(parse_recipe(line) for line in LINES)
    return Book(name="tiny", recipes=recipes, tags={"logs": ("ash log", "fir log")}, namespace=namespace)


def started(goal: str, *, namespace: str = "") -> TextCraftSession:
    """A session at the start of the task that asks for ``goal``."""
    session = TextCraft(book=tiny_book(namespace=namespace)).open()
    session.reset(GOALS.index(goal))
    return session


def play(session: TextCraftSession, *actions: str) -> list[Step]:
    """The answers to ``actions``."""
    return [session.step(action) for action in actions]


def said(session: TextCraftSession, *actions: str) -> list[str]:
    """What is observed after each of ``actions``."""
    return [step.observation for step in play(session, *actions)]
