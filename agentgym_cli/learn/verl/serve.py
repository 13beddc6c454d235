"""vLLM's server as a process that ends with the launcher that started it; its arguments are those of ``vllm serve``, with ``--model FOLDER``."""

from __future__ import annotations

import os
import runpy

from agentgym_cli.learn.verl.plugin import LAUNCHER, end_with
from agentgym_cli.recipe.resolve import whole_environment

# Not ``vllm``'s own command, which asks for a distribution of that name: a CPU's has another.
MODULE = "vllm.entrypoints.openai.api_server"


def main() -> None:
    """Serve until told to end."""
    if whole_environment().get(LAUNCHER) == str(os.getppid()):
        end_with(os.getppid())
    runpy.run_module(MODULE, run_name="__main__")


# vLLM may start its engine by importing this module once more, under another name.
if __name__ == "__main__":
    main()
