"""How a run's turns become tokens: its tokenizer, with one of our turn formats or its model's chat template. Loads no weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentgym_cli.episode.template_apart import layout_apart
from agentgym_cli.episode.template_layout import TemplateFacts
from agentgym_cli.episode.templates import ChatTemplate, read_template
from agentgym_cli.episode.tokens import TurnTokens, read_tokenizer
from agentgym_cli.errors import PolicyError
from agentgym_cli.recipe.data import find_data
from agentgym_cli.recipe.schema.run import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """What lays out the turns of a run."""

    tokens: TurnTokens
    folder: Path
    """The tokenizer's."""
    template: ChatTemplate | None
    """None for a turn format of our own, which has no facts either."""
    facts: TemplateFacts | None


def turns_of(run: Run, *, beside: Sequence[Path], folder: Path | None = None) -> Turns:
    """Read a run's tokenizer and, where its turn format is ``template``, boil the chat template down to a layout.

    Args:
        folder: of a tokenizer that takes the place of the recipe's.

    Raises:
        PolicyError: tokenizer and layout do not fit, or the template's turns follow no rule. One that rewrites history is a fact, no error.
        RecipeError: a file that the recipe names is nowhere.
    """
    model = run.policy.own_model
    name, where = (model.path, "policy.model.path") if model.tokenizer is None else (model.tokenizer, "policy.model.tokenizer")
    folder = find_data(name, beside=beside, where=where) if folder is None else folder
    tokenizer = read_tokenizer(folder / "tokenizer.json")
    if run.prompt.turn_format != "template":
        return Turns(tokens=TurnTokens(tokenizer, run.prompt.turn_format), folder=folder, template=None, facts=None)
    file = None if model.chat_template is None else find_data(model.chat_template, beside=beside, where="policy.model.chat_template")
    template = read_template(folder, file)
    added = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    layout, facts = layout_apart(template, added)
    return Turns(tokens=TurnTokens(tokenizer, layout), folder=folder, template=template, facts=facts)


def turn_tokens(run: Run, *, beside: Sequence[Path], folder: Path | None = None) -> TurnTokens:
    """The same for a run that plays. Raises PolicyError also for a template that rewrites history where the recipe does not say ``append``."""
    turns = turns_of(run, beside=beside, folder=folder)
    if turns.template is not None and (reason := rewritten(run, turns)) is not None:
        raise PolicyError(f"{turns.template.where}: {reason}", "prompt.history=append keeps every turn as it was sampled")
    return turns.tokens


def rewritten(run: Run, turns: Turns) -> str | None:
    """Why the chat template is not what the recipe expects of it; None when it is."""
    if turns.facts is None or not turns.facts.rewrites or run.prompt.history == "append":
        return None
    return (
        f"expected a chat template that leaves earlier turns as they are (prompt.history is exact), got one where {'; '.join(turns.facts.rewrites)}"
    )
