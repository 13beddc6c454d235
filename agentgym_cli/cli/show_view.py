"""Where the viewer is, on stdout as soon as it answers."""

from __future__ import annotations

import sys
from collections.abc import Callable

from agentgym_cli.cli.show import print_json


def say_address(*, as_json: bool) -> Callable[[str], None]:
    """Prints an address, which holds what lets its reader in."""

    def say(address: str) -> None:
        if as_json:
            print_json({"url": address})
        else:
            print(address)
            print("Only this machine can reach it, and only with the whole address. Ctrl-C ends it.", file=sys.stderr)
        sys.stdout.flush()

    return say
