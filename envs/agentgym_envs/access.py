"""Who may call a server: addresses of this machine only, or those who know a token. The token is read from the environment, never from arguments."""

from __future__ import annotations

import hmac
import os
import socket
from collections.abc import Iterable
from ipaddress import ip_address


class AccessError(ValueError):
    """The server would be open to others, or its token cannot be had; the second argument is what to do."""


class Token:
    """A bearer token. Its text is never shown."""

    def __init__(self, text: str) -> None:
        self._expected = text.encode()

    def admits(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Whether a request with these headers bears it; takes as long for a token that is nearly right as for any other."""
        scheme, _, given = next((value for name, value in headers if name == b"authorization"), b"").partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), self._expected)


def token_from(variable: str) -> Token:
    """The token in an environment variable; AccessError where there is none that a header can carry."""
    text = os.environ.get(variable, "")
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        got = "nothing" if not text else "a text with spaces or other characters that a header cannot carry"
        raise AccessError(f"--token-variable {variable}: expected a token in that environment variable, got {got}", f"export {variable}=...")
    return Token(text)


def require_private(host: str, token: Token | None) -> None:
    """AccessError where others could call a server on ``host`` without a token; OSError where there is no such host."""
    addresses = {str(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)}
    if token is None and not all(ip_address(address.partition("%")[0]).is_loopback for address in addresses):
        hint = "put a secret in an environment variable and name it with --token-variable, or leave --host out"
        raise AccessError(f"--host {host}: expected a token beside an address that other machines reach, got none", hint)
