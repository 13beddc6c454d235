"""The command line of a server: options of every server, and those of each world."""

from __future__ import annotations

import argparse
import re

from agentgym_envs.app import MOST_BYTES
from agentgym_envs.logs import LEVELS
from agentgym_envs.offers import WORLDS


def parser() -> argparse.ArgumentParser:
    """Of ``agentgym serve``; a world is required unless ``--list`` is there."""
    top = argparse.ArgumentParser(prog="agentgym serve", description="Serve a world over HTTP.", allow_abbrev=False)
    top.add_argument("--list", action="store_true", help="say what each world needs and whether it can run here")
    top.add_argument("--json", action="store_true", help="with --list: as JSON")
    worlds = top.add_subparsers(dest="world", metavar="WORLD")
    for name, offered in WORLDS.items():
        world = worlds.add_parser(name, help=offered.help, description=offered.help, allow_abbrev=False)
        _add_where(world)
        _add_bounds(world)
        world.add_argument("--oracle", action="store_true", help="answer GET /oracle with actions that solve the task")
        world.add_argument("--log-level", choices=LEVELS, default="warning", help="what is logged, one JSON object a line (default: warning)")
        world.add_argument("--exit-with-parent", action="store_true", help="end when standard input ends")
        offered.add_options(world)
    return top


def _add_where(world: argparse.ArgumentParser) -> None:
    world.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on (default: 127.0.0.1, this machine only); others need a token",
    )
    world.add_argument("--port", type=_port, default=36001, help="port to listen on; 0 takes a free one (default: 36001)")
    world.add_argument("--replicas", type=_positive, default=1, metavar="N", help="servers, each a process, on ports from --port on (default: 1)")
    world.add_argument("--token-variable", type=_variable, metavar="NAME", help="environment variable with the bearer token that callers must send")


def _add_bounds(world: argparse.ArgumentParser) -> None:
    world.add_argument("--max-sessions", type=_positive, default=10_000, metavar="N", help="sessions open at once (default: 10000)")
    world.add_argument("--idle-seconds", type=_seconds, default=3600.0, metavar="S", help="close sessions unused for S seconds (default: 3600)")
    world.add_argument(
        "--call-seconds",
        type=_seconds,
        default=60.0,
        metavar="S",
        help="most seconds of a call on a world that takes time (default: 60)",
    )
    world.add_argument("--body-bytes", type=_positive, default=MOST_BYTES, metavar="N", help="most bytes of a request (default: 1 MiB)")


def _port(text: str) -> int:
    if not 0 <= (port := int(text)) <= 65535:
        raise argparse.ArgumentTypeError(f"expected 0 to 65535, got {text}")
    return port


def _positive(text: str) -> int:
    if (count := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"expected at least 1, got {text}")
    return count


def _seconds(text: str) -> float:
    if not (seconds := float(text)) > 0:
        raise argparse.ArgumentTypeError(f"expected more than 0, got {text}")
    return seconds


def _variable(text: str) -> str:
    if not re.fullmatch(r"[A-Z][A-Z0-9_]*", text):
        # The text is not shown: it may be the secret itself.
        raise argparse.ArgumentTypeError("expected the NAME of an environment variable, capitals, digits and underscores")
    return text
