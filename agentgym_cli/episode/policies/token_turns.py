"""What a policy on tokens does before and behind every sample: lay out the observation, see how much room is left, read what was said."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym_cli.episode.policies.protocol import ContextFull
from agentgym_cli.episode.tokens import TurnTokens

MAX_CHARS_PER_TOKEN = 128
"""A text with more characters than this for each token of context cannot fit and is not even encoded."""


class TokenTurns:
    """The turns of one run, within its budgets of tokens.

    Args:
        system_prompt: instructions before the first observation; '' says nothing.
        context: most tokens of one episode.
        response: most tokens of one turn.
    """

    def __init__(self, tokens: TurnTokens, *, system_prompt: str, context: int, response: int) -> None:
        self._tokens = tokens
        self._system_prompt = system_prompt
        self._context = context
        self._response = response

    def lay_out(self, observation: str, *, first: bool, stop_sampled: bool) -> tuple[int, ...]:
        """Context tokens that an observation adds. Raises ContextFull for a text that cannot fit."""
        if len(observation) > MAX_CHARS_PER_TOKEN * self._context:
            raise ContextFull
        if first:
            return self._tokens.initial(self._system_prompt, observation)
        return self._tokens.next(observation, stop_sampled=stop_sampled)

    def room(self, length: int) -> int:
        """Most tokens to sample behind ``length`` tokens of context. Raises ContextFull where there is room for none."""
        if (left := self._context - length) < 1:
            raise ContextFull
        return min(self._response, left)

    def text_of(self, sampled: Sequence[int]) -> str:
        """What sampled tokens say."""
        return self._tokens.decode_action(sampled)

    def stopped(self, sampled: Sequence[int]) -> bool:
        """Whether the last token that was sampled ends an action."""
        return bool(sampled) and sampled[-1] in self._tokens.stop_ids

    @property
    def stop_ids(self) -> frozenset[int]:
        """Tokens that end an action."""
        return self._tokens.stop_ids
