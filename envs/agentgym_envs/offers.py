"""The worlds that can be served, by name: what each is, what it needs, and whether it can run here. Knows no server."""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Callable
from dataclasses import dataclass

from agentgym_envs.babyai import options as babyai
from agentgym_envs.package_prep import options as package_prep
from agentgym_envs.protocol import World
from agentgym_envs.sciworld import options as sciworld
from agentgym_envs.searchqa import options as searchqa
from agentgym_envs.textcraft import options as textcraft

_WIDTH = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """How a world is described on the command line."""

    help: str
    needs: str
    """What it needs beside the core, in a sentence."""
    ready: Callable[[], str | None]
    """None, or why it cannot run here and what to do about it. Imports nothing heavy and starts nothing."""
    add_options: Callable[[argparse.ArgumentParser], None]
    build: Callable[[argparse.Namespace], World]
    """Raises OSError or ValueError when the world's data cannot be read. Imports what the world needs, in its body."""


WORLDS = {
    "babyai": Offered(
        help="do what is asked in a small grid of rooms, doors and things",
        needs=babyai.NEEDS,
        ready=babyai.ready,
        add_options=babyai.add_options,
        build=babyai.build,
    ),
    "package_prep": Offered(
        help="pack what is ordered, verify the package and dispatch it",
        needs=package_prep.NEEDS,
        ready=package_prep.ready,
        add_options=package_prep.add_options,
        build=package_prep.build,
    ),
    "sciworld": Offered(
        help="do experiments of primary school in a house of ten rooms",
        needs=sciworld.NEEDS,
        ready=sciworld.ready,
        add_options=sciworld.add_options,
        build=sciworld.build,
    ),
    "searchqa": Offered(
        help="answer a question from what a search finds",
        needs=searchqa.NEEDS,
        ready=searchqa.ready,
        add_options=searchqa.add_options,
        build=searchqa.build,
    ),
    "textcraft": Offered(
        help="make an item from what can be found",
        needs=textcraft.NEEDS,
        ready=textcraft.ready,
        add_options=textcraft.add_options,
        build=textcraft.build,
    ),
}


def listing(*, as_json: bool) -> str:
    """Every world, what it needs and whether it can run here: for people, or as a JSON array."""
    rows = [{"world": name, "about": world.help, "needs": world.needs, "why_not": world.ready()} for name, world in WORLDS.items()]
    if as_json:
        return json.dumps([{**row, "runs_here": row["why_not"] is None} for row in rows], sort_keys=True)
    wide = max(map(len, WORLDS))
    return "\n".join(_shown(row, wide) for row in rows)


def _shown(row: dict[str, str | None], wide: int) -> str:
    why = row["why_not"]
    said = [f"{'runs here' if why is None else 'cannot run here'}: {row['about']}", f"needs: {row['needs']}"]
    said += [] if why is None else [f"why: {why}"]
    name, indent = f"{row['world']}".ljust(wide + 2), " " * (wide + 2)
    lines = [textwrap.fill(text, _WIDTH, initial_indent=indent, subsequent_indent=indent + "  ", break_on_hyphens=False) for text in said]
    return "\n".join([name + lines[0][len(indent) :], *lines[1:]])
