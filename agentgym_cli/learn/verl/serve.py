"""``vllm serve`` as a process that ends with the launcher that started it; its arguments are those of ``vllm serve``."""

from __future__ import annotations

import os
import sys

from agentgym_cli.learn.verl.plugin import LAUNCHER, end_with
from agentgym_cli.recipe.resolve import whole_environment


def main() -> None:
    """Serve until told to end."""
    if whole_environment().get(LAUNCHER) == str(os.getppid()):
        end_with(os.getppid())
    from vllm.entrypoints.cli.main import main as vllm

    sys.argv = ["vllm", "serve", *sys.argv[1:]]
    vllm()


# vLLM starts its engine by importing this module once more, under another name.
if __name__ == "__main__":
    main()
