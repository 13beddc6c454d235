"""How turns are laid out as text: the two formats of our own, and the noun that a chat template is boiled down to. Knows no token ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

TurnFormat = Literal["words", "chatml"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Fixed text around the instructions, each observation and each action. Control tokens are written in it by their spelling."""

    before_instructions: str | None
    """None where there is no place for instructions."""
    between: str
    """Behind the instructions, before the first observation."""
    before_first: str
    """Before the first observation where there are no instructions."""
    behind_first: str
    """Behind the first observation: what opens the first action."""
    before_later: str
    """Behind an action's ``end``, before the next observation."""
    behind_later: str
    """Behind a later observation: what opens the next action."""
    end: str
    """The control token that ends an action: the only stop token."""
    control: frozenset[str]
    """Spellings of the tokens that only we and the policy may write, ``end`` included."""
    strips: bool = False
    """Whether white space around observations is left out."""
    strips_instructions: bool = False
    guarded: bool = False
    """Whether every token of ``control`` is kept out of foreign text, also one that the tokenizer itself would read in it."""


LAYOUTS: dict[TurnFormat, Layout] = {
    "words": Layout(
        before_instructions="",
        between="<obs>",
        before_first="<obs>",
        behind_first="<act>",
        before_later="<obs>",
        behind_later="<act>",
        end="<end>",
        control=frozenset({"<obs>", "<act>", "<end>"}),
    ),
    "chatml": Layout(
        before_instructions="<|im_start|>system\n",
        between="<|im_end|>\n<|im_start|>user\n",
        before_first="<|im_start|>user\n",
        behind_first="<|im_end|>\n<|im_start|>assistant\n",
        before_later="\n<|im_start|>user\n",
        behind_later="<|im_end|>\n<|im_start|>assistant\n",
        end="<|im_end|>",
        control=frozenset({"<|im_start|>", "<|im_end|>"}),
    ),
}
