"""``python -m agentgym_envs WORLD``: serves a world on its own."""

from __future__ import annotations

import sys

from agentgym_envs.serve import serve

if __name__ == "__main__":
    sys.exit(serve(sys.argv[1:]))
