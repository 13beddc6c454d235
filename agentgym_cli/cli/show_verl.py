"""What verl would be told, on stdout: one line for each key, as its own command line takes it, and where it is from."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentgym_cli.cli.show import print_json

if TYPE_CHECKING:
    from agentgym_cli.learn.verl.settings import Setting


def show_settings(found: Sequence[Setting], words: Sequence[str], *, as_json: bool) -> None:
    """Print settings in the order in which verl gets them. Lines may be longer than 80 columns: they are for copying."""
    if as_json:
        print_json([{"key": each.key, "value": each.value, "source": each.source} for each in found])
        return
    for each, word in zip(found, words, strict=True):
        sys.stdout.write(f"{word}    # {each.source}\n")
