"""Whether a server of a model is still there: what tells an outage, which ends the run, from prompts that one server cannot answer."""

from __future__ import annotations

from agentgym_cli.env.contract import InfraCause, ServersLost
from agentgym_cli.episode.policies.endpoint_call import LlmServer, Refused
from agentgym_cli.episode.policies.endpoint_check import MODELS_SECONDS
from agentgym_cli.episode.policies.failures import PolicyUnavailable
from agentgym_cli.episode.policies.protocol import ContextFull
from agentgym_cli.errors import PolicyError

_AWAY = frozenset({InfraCause.CONNECT, InfraCause.RESET, InfraCause.TIMEOUT, InfraCause.SERVER_5XX})


class Presence:
    """Counts the calls of a run that got no answer, one behind the other, whichever episodes they are of."""

    def __init__(self, server: LlmServer, *, give_up_after: int) -> None:
        self._server = server
        self._give_up_after = give_up_after
        self._missed = 0

    def answered(self) -> None:
        """A call got its answer."""
        self._missed = 0

    async def missed(self, failure: PolicyUnavailable) -> None:
        """A call got none for as long as it asks. Raises ServersLost where that makes too many and the server does not even list its models."""
        if failure.cause not in _AWAY:
            self._missed = 0
            return
        self._missed += 1
        if self._missed < self._give_up_after:
            return
        try:
            await self._server.once("GET", "/models", seconds=MODELS_SECONDS)
        except Refused as refused:
            if refused.status == 0 or refused.status >= 500:
                raise ServersLost(
                    f"{self._server.url}: expected an answer from the model's server, got none to {self._missed} calls in a row ({failure.message})"
                ) from failure
        except (PolicyError, ContextFull):
            pass
        self._missed = 0
