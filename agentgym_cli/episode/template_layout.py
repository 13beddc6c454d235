"""A chat template boiled down to the layout of its turns, with what it does to a conversation. Knows no token ids."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import NoReturn

from agentgym_cli.episode.layouts import Layout
from agentgym_cli.episode.templates import ChatTemplate, Message
from agentgym_cli.errors import PolicyError
from agentgym_cli.recipe.wording import shown

MOST_TEXT = 1 << 16
"""Characters of a rendering of a few short messages, and of the text around turns."""
_SYSTEM, _USERS, _ACTIONS = "Wq7zrules", ("Wq7zone", "Wq7ztwo", "Wq7zthree"), ("Wq7zfirst", "Wq7zsecond")
"""Contents that no template has in its own text."""
_THOUGHT = "<think>\nWq7zwhy\n</think>\n\nWq7zsaid"
_SPACED = ("  Wq7zsaid", "Wq7zsaid  ", "\nWq7zsaid", "Wq7zsaid\n")
_KEPT = ("<think>Wq7zsaid</think>", "é\u00a0{{ 7 * 7 }} {% raw %} <b>")


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateFacts:
    """What a template does beyond putting text around messages."""

    rewrites: tuple[str, ...]
    """How it changes what was said in earlier turns, in sentences; empty when a longer conversation begins with the shorter one."""
    instructions: str | None
    """Instructions that it adds where a conversation has none; None when it adds none."""
    refuses_instructions: bool
    """True when it has no place for instructions."""


def derive_layout(template: ChatTemplate, added_tokens: Collection[str]) -> tuple[Layout, TemplateFacts]:
    """The layout of a template's turns, found by rendering conversations of known contents and verified on others.

    Args:
        added_tokens: spellings of the tokenizer's added tokens; those that the template writes are control tokens.

    Raises:
        PolicyError: its turns do not follow one rule: the reason, and what was rendered.
    """
    return _Derivation(template, added_tokens).found()


class _Derivation:
    """One template under examination."""

    def __init__(self, template: ChatTemplate, added_tokens: Collection[str]) -> None:
        self._template = template
        self._added = added_tokens

    def found(self) -> tuple[Layout, TemplateFacts]:
        alone = self._fixed(_USERS[:1])
        refuses = self._refuses_instructions()
        first = None if refuses else self._fixed(_USERS[:1], system=_SYSTEM)
        pieces = self._turns(() if first is None else first)
        opening, closing, behind_later = pieces
        end = self._end(closing)
        if first is not None and first[-1] != alone[-1]:
            self._refuse("the same text behind the first observation with instructions and without", f"{first[-1]!r} and {alone[-1]!r}")
        strips, strips_instructions = self._strips(refuses)
        texts = ("".join(first or ()), *alone, closing, behind_later)
        layout = Layout(
            before_instructions=None if first is None else first[0],
            between="" if first is None else first[1],
            before_first=alone[0],
            behind_first=alone[1],
            before_later=closing.removeprefix(end),
            behind_later=behind_later,
            end=end,
            control=frozenset(token for token in self._added if token in self._template.source or any(token in text for text in texts)),
            strips=strips,
            strips_instructions=strips_instructions,
            guarded=True,
        )
        return layout, TemplateFacts(
            rewrites=tuple(self._rewrites(layout, opening)), instructions=_instructions(alone, first), refuses_instructions=refuses
        )

    def _refuses_instructions(self) -> bool:
        try:
            return _SYSTEM not in self._template.render(_conversation((_USERS[0],), system=_SYSTEM))
        except PolicyError:
            return True

    def _fixed(self, contents: Sequence[str], *, system: str = "") -> list[str]:
        """What a rendering has around its contents, each of which it must have once, in order."""
        said = [*([system] if system else []), *contents]
        rest = self._template.render(_conversation(contents, system=system))
        if len(rest) > MOST_TEXT:
            self._refuse(f"at most {MOST_TEXT:,} characters around a few messages", f"{len(rest):,}")
        pieces = []
        for content in said:
            before, found, rest = rest.partition(content)
            if not found or content in rest:
                self._refuse(f"every message once and in order, {content!r} among them", f"{before[-60:]!r} and behind it {rest[:60]!r}")
            pieces.append(before)
        return [*pieces, rest]

    def _turns(self, first: Sequence[str]) -> tuple[str, str, str]:
        """What opens an earlier action, what stands between it and the next observation, and what opens the next action."""
        system = _SYSTEM if first else ""
        skip = 2 if first else 1
        two = self._fixed((_USERS[0], _ACTIONS[0], _USERS[1]), system=system)[skip:]
        three = self._fixed((_USERS[0], _ACTIONS[0], _USERS[1], _ACTIONS[1], _USERS[2]), system=system)[skip:]
        opening, closing, last = two
        if three != [opening, closing, opening, closing, last]:
            self._refuse("the same text around every turn", f"{two!r} with two turns and {three!r} with three")
        return opening, closing, last

    def _end(self, closing: str) -> str:
        found = max((token for token in self._added if closing.startswith(token)), key=len, default=None)
        if found is None:
            self._refuse("a control token right behind an assistant's message", repr(closing[:60]))
        return found

    def _strips(self, refuses: bool) -> tuple[bool, bool]:
        """Whether white space is left out around observations, and around instructions; anything else must be kept."""
        before, behind = self._fixed(_USERS[:1])
        strips = self._strips_in(before, behind, lambda text: _conversation((text,)))
        if refuses:
            return strips, False
        before, between, behind = self._fixed(_USERS[:1], system=_SYSTEM)
        return strips, self._strips_in(before, between + _USERS[0] + behind, lambda text: _conversation((_USERS[0],), system=text))

    def _strips_in(self, before: str, behind: str, conversation: Callable[[str], list[Message]]) -> bool:
        rendered = {text: self._template.render(conversation(text)) for text in (*_SPACED, *_KEPT)}
        strips = all(rendered[text] == before + text.strip() + behind for text in _SPACED)
        for text, got in rendered.items():
            if got != before + (text.strip() if strips else text) + behind:
                self._refuse(f"{text!r} as it is, or without white space around it", repr(got))
        return strips

    def _rewrites(self, layout: Layout, opening: str) -> list[str]:
        found = []
        if opening != layout.behind_first or layout.behind_later != layout.behind_first:
            found.append(f"an action that is asked for opens with {shown(layout.behind_first)}, an earlier one with {shown(opening)}")
        if self._changes(layout, opening, _THOUGHT):
            found.append("a <think> block of an earlier action is left out or changed")
        if any(self._changes(layout, opening, spaced) for spaced in _SPACED):
            found.append("white space around an earlier action is left out or changed")
        if any(self._changes(layout, opening, kept) for kept in ("", *_KEPT[1:])):
            found.append("an earlier action is changed in other ways")
        return found

    def _changes(self, layout: Layout, opening: str, action: str) -> bool:
        """Whether an action is another one once it is history."""
        before = layout.before_first + _USERS[0] + opening
        behind = layout.end + layout.before_later + _USERS[1] + layout.behind_later
        try:
            return self._template.render(_conversation((_USERS[0], action, _USERS[1]))) != before + action + behind
        except PolicyError:
            return True

    def _refuse(self, expected: str, got: str) -> NoReturn:
        raise PolicyError(
            f"{self._template.where}: expected {expected}, got {got[:300]}",
            "such turns have no rule to append by; name another template with policy.model.chat_template=FILE",
        )


def _conversation(contents: Sequence[str], *, system: str = "") -> list[Message]:
    """Observations and actions by turns, after instructions where there are any."""
    said: list[Message] = [{"role": "assistant" if place % 2 else "user", "content": content} for place, content in enumerate(contents)]
    return [{"role": "system", "content": system}, *said] if system else said


def _instructions(alone: Sequence[str], first: Sequence[str] | None) -> str | None:
    """What stands in the place of instructions that nobody gave."""
    if first is None:
        return None
    before, between = first[0], first[1]
    inside = alone[0].removeprefix(before).removesuffix(between)
    return (inside or None) if alone[0] == before + inside + between else None
