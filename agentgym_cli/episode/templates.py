"""Chat templates: found beside a tokenizer and rendered in a sandbox. Owns jinja2; knows no token ids and no turns of ours."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NoReturn, TypedDict

from jinja2 import Template, TemplateError, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from agentgym_cli.errors import PolicyError
from agentgym_cli.recipe.wording import shown
from agentgym_cli.recipe.yaml import read_text

MAX_TEMPLATE_BYTES = 1 << 20
MAX_CONFIG_BYTES = 16 << 20
_TOKENS = ("bos_token", "eos_token", "pad_token", "unk_token")
_HINT = "name a template of your own with policy.model.chat_template=FILE, or choose prompt.turn_format=chatml"
_FAILURES = (TemplateError, ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, SyntaxError, TypeError, ValueError)
"""What rendering a stranger's template can raise."""


class Message(TypedDict):
    """One message of a conversation as templates know it."""

    role: Literal["system", "user", "assistant"]
    content: str


class _Generation(Extension):
    """``{% generation %}`` marks for others what an assistant says; what is inside is rendered as it stands."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class ChatTemplate:
    """A template and the tokens that it may name.

    It gets no clock: one that writes the date takes its own fixed date, or is refused, since a frozen run must not depend on the day.
    """

    def __init__(self, source: str, *, tokens: Mapping[str, str], where: str) -> None:
        """``tokens``: spellings by name, such as ``eos_token``. The source is not looked at before it is rendered."""
        self.source = source
        self.tokens = dict(tokens)
        self.where = where
        self._compiled: Template | None = None

    def render(self, messages: Sequence[Message]) -> str:
        """The conversation up to where the next assistant's message begins.

        A stranger's template may take any time and memory: ``template_apart`` bounds both.

        Raises:
            PolicyError: the source is no template, or refuses the conversation.
        """
        if self._compiled is None:
            self._compiled = _compiled(self.source, self.where)
        try:
            return self._compiled.render(messages=[dict(message) for message in messages], add_generation_prompt=True, **self.tokens)
        except _FAILURES as err:
            roles = ", ".join(message["role"] for message in messages)
            raise PolicyError(f"{self.where}: expected the template to render the roles {roles}, got {_said(err)}", _HINT) from err


def _compiled(source: str, where: str) -> Template:
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", _Generation])
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    try:
        return environment.from_string(source)
    except _FAILURES as err:
        raise PolicyError(f"{where}: expected a chat template (Jinja), got {_said(err)}", _HINT) from err


def read_template(folder: Path, file: Path | None = None) -> ChatTemplate:
    """The chat template of a tokenizer's folder, or the one in ``file``, with the tokens that the folder names.

    Raises:
        PolicyError: there is none.
        RecipeError: a file that is too large or no text.
    """
    settings = _settings(folder / "tokenizer_config.json")
    if file is None and (folder / "chat_template.jinja").is_file():
        file = folder / "chat_template.jinja"
    if file is not None:
        return ChatTemplate(read_text(file, MAX_TEMPLATE_BYTES), tokens=_tokens(settings), where=str(file))
    source = _default(settings.get("chat_template"))
    if source is None:
        raise PolicyError(f"{folder}: expected chat_template.jinja, or a chat_template in tokenizer_config.json, got neither", _HINT)
    return ChatTemplate(source, tokens=_tokens(settings), where=str(folder / "tokenizer_config.json"))


def _settings(path: Path) -> Mapping[str, object]:
    if not path.is_file():
        return {}
    try:
        settings = json.loads(read_text(path, MAX_CONFIG_BYTES))
    except (ValueError, RecursionError) as err:
        raise PolicyError(f"{path}: expected JSON, got {type(err).__name__}: {str(err)[:200]}") from err
    if not isinstance(settings, dict):
        raise PolicyError(f"{path}: expected an object, got {shown(settings)}")
    return settings


def _default(said: object) -> str | None:
    """A template, or of several named ones the one called ``default``."""
    if isinstance(said, list):
        said = next((each.get("template") for each in said if isinstance(each, dict) and each.get("name") == "default"), None)
    return said if isinstance(said, str) else None


def _tokens(settings: Mapping[str, object]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in _TOKENS:
        said = settings.get(name)
        spelling = said.get("content") if isinstance(said, dict) else said
        if isinstance(spelling, str):
            found[name] = spelling
    return found


def _tojson(value: object, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _raise_exception(message: object) -> NoReturn:
    raise TemplateError(str(message))


def _said(err: BaseException) -> str:
    return f"{type(err).__name__}: {shown(str(err))}"
