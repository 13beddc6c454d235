"""A stranger's template apart: the same answers, and no template that hangs, crashes or fills the memory of who asks."""

from __future__ import annotations

import pytest

from agentgym_cli.episode.template_apart import layout_apart, render_apart
from agentgym_cli.episode.template_layout import derive_layout
from agentgym_cli.episode.templates import Message
from agentgym_cli.errors import PolicyError
from tests.episode.chats import CHATML, FORGETFUL, ORDINARY, POLITE, SPECIAL, chat_template

ADDED = [*SPECIAL, *ORDINARY]
ENDLESS_LOOPS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"


@pytest.mark.slow
@pytest.mark.parametrize("source", [CHATML, FORGETFUL, POLITE])
def test_a_layout_derived_apart_is_the_layout_derived_here(source: str) -> None:
    assert layout_apart(chat_template(source), ADDED) == derive_layout(chat_template(source), ADDED)


@pytest.mark.slow
def test_conversations_are_rendered_apart_as_they_are_here() -> None:
    said: list[Message] = [{"role": "user", "content": "é \ud800 {{ 7 * 7 }}"}]
    assert render_apart(chat_template(CHATML), [said, said[:0]]) == [chat_template(CHATML).render(said), "<|im_start|>assistant\n"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("{{ 'a' * 100000000000 }}", "MemoryError"),
        ("{{ '%999999999999d' % 1 }}", "MemoryError"),
        ("{{ 'a' | center(10**11) }}", "MemoryError"),
        (ENDLESS_LOOPS, "no end within 1 s of computing"),
        ("x" * 100_000 + CHATML, "at most 65,536 characters around a few messages"),
        ("{% for a in [1] %}" * 25 + "{% endfor %}" * 25, r"a chat template \(Jinja\), got SyntaxError"),
    ],
)
def test_promise_11_a_template_without_bounds_is_refused_within_them(source: str, reason: str) -> None:
    with pytest.raises(PolicyError, match=rf"chat\.jinja: expected .*{reason}"):
        layout_apart(chat_template(source), ADDED, cpu_seconds=1)


@pytest.mark.slow
def test_promise_11_a_template_that_bides_its_time_is_refused_when_it_is_rendered() -> None:
    said: list[Message] = [{"role": "user", "content": "now"}]
    for source, reason in ((ENDLESS_LOOPS, "no end within 1 s"), ("{{ 'a' * 70000 }}", "at most 65,536 characters of a few messages, got 70,")):
        waiting = chat_template("{% if messages[0].content == 'now' %}" + source + "{% endif %}" + CHATML)
        layout_apart(waiting, ADDED)
        with pytest.raises(PolicyError, match=reason):
            render_apart(waiting, [said], cpu_seconds=1)
