"""Whether turns are laid out as the chat template does it: contexts compared token for token, and what happens at their edges."""

from __future__ import annotations

from agentgym_cli.episode.qualification.findings import Known, NotMet
from agentgym_cli.episode.template_apart import render_apart
from agentgym_cli.episode.template_layout import TemplateFacts
from agentgym_cli.episode.templates import ChatTemplate, Message
from agentgym_cli.episode.tokens import TurnTokens
from agentgym_cli.recipe.wording import shown

OBSERVATIONS = ("You are here.", "\nA list:\n- one\n- two\n", "42 apples, 3.5 kg", "  é 漢字 🙂  ", "", "def f(x):\n\treturn x")
ACTIONS = ("go-north-1", "go-north-2", "go-north-3", "go-north-4", "go-north-5")
"""None of them is in an observation."""
BEGINNINGS = ("go", " go", "\ngo", "\n\n", "42", ": go", "é", "漢", "<", "")


def check_template(
    tokens: TurnTokens, template: ChatTemplate | None, facts: TemplateFacts | None, *, system_prompt: str, rewritten: str | None
) -> str:
    """Compare the layout with the template, or with its own text where there is none.

    Args:
        rewritten: why the recipe does not take a template that rewrites history; None where it does, or nothing is rewritten.

    Raises:
        NotMet: a context differs, or history is rewritten and that is not taken.
        Known: history is rewritten, and the recipe says that turns are kept.
    """
    compared = _compare(tokens, template, system_prompt)
    if rewritten is not None:
        raise NotMet(f"{rewritten}; prompt.history=append keeps every turn as it was sampled")
    notes = [f"{compared} contexts equal, token for token", *_notes(tokens, facts, system_prompt)]
    if facts is not None and facts.rewrites:
        raise Known("; ".join([*facts.rewrites, "kept as sampled by prompt.history=append", *notes]))
    return "; ".join([*notes, "earlier turns stay as they are"])


def _compare(tokens: TurnTokens, template: ChatTemplate | None, system_prompt: str) -> int:
    texts = _by_layout(tokens, system_prompt) if template is None else _by_template(template, system_prompt)
    for place, (text, observation) in enumerate(zip(texts, OBSERVATIONS, strict=True)):
        laid_out = tokens.initial(system_prompt, observation) if place == 0 else tokens.next(observation, stop_sampled=False)
        if laid_out != tokens.read(text):
            raise NotMet(
                f"expected the tokens of {shown(text)}, as the whole text is encoded, got others: {_first_difference(tokens, laid_out, text)}"
            )
    return len(texts)


def _by_template(template: ChatTemplate, system_prompt: str) -> list[str]:
    """What the template writes up to each action, from the end of the one before."""
    messages: list[Message] = [{"role": "system", "content": system_prompt}] if system_prompt else []
    conversations: list[list[Message]] = []
    for observation, action in zip(OBSERVATIONS, (*ACTIONS, ""), strict=True):
        messages.append({"role": "user", "content": observation})
        conversations.append(list(messages))
        messages.append({"role": "assistant", "content": action})
    texts = render_apart(template, conversations)
    return [texts[0], *(text.rpartition(action)[2] for text, action in zip(texts[1:], ACTIONS, strict=True))]


def _by_layout(tokens: TurnTokens, system_prompt: str) -> list[str]:
    layout = tokens.layout
    first = f"{layout.before_instructions}{system_prompt}{layout.between}" if system_prompt else layout.before_first
    later = [layout.end + layout.before_later + observation + layout.behind_later for observation in OBSERVATIONS[1:]]
    return [first + OBSERVATIONS[0] + layout.behind_first, *later]


def _first_difference(tokens: TurnTokens, laid_out: tuple[int, ...], text: str) -> str:
    whole = tokens.read(text)
    place = next((at for at, (one, other) in enumerate(zip(laid_out, whole, strict=False)) if one != other), min(len(laid_out), len(whole)))
    ours, theirs = ([tokens.spelled(token) for token in ids[place : place + 3]] for ids in (laid_out, whole))
    return f"{shown(' | '.join(ours))} where the whole text has {shown(' | '.join(theirs))}"


def _notes(tokens: TurnTokens, facts: TemplateFacts | None, system_prompt: str) -> list[str]:
    """What is no fault, and good to know."""
    notes = []
    if facts is not None and facts.instructions is not None and not system_prompt:
        notes.append(f"the template adds instructions of its own: {shown(facts.instructions)}")
    if tokens.layout.strips:
        notes.append("white space around observations is left out")
    merging = [beginning for beginning in BEGINNINGS if beginning and _merges(tokens, beginning)]
    if merging:
        notes.append(f"an action that begins with {', '.join(map(repr, merging))} would merge with the text before it if it were encoded again")
    return notes


def _merges(tokens: TurnTokens, beginning: str) -> bool:
    """Whether an action and the text that opens it, encoded together, are other tokens than one behind the other."""
    opening = tokens.layout.behind_later
    return tokens.read(opening + beginning) != (*tokens.read(opening), *tokens.read(beginning))
