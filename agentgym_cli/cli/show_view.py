"""Where the viewer is, on stdout as soon as it answers."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable


def say_address(*, as_json: bool) -> Callable[[str], None]:
    """Prints an address, which holds what lets its reader in."""

    def say(address: str) -> None:
        if as_json:
            # One line, so that whoever started it can read it while it goes on.
            print(json.dumps({"url": address}))
        else:
            print(address)
            print("Only this machine can reach it, and only with the whole address. Ctrl-C ends it.", file=sys.stderr)
        sys.stdout.flush()

    return say
