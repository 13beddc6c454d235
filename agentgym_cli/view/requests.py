"""Who may ask for what: read-only, from this machine, with the token, by no other page. And what every answer forbids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from secrets import compare_digest
from types import MappingProxyType

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Content security: the two files of this page and nothing else; no text can become a script."""
HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "content-security-policy": POLICY,
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "cache-control": "no-store",
    }
)
_ONCE = ("host", "origin", "sec-fetch-site", "sec-fetch-mode")
HTML, JSON = "text/html; charset=utf-8", "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What goes back."""

    status: int = 200
    kind: str = HTML
    body: bytes | Iterator[bytes] = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    def all_headers(self) -> list[tuple[bytes, bytes]]:
        """As a server wants them; the answer's own come first."""
        given = {"content-type": self.kind} | {name: value for name, value in HEADERS.items() if name not in self.headers} | dict(self.headers)
        if isinstance(self.body, bytes):
            given["content-length"] = str(len(self.body))
        return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in given.items()]


def refused(status: int, why: str) -> Answer:
    """A refusal in plain words, which repeats nothing that was sent."""
    return Answer(status=status, kind="text/plain; charset=utf-8", body=f"{why}\n".encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The rules of one server."""

    token: str
    """What every address begins with; whoever does not know it learns nothing."""
    port: int

    def hosts(self) -> frozenset[str]:
        """Names that this machine calls itself by; any other comes from a name server that was turned against it."""
        return frozenset(f"{name}:{self.port}" for name in ("127.0.0.1", "localhost"))

    def refuse(self, method: str, headers: Iterable[tuple[bytes, bytes]]) -> Answer | None:
        """Why a request is not answered; None for one that may ask."""
        if method not in ("GET", "HEAD"):
            return Answer(status=405, kind="text/plain", body=b"only GET and HEAD\n", headers={"allow": "GET, HEAD"})
        given = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in headers]
        said = dict(given)
        if any(len([value for each, value in given if each == name]) > 1 for name in _ONCE):
            return refused(400, f"expected each of the headers {', '.join(_ONCE)} at most once")
        if said.get("host", "").lower() not in self.hosts():
            return refused(403, "this server answers to 127.0.0.1 and localhost only")
        origin = said.get("origin")
        if origin is not None and origin.lower() not in {f"http://{host}" for host in self.hosts()}:
            return refused(403, "this server answers to its own pages only")
        if said.get("sec-fetch-site", "none") not in ("none", "same-origin") and said.get("sec-fetch-mode") != "navigate":
            return refused(403, "this server answers to its own pages only")
        return None

    def inner(self, path: str) -> str | None:
        """The path behind the token; None where the token is another."""
        token, _, rest = path.removeprefix("/").partition("/")
        return rest if compare_digest(token.encode("utf-8", "replace"), self.token.encode()) else None
