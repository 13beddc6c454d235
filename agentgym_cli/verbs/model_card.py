"""The card of an exported model: which run and checkpoint it is of, what it was trained on, what was measured. Plain Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

from agentgym_cli.recipe.freeze import Frozen
from agentgym_cli.recipe.parts import TASKS
from agentgym_cli.recipe.schema.algorithms import DpoSpec
from agentgym_cli.report import phrases
from agentgym_cli.report.model import Part, Report
from agentgym_cli.report.text import for_code, for_markdown


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What an export is of."""

    run: str
    step: int
    checkpoint: str
    """SHA-256 of the checkpoint's weights file."""
    parameters: int
    apart: str | None = None
    """How far its log-probabilities are from those sampled, in words; None where nothing rounds them."""


def card(frozen: Frozen, made: Made, report: Report, loader: str) -> str:
    """The text of README.md; ``loader`` is the class of transformers that loads the tokenizer."""
    run = frozen.run
    learned = run.train.algorithm.kind if run.train is not None and made.step else "warm start" if run.warm_start is not None else "nothing"
    lines = [
        "---",
        "library_name: transformers",
        "pipeline_tag: text-generation",
        "tags: [agentgym, agent]",
        "---",
        "",
        f"# {for_markdown(run.name)}, step {made.step}",
        "",
        for_markdown(run.description) or "A policy for an AgentGym-style environment.",
        "",
        "| | |",
        "|---|---|",
        *(f"| {label} | {value} |" for label, value in _facts(frozen, made, learned)),
        "",
        "## Data",
        "",
        *(f"- {line}" for line in _data(frozen)),
        "",
        "## Figures",
        "",
        *_figures(made.step, report),
        "",
        "## Use",
        "",
        "The chat template lays out turns as in training: the environment's observations are the user's messages, actions are the assistant's, and",
        "each ends with the token of `generation_config.json`.",
        "",
        f"    from transformers import AutoModelForCausalLM, {loader}",
        "",
        f"    tokenizer = {loader}.from_pretrained(FOLDER)",
        "    model = AutoModelForCausalLM.from_pretrained(FOLDER)",
        "",
    ]
    return "\n".join(lines)


def _facts(frozen: Frozen, made: Made, learned: str) -> Iterator[tuple[str, str]]:
    run = frozen.run
    model = run.policy.own_model
    yield "run", for_code(made.run)
    yield "digest of the frozen run", for_code(frozen.digest)
    yield "weights of the checkpoint, SHA-256", for_code(made.checkpoint)
    yield "algorithm", learned
    yield "seed", str(run.seed)
    yield "started from", f"{for_code(model.path)}, weights {'made from the seed' if model.weights == 'seed' else 'of its files'}"
    if run.train is not None and run.train.lora is not None:
        lora = run.train.lora
        yield "adapters", f"rank {lora.rank}, alpha {lora.alpha:g}, on {for_markdown(', '.join(lora.targets))}; merged into these weights"
    yield "parameters", f"{made.parameters:,}"
    if made.apart is not None:
        yield "log-probabilities", made.apart
    yield "environment", for_code(run.env.dialect)
    yield "turns", f"layout {run.prompt.turn_format}, actions as {run.prompt.action_format}"
    yield "sampled at", f"temperature {run.policy.sampling.temperature:g}, at most {run.budgets.response_tokens} tokens a turn"
    yield "stack", for_code(f"{run.engine.stack}.txt")


def _data(frozen: Frozen) -> Iterator[str]:
    for item, part in sorted(frozen.parts.items()):
        if item.startswith(TASKS):
            yield f"{for_markdown(item)}: {part['count']} tasks, content {for_code(part['rows'][:12])}"
    algorithm = None if frozen.run.train is None else frozen.run.train.algorithm
    for source in getattr(algorithm, "pairs" if isinstance(algorithm, DpoSpec) else "demonstrations", ()):
        yield ", ".join(f"{field.name} {for_markdown(str(getattr(source, field.name)))}" for field in fields(source))
    for name, digest in sorted(frozen.parts.get("data", {}).items()):
        yield f"{for_code(name)}: SHA-256 {for_code(digest[:12])}"


def _figures(step: int, report: Report) -> Iterator[str]:
    """Success against both denominators of every evaluation of these weights."""
    judged = [part for part in report.parts if part.phase.startswith("eval") and part.step == step]
    if not judged:
        yield f"The run did not evaluate step {step}."
        return
    yield "| evaluation | success of scheduled | 95% | success of scored | 95% | infra errors | if unscored failed or succeeded |"
    yield "|---|---|---|---|---|---|---|"
    for part in judged:
        yield _row(part)
    if report.header.label:
        yield ""
        yield f"This is a {report.header.label}: not the experiment that the recipe is named after."


def _row(part: Part) -> str:
    count = part.accounting
    whole, scored = count.end_to_end, count.conditional
    cells = (
        for_markdown(part.split),
        f"{phrases.percent(whole.value)} ({phrases.of(whole)})",
        phrases.interval(whole),
        f"{phrases.percent(scored.value)} ({phrases.of(scored)})",
        phrases.interval(scored),
        f"{phrases.percent(count.infra_share.value)}",
        phrases.extremes(count),
    )
    return f"| {' | '.join(cells)} |"
