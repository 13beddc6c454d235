"""BabyAI on the command line. What it needs is imported when it is built."""

from __future__ import annotations

import argparse
import sys
from contextlib import redirect_stdout
from importlib.util import find_spec

from agentgym_envs.protocol import World

NEEDS = "The package minigrid (extra envs-babyai); 100 MB of memory."


def ready() -> str | None:
    """None, or what to install."""
    return None if find_spec("minigrid") else "expected the package minigrid, got none: pip install 'agentgym-cli[envs-babyai]'"


def add_options(_: argparse.ArgumentParser) -> None:
    """It has no options of its own."""


def build(_: argparse.Namespace) -> World:
    """The world."""
    # Packages that MiniGrid imports may greet on standard output, where the server says its address.
    with redirect_stdout(sys.stderr):
        from agentgym_envs.babyai.world import BabyAI
    return BabyAI()
