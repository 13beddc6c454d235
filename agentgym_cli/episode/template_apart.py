"""A stranger's chat template at work in a process of its own, whose memory and time are bounded. Knows what is asked of one, not why."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Collection, Sequence
from dataclasses import asdict
from signal import SIGXCPU, Signals
from typing import Any

from agentgym_cli.episode.layouts import Layout
from agentgym_cli.episode.template_layout import MOST_TEXT, TemplateFacts, derive_layout
from agentgym_cli.episode.templates import ChatTemplate, Message
from agentgym_cli.errors import PolicyError

CPU_SECONDS = 10
MEMORY_BYTES = 1 << 30
_WALL_SECONDS = 60.0
"""For a machine that is too busy to let the process have its seconds."""
_HINT = "a chat template of a few kilobytes takes milliseconds; name another one with policy.model.chat_template=FILE"


def layout_apart(template: ChatTemplate, added_tokens: Collection[str], *, cpu_seconds: int = CPU_SECONDS) -> tuple[Layout, TemplateFacts]:
    """``derive_layout``, apart. Raises PolicyError also where the template takes too long or too much memory."""
    layout, facts = _answer(template, {"added": sorted(added_tokens)}, cpu_seconds)
    return (
        Layout(**{**layout, "control": frozenset(layout["control"])}),
        TemplateFacts(**{**facts, "rewrites": tuple(facts["rewrites"])}),
    )


def render_apart(template: ChatTemplate, conversations: Sequence[Sequence[Message]], *, cpu_seconds: int = CPU_SECONDS) -> list[str]:
    """The conversations as the template renders them, apart.

    Raises:
        PolicyError: the template refuses one, or takes too long, too much memory or too much text.
    """
    return [str(text) for text in _answer(template, {"conversations": conversations}, cpu_seconds)]


def _answer(template: ChatTemplate, asked: dict[str, object], cpu_seconds: int) -> Any:
    question = json.dumps({"source": template.source, "tokens": template.tokens, "where": template.where, "cpu_seconds": cpu_seconds, **asked})
    try:
        done = subprocess.run([sys.executable, "-m", __name__], input=question, capture_output=True, text=True, timeout=_WALL_SECONDS, check=False)
    except subprocess.TimeoutExpired as err:
        raise PolicyError(f"{template.where}: expected an answer of the template within {_WALL_SECONDS:g} s, got none", _HINT) from err
    try:
        answer = json.loads(done.stdout)
    except ValueError as err:
        raise PolicyError(f"{template.where}: expected the template to be rendered, got {_ending(done.returncode, cpu_seconds)}", _HINT) from err
    if "refused" in answer:
        message, hint = answer["refused"]
        raise PolicyError(message, hint)
    return answer["answer"]


def _ending(code: int, cpu_seconds: int) -> str:
    """What ended a process that did not answer."""
    if code == -SIGXCPU:
        return f"no end within {cpu_seconds} s of computing"
    return f"a crash ({Signals(-code).name})" if code < 0 else f"a crash (exit code {code})"


def _main() -> None:
    """Read one question from standard input and write the answer to standard output."""
    asked = json.load(sys.stdin)
    resource.setrlimit(resource.RLIMIT_CPU, (asked["cpu_seconds"], asked["cpu_seconds"] + 1))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    template = ChatTemplate(asked["source"], tokens=asked["tokens"], where=asked["where"])
    try:
        said: dict[str, object] = {"answer": _derived(template, asked["added"]) if "added" in asked else _rendered(template, asked["conversations"])}
    except PolicyError as err:
        said = {"refused": [err.message, err.hint]}
    json.dump(said, sys.stdout)


def _derived(template: ChatTemplate, added: Sequence[str]) -> list[object]:
    layout, facts = derive_layout(template, added)
    return [{**asdict(layout), "control": sorted(layout.control)}, asdict(facts)]


def _rendered(template: ChatTemplate, conversations: Sequence[Sequence[Message]]) -> list[str]:
    texts = [template.render(messages) for messages in conversations]
    longest = max(map(len, texts), default=0)
    if longest > MOST_TEXT:
        raise PolicyError(f"{template.where}: expected at most {MOST_TEXT:,} characters of a few messages, got {longest:,}", _HINT)
    return texts


if __name__ == "__main__":
    _main()
