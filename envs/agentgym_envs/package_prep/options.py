"""package_prep on the command line: it has no options."""

from __future__ import annotations

import argparse

from agentgym_envs.package_prep.world import PackagePrep
from agentgym_envs.protocol import World

NEEDS = "Nothing beside the core."


def ready() -> str | None:
    """Always."""
    return None


def add_options(_: argparse.ArgumentParser) -> None:
    """None."""


def build(_: argparse.Namespace) -> World:
    """The world."""
    return PackagePrep()
