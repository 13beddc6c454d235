"""What a server has been told so far, as messages or as token ids, and the trajectory where its replies make an exact one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from agentgym_cli.env.pointer import Json
from agentgym_cli.episode.policies.endpoint_reply import Said
from agentgym_cli.episode.policies.protocol import ContextFull
from agentgym_cli.episode.policies.token_turns import MAX_CHARS_PER_TOKEN
from agentgym_cli.episode.tokens import TrajectoryBuilder, TurnTokens
from agentgym_cli.episode.types import Trajectory

Note = Callable[[str, str], None]
"""Says once for a run why its episodes have no trajectories: a short name, and a sentence."""
NO_IDS = "no token ids: this run cannot be trained on"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The part of a request that grows with the episode."""

    fields: dict[str, Json]
    """``messages`` or ``prompt``."""
    tokens: int
    """Tokens of it that are known; all of them only where the prompt is ids."""


class Transcript(Protocol):
    """One episode's side of a conversation."""

    def ask(self, observation: str) -> Wanted:
        """What to send next. Raises ContextFull for what cannot fit."""

    def heard(self, said: Said) -> None:
        """Append what came."""

    def trajectory(self) -> Trajectory | None:
        """The episode as tokens; None where the replies did not make one."""


class ExactTokens:
    """Token ids as a server reports them, kept for as long as each prompt begins with all that was read and sampled before."""

    def __init__(self, *, drawn: bool, note: Note) -> None:
        """``drawn``: whether the server's log-probabilities are of the distribution drawn from."""
        self._ids: list[int] = []
        self._builder = TrajectoryBuilder()
        self._exact = drawn
        self._note = note

    def add(self, said: Said) -> None:
        """Append one prompt and its response, or find that they cannot be."""
        if not self._exact:
            return
        if said.token_ids is None or said.prompt_ids is None:
            self._lose("token ids", NO_IDS)
        elif said.logprobs is None:
            self._lose("log-probabilities", "no log-probabilities for the sampled tokens: this run cannot be trained on")
        elif list(said.prompt_ids[: len(self._ids)]) != self._ids:
            self._lose("history", "a later prompt does not begin with what was read and sampled before, so the server's template rewrites history")
        else:
            context = said.prompt_ids[len(self._ids) :]
            self._builder.add_context(context)
            self._builder.add_sampled(said.token_ids, said.logprobs)
            self._ids += [*context, *said.token_ids]

    def build(self) -> Trajectory | None:
        """The trajectory so far; None without one. The weights behind a server have no step, so its version is 0."""
        return self._builder.build(policy_version=0) if self._exact else None

    def _lose(self, name: str, why: str) -> None:
        self._exact = False
        self._note(name, why)


class ChatTranscript:
    """Messages, each appended as it came. How many tokens they are is known from the server's count of the turn before."""

    def __init__(self, system_prompt: str, *, context: int, exact: ExactTokens | None) -> None:
        self._messages: list[Json] = [{"role": "system", "content": system_prompt}] if system_prompt else []
        self._context = context
        self._exact = exact
        self._known = 0

    def ask(self, observation: str) -> Wanted:
        """All messages, this observation the last."""
        if len(observation) > MAX_CHARS_PER_TOKEN * self._context or self._known >= self._context:
            raise ContextFull
        self._messages.append({"role": "user", "content": observation})
        return Wanted(fields={"messages": self._messages}, tokens=self._known)

    def heard(self, said: Said) -> None:
        """Append the text. Raises ContextFull where the server counted a prompt that is larger than the budget."""
        if (said.prompt_tokens or 0) > self._context:
            raise ContextFull
        self._known = (said.prompt_tokens or 0) + (said.response_tokens or 0)
        self._messages.append({"role": "assistant", "content": said.text})
        if self._exact is not None:
            self._exact.add(said)

    def trajectory(self) -> Trajectory | None:
        """As the server's ids make it."""
        return None if self._exact is None else self._exact.build()


class IdsTranscript:
    """Token ids, laid out here: what was sampled is sent back as it came."""

    def __init__(self, tokens: TurnTokens, system_prompt: str, *, context: int, exact: ExactTokens | None) -> None:
        self._tokens = tokens
        self._system_prompt = system_prompt
        self._context = context
        self._exact = exact
        self._ids: tuple[int, ...] = ()
        self._stopped = False

    def ask(self, observation: str) -> Wanted:
        """The whole prompt as ids."""
        if len(observation) > MAX_CHARS_PER_TOKEN * self._context:
            raise ContextFull
        first = not self._ids
        new = self._tokens.initial(self._system_prompt, observation) if first else self._tokens.next(observation, stop_sampled=self._stopped)
        self._ids = (*self._ids, *new)
        if len(self._ids) >= self._context:
            raise ContextFull
        return Wanted(fields={"prompt": list(self._ids)}, tokens=len(self._ids))

    def heard(self, said: Said) -> None:
        """Append the ids, or, from a server that gives none, those that its text has here: a prompt, and no trajectory."""
        if self._exact is not None:
            self._exact.add(said)
        sampled = said.token_ids if said.token_ids is not None else self._tokens.action(said.text)
        self._stopped = bool(sampled) and sampled[-1] in self._tokens.stop_ids
        self._ids = (*self._ids, *sampled)

    def trajectory(self) -> Trajectory | None:
        """What was sent and sampled."""
        return None if self._exact is None else self._exact.build()
