"""Which addresses of servers a recipe may name. Never repeats a password: what a recipe says is stored and shown."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from agentgym_cli.recipe.wording import shown

_ADDRESS = re.compile(r"https?://[^\s/?#@]+(/[^\s?#@]*)?")


def address_problem(url: str, *, variable: str = "env.token_variable") -> str | None:
    """What keeps ``url`` from being the base address of a server, in words that follow ``got``; None when nothing does.

    Args:
        variable: the key that names the environment variable of a bearer token.
    """
    if "@" in url:
        return f"one with credentials ({variable} names the variable of a bearer token)"
    try:
        valid = _ADDRESS.fullmatch(url) is not None and bool(urlsplit(url).hostname) and urlsplit(url).port != 0
    except ValueError:
        valid = False
    return None if valid else shown(url)
