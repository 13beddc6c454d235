"""torchrun, which ends with the launcher that started it. The workers that it starts load verl; it does not."""

from __future__ import annotations

from torch.distributed.run import main

# Once it is imported, it ends this process with the launcher.
from agentgym_cli.learn.verl import plugin  # noqa: F401

if __name__ == "__main__":
    main()
