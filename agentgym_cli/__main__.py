"""``python -m agentgym_cli`` is ``agentgym``."""

from agentgym_cli.cli.main import main

main()
