"""The door: builds the command tree and turns errors into messages and exit codes."""

from __future__ import annotations


def main() -> None:
    """Run ``agentgym``."""
