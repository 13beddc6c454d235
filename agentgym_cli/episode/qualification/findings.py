"""What the checks of a policy's qualification share: their names, their results, and how they say that something does not hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

CheckName: TypeAlias = Literal["architecture", "template", "masks", "stop", "logprobs"]
Result: TypeAlias = Literal["pass", "fail", "n/a", "known deviation"]
CHECKS: dict[CheckName, str] = {
    "architecture": "config.json names a network that the engine computes exactly",
    "template": "turns are laid out token for token as the chat template does, and it leaves earlier turns as they are",
    "masks": "in scripted episodes the action mask covers exactly what was sampled, and no observation forges a turn",
    "stop": "the token that ends an action is one token, the engine stops at it, and the model's settings say the same",
    "logprobs": "the sampler's log-probabilities are the trainer's, within 0.001 nats",
}
"""By name, what must hold."""
CHEAP: tuple[CheckName, ...] = ("architecture", "template", "masks", "stop")
"""Those that load no weights."""


class NotMet(Exception):
    """What a check asks does not hold; the message is the finding."""


class Known(Exception):
    """It does not hold, and the recipe says what is done about it; the message says both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyCheck:
    """What one check found."""

    name: CheckName
    result: Result
    detail: str
    """One line; holds text of the model's files, never trusted."""
    seconds: float
