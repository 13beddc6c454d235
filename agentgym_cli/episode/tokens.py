"""Turns as token ids. What was sampled is never decoded and encoded again, and no foreign text can become a control token."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tokenizers import Tokenizer

from agentgym_cli.episode.types import Trajectory
from agentgym_cli.errors import PolicyError

TurnFormat = Literal["words", "chatml"]
_UNKNOWN = ("<unk>", "[UNK]")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """Control tokens of a turn format and the plain text behind them."""

    system: tuple[str, str] | None
    """Opening token and role text of the instructions; None puts them before the first turn with nothing around them."""
    observe: tuple[str, str]
    act: tuple[str, str]
    end: str
    """The token that ends an action: the only stop token."""
    ends_context: bool
    """True when ``end`` closes instructions and observations too."""
    between: str
    """Text behind every ``end``."""

    def control_tokens(self) -> list[str]:
        """Every token that only we and the policy may write."""
        opening = [self.observe[0], self.act[0], *([self.system[0]] if self.system else [])]
        return sorted({*opening, self.end})


_LAYOUTS: dict[TurnFormat, _Layout] = {
    "words": _Layout(system=None, observe=("<obs>", ""), act=("<act>", ""), end="<end>", ends_context=False, between=""),
    "chatml": _Layout(
        system=("<|im_start|>", "system\n"),
        observe=("<|im_start|>", "user\n"),
        act=("<|im_start|>", "assistant\n"),
        end="<|im_end|>",
        ends_context=True,
        between="\n",
    ),
}


class TurnTokens:
    """Lays out turns as token ids for one tokenizer and one turn format.

    Raises PolicyError when the tokenizer lacks a control token, or would turn its spelling in foreign text into that token and
    has no unknown token to put in its place.
    """

    def __init__(self, tokenizer: Tokenizer, turn_format: TurnFormat) -> None:
        self._layout = _LAYOUTS[turn_format]
        self._tokenizer = _private_copy(tokenizer)
        self._tokenizer.encode_special_tokens = True
        self._unknown = next((i for i in map(self._tokenizer.token_to_id, _UNKNOWN) if i is not None), None)
        self._end = self._control_id(self._layout.end)
        self._control = self._control_ids()
        self._check_foreign_text()

    @classmethod
    def from_file(cls, path: Path, turn_format: TurnFormat) -> TurnTokens:
        """Read a tokenizer.json. Raises PolicyError when it is not one."""
        try:
            text = path.read_text(encoding="utf-8")
            model = json.loads(text)["model"]["type"]
        except (OSError, ValueError, KeyError, TypeError) as err:
            raise PolicyError(f"{path}: expected a tokenizer.json with a model, got {type(err).__name__}: {str(err)[:200]}") from err
        if not isinstance(model, str):
            raise PolicyError(f"{path}: expected model.type to be a string, got {model!r:.200}")
        return cls(Tokenizer.from_str(text), turn_format)

    @property
    def stop_ids(self) -> frozenset[int]:
        """Tokens that end an action when they are sampled."""
        return frozenset({self._end})

    @property
    def vocabulary(self) -> int:
        """Number of token ids, added tokens included."""
        return self._tokenizer.get_vocab_size(with_added_tokens=True)

    def initial(self, system_prompt: str, observation: str) -> tuple[int, ...]:
        """Context up to the first action; an empty ``system_prompt`` says nothing."""
        return (*self._instructions(system_prompt), *self._turn(observation))

    def next(self, observation: str, *, stop_sampled: bool) -> tuple[int, ...]:
        """Context between the end of one action and the next. The closing token is in it only when the policy did not sample it."""
        closing = () if stop_sampled else (self._end,)
        return (*closing, *self._encode(self._layout.between), *self._turn(observation))

    def action(self, text: str) -> tuple[int, ...]:
        """A known action as a teacher says it, its stop token included. For demonstrations only: never for what a policy sampled."""
        return (*self._encode(text), self._end)

    def decode_action(self, ids: Sequence[int]) -> str:
        """Text of sampled ids, control tokens left out; bytes that are no UTF-8 become U+FFFD."""
        return self._tokenizer.decode([i for i in ids if i not in self._control], skip_special_tokens=False)

    def _instructions(self, system_prompt: str) -> tuple[int, ...]:
        if not system_prompt:
            return ()
        if self._layout.system is None:
            return self._encode(system_prompt)
        return self._part(self._layout.system, system_prompt)

    def _turn(self, observation: str) -> tuple[int, ...]:
        opening, role = self._layout.act
        return (*self._part(self._layout.observe, observation), self._control_id(opening), *self._encode(role))

    def _part(self, kind: tuple[str, str], text: str) -> tuple[int, ...]:
        opening, role = kind
        closing = (self._end, *self._encode(self._layout.between)) if self._layout.ends_context else ()
        # Role and text in one call: the pieces are then those of the chat template, whatever the text begins with.
        return (self._control_id(opening), *self._encode(role + text), *closing)

    def _encode(self, text: str) -> tuple[int, ...]:
        """Ids of foreign text: whatever it spells, no control token is among them."""
        ids: list[int] = self._tokenizer.encode(_unicode(text), add_special_tokens=False).ids
        if self._unknown is None:
            return tuple(i for i in ids if i not in self._control)
        return tuple(self._unknown if i in self._control else i for i in ids)

    def _control_ids(self) -> frozenset[int]:
        special = {i for i, token in self._tokenizer.get_added_tokens_decoder().items() if token.special}
        named = {self._control_id(token) for token in self._layout.control_tokens()}
        return frozenset((special | named) - {self._unknown})

    def _control_id(self, token: str) -> int:
        found = self._tokenizer.token_to_id(token)
        if found is None:
            raise PolicyError(
                f"tokenizer: expected a token {token!r} for this turn format, got a vocabulary without it",
                hint="choose prompt.turn_format to match the model's tokenizer",
            )
        return found

    def _check_foreign_text(self) -> None:
        if self._unknown is not None:
            return
        for token in self._layout.control_tokens():
            if not self._control.isdisjoint(self._tokenizer.encode(token, add_special_tokens=False).ids):
                raise PolicyError(
                    f"tokenizer: expected the text {token!r} to be encoded as plain pieces, got its control token",
                    hint="mark the token as special in tokenizer.json, or give the vocabulary an <unk> token",
                )


class TrajectoryBuilder:
    """Token ids of one episode as they come, with their mask: True exactly where the policy sampled."""

    def __init__(self) -> None:
        self._ids: list[int] = []
        self._action_mask: list[bool] = []
        self._logprobs: list[float] = []

    def __len__(self) -> int:
        return len(self._ids)

    def add_context(self, ids: Sequence[int]) -> None:
        """Append tokens that the policy did not sample."""
        self._ids += ids
        self._action_mask += [False] * len(ids)
        self._logprobs += [0.0] * len(ids)

    def add_sampled(self, ids: Sequence[int], logprobs: Sequence[float]) -> None:
        """Append sampled tokens with their log-probabilities in nats, equally many."""
        assert len(ids) == len(logprobs), (len(ids), len(logprobs))
        self._ids += ids
        self._action_mask += [True] * len(ids)
        self._logprobs += logprobs

    def build(self, *, policy_version: int) -> Trajectory | None:
        """The trajectory so far, cut after its last action token; None without one."""
        length = next((i + 1 for i in reversed(range(len(self._ids))) if self._action_mask[i]), 0)
        if length == 0:
            return None
        return Trajectory(
            token_ids=tuple(self._ids[:length]),
            action_mask=tuple(self._action_mask[:length]),
            logprobs=tuple(self._logprobs[:length]),
            policy_version=policy_version,
        )


def _private_copy(tokenizer: Tokenizer) -> Tokenizer:
    """A copy that neither cuts nor pads."""
    copy = Tokenizer.from_str(tokenizer.to_str())
    copy.no_truncation()
    copy.no_padding()
    return copy


def _unicode(text: str) -> str:
    """Lone surrogates, which no tokenizer takes, become '?'."""
    return text.encode("utf-8", "replace").decode("utf-8")
