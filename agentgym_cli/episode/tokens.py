"""Turns as token ids. What was sampled is never decoded and encoded again, and no foreign text can become a control token."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer

from agentgym_cli.episode.layouts import LAYOUTS, Layout, TurnFormat
from agentgym_cli.episode.types import Trajectory
from agentgym_cli.errors import PolicyError

_UNKNOWN = ("<unk>", "[UNK]")


class TurnTokens:
    """Lays out turns as token ids for one tokenizer and one layout, one of our own by name or a chat template's.

    Raises PolicyError when the tokenizer lacks a control token, or would turn its spelling in foreign text into that token and
    has no unknown token to put in its place.
    """

    def __init__(self, tokenizer: Tokenizer, layout: TurnFormat | Layout) -> None:
        self._layout = layout if isinstance(layout, Layout) else LAYOUTS[layout]
        self._tokenizer = _private_copy(tokenizer, self._layout.control if self._layout.guarded else frozenset())
        self._tokenizer.encode_special_tokens = True
        self._unknown = next((i for i in map(self._tokenizer.token_to_id, _UNKNOWN) if i is not None), None)
        self._spellings = re.compile("|".join(map(re.escape, sorted(self._layout.control, key=len, reverse=True))))
        self._end = self._control_id(self._layout.end)
        self._control = self._control_ids()
        self._check_foreign_text()

    @classmethod
    def from_file(cls, path: Path, layout: TurnFormat | Layout) -> TurnTokens:
        """Read a tokenizer.json. Raises PolicyError when it is not one."""
        return cls(read_tokenizer(path), layout)

    @property
    def stop_ids(self) -> frozenset[int]:
        """Tokens that end an action when they are sampled."""
        return frozenset({self._end})

    @property
    def control_ids(self) -> frozenset[int]:
        """Tokens that no foreign text becomes."""
        return self._control

    @property
    def layout(self) -> Layout:
        """The text around messages."""
        return self._layout

    @property
    def vocabulary(self) -> int:
        """Number of token ids, added tokens included."""
        return self._tokenizer.get_vocab_size(with_added_tokens=True)

    @property
    def largest_id(self) -> int:
        """Of the vocabulary, which may have holes."""
        return max(self._tokenizer.get_vocab(with_added_tokens=True).values())

    def initial(self, system_prompt: str, observation: str) -> tuple[int, ...]:
        """Context up to the first action; an empty ``system_prompt`` says nothing. Raises PolicyError where instructions have no place."""
        layout = self._layout
        if not system_prompt:
            return self._lay_out(layout.before_first, self._content(observation), layout.behind_first)
        if layout.before_instructions is None:
            raise PolicyError("chat template: expected a place for instructions, got none", "say nothing with prompt.system=none")
        return self._lay_out(
            layout.before_instructions,
            _Foreign(system_prompt.strip() if layout.strips_instructions else system_prompt),
            layout.between,
            self._content(observation),
            layout.behind_first,
        )

    def next(self, observation: str, *, stop_sampled: bool) -> tuple[int, ...]:
        """Context between the end of one action and the next. The closing token is in it only when the policy did not sample it."""
        closing = () if stop_sampled else (self._end,)
        return (*closing, *self._lay_out(self._layout.before_later, self._content(observation), self._layout.behind_later))

    def action(self, text: str) -> tuple[int, ...]:
        """A known action as a teacher says it, its stop token included. For demonstrations only: never for what a policy sampled."""
        return (*self._encode(text), self._end)

    def decode_action(self, ids: Sequence[int]) -> str:
        """Text of sampled ids, control tokens left out; bytes that are no UTF-8 become U+FFFD."""
        return self._tokenizer.decode([i for i in ids if i not in self._control], skip_special_tokens=False)

    def read(self, text: str) -> tuple[int, ...]:
        """Ids of a whole text of our own, in which the spelling of a control token is that token. Never for what others wrote."""
        self._tokenizer.encode_special_tokens = False
        try:
            return tuple(self._tokenizer.encode(_unicode(text), add_special_tokens=False).ids)
        finally:
            self._tokenizer.encode_special_tokens = True

    def written(self, ids: Sequence[int]) -> str:
        """Text of any ids, control tokens spelled out; bytes that are no UTF-8 become U+FFFD."""
        return self._tokenizer.decode(list(ids), skip_special_tokens=False)

    def spelled(self, token: int) -> str:
        """How one token is written; what is no whole character is U+FFFD."""
        return self.written([token])

    def _content(self, text: str) -> _Foreign:
        return _Foreign(text.strip() if self._layout.strips else text)

    def _lay_out(self, *parts: str | _Foreign) -> tuple[int, ...]:
        """Ids of our text, in which control tokens are read, with foreign text in between, in which none are.

        What stands between two control tokens is encoded in one call: the pieces are then those of the whole text, whatever foreign text begins with.
        """
        ids: list[int] = []
        run = ""
        for part in parts:
            if isinstance(part, _Foreign):
                run += part.text
                continue
            place = 0
            for found in self._spellings.finditer(part):
                ids += (*self._encode(run + part[place : found.start()]), self._control_id(found[0]))
                run, place = "", found.end()
            run += part[place:]
        return (*ids, *self._encode(run))

    def _encode(self, text: str) -> tuple[int, ...]:
        """Ids of text that may be foreign: whatever it spells, no control token is among them."""
        ids: list[int] = self._tokenizer.encode(_unicode(text), add_special_tokens=False).ids if text else []
        if self._unknown is None:
            return tuple(i for i in ids if i not in self._control)
        return tuple(self._unknown if i in self._control else i for i in ids)

    def _control_ids(self) -> frozenset[int]:
        special = {i for i, token in self._tokenizer.get_added_tokens_decoder().items() if token.special}
        named = {self._control_id(token) for token in self._layout.control}
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
        for token in sorted(self._layout.control):
            if not self._control.isdisjoint(self._tokenizer.encode(token, add_special_tokens=False).ids):
                raise PolicyError(
                    f"tokenizer: expected the text {token!r} to be encoded as plain pieces, got its control token",
                    hint="mark the token as special in tokenizer.json, or give the vocabulary an <unk> token",
                )


@dataclass(frozen=True, slots=True)
class _Foreign:
    """Text that somebody else wrote."""

    text: str


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

    def build(self, *, policy_version: int, versions: tuple[tuple[int, int], ...] = ()) -> Trajectory | None:
        """The trajectory so far, cut after its last action token; None without one. ``versions`` is of all its action tokens, or empty."""
        length = next((i + 1 for i in reversed(range(len(self._ids))) if self._action_mask[i]), 0)
        if length == 0:
            return None
        return Trajectory(
            token_ids=tuple(self._ids[:length]),
            action_mask=tuple(self._action_mask[:length]),
            logprobs=tuple(self._logprobs[:length]),
            policy_version=policy_version,
            versions=versions,
        )


def read_tokenizer(path: Path) -> Tokenizer:
    """Read a tokenizer.json. Raises PolicyError when it is not one."""
    try:
        text = path.read_text(encoding="utf-8")
        model = json.loads(text)["model"]["type"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as err:
        raise PolicyError(f"{path}: expected a tokenizer.json with a model, got {type(err).__name__}: {str(err)[:200]}") from err
    if not isinstance(model, str):
        raise PolicyError(f"{path}: expected model.type to be a string, got {model!r:.200}")
    return Tokenizer.from_str(text)


def _private_copy(tokenizer: Tokenizer, guarded: frozenset[str]) -> Tokenizer:
    """A copy that neither cuts nor pads, and in which added tokens of ``guarded`` are special: only those can be kept out of foreign text."""
    text = tokenizer.to_str()
    if any(token.content in guarded and not token.special for token in tokenizer.get_added_tokens_decoder().values()):
        document = json.loads(text)
        for token in document["added_tokens"]:
            token["special"] = token["special"] or token["content"] in guarded
        text = json.dumps(document, ensure_ascii=False)
    copy = Tokenizer.from_str(text)
    copy.no_truncation()
    copy.no_padding()
    return copy


def _unicode(text: str) -> str:
    """Lone surrogates, which no tokenizer takes, become '?'."""
    return text.encode("utf-8", "replace").decode("utf-8")
