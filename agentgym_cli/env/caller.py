"""Plain HTTP calls for rooms that do not know httpx: any address, any headers, bounded and failing as ``exchange`` does."""

from __future__ import annotations

from collections.abc import Mapping

import httpx

from agentgym_cli.env.endpoint import HEADERS
from agentgym_cli.env.wire import Call, RawReply, Target, build_http, exchange


class HttpCaller:
    """Sends requests over one client. ``headers`` go with every call, beside those of every call of this program."""

    def __init__(self, http: httpx.AsyncClient | None = None, *, headers: Mapping[str, str] | None = None) -> None:
        """``http`` is owned from now on; None makes one."""
        self._http = http or build_http()
        self._headers = httpx.Headers({**HEADERS, **(headers or {})})
        self._targets: dict[tuple[str, str], Target] = {}

    async def send(self, method: str, url: str, content: bytes | None = None, *, seconds: float) -> RawReply:
        """One call. Raises EnvFailure as ``exchange`` does."""
        target = self._targets.get((method, url))
        if target is None:
            target = self._targets.setdefault((method, url), Target(method, httpx.URL(url), self._headers))
        return await exchange(self._http, Call(target, content), seconds=seconds)

    async def aclose(self) -> None:
        """Close the client."""
        await self._http.aclose()
