"""Writes the generated blocks of the pages in this folder: help texts, tables of keys, exit codes, checks, what engines can do.

``python docs/generate.py`` brings every page up to date; a test fails while one is not. A block stands between ``<!-- end -->`` and one of
``<!-- agentgym VERB --help -->``, ``<!-- exit codes -->`` and the other names of ``TABLES``; any other name is an error.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import get_type_hints

from agentgym_cli import errors
from agentgym_cli.capacity.gpus import GIB, gpu_kinds
from agentgym_cli.capacity.known_models import known_models
from agentgym_cli.cli.capacity_values import UNITS
from agentgym_cli.cli.show_unjudged import SERVED_UNITS
from agentgym_cli.env.checks import CHECKS
from agentgym_cli.env.dialect import section_in
from agentgym_cli.env.dialect_schema import DialectSpec
from agentgym_cli.episode.qualification.findings import CHECKS as POLICY_CHECKS
from agentgym_cli.errors import AgentgymError, ExitCode
from agentgym_cli.learn.verl import settings
from agentgym_cli.learn.verl.sft.settings import sft_markdown
from agentgym_cli.recipe import features
from agentgym_cli.recipe.resolve import resolve
from agentgym_cli.report import diagnosis, gate_file
from agentgym_cli.verbs.capacity import Question, estimate_capacity

PAGES = Path(__file__).parent
BLOCK = re.compile(r"(?P<open><!-- (?P<what>(?!end -->)[^\n]*?) -->\n)(?P<body>.*?)(?P<close><!-- end -->)", re.DOTALL)
ELSEWHERE = frozenset({"json form", "recipe keys", "store columns", "observation", "said", "read", "episode", "verifier", "right"})
"""Blocks that the modules they speak of write, or tests that play what they show."""
NULL = re.compile(r"\bNone\b")
NOT_A_FAILURE = {
    ExitCode.OK: "The command did what it was asked to do.",
    ExitCode.UNEXPECTED: "A fault of agentgym; standard error has the traceback.",
}


def render(page: str) -> str:
    """The page's text with each of its blocks as it should be now; raises ValueError for one that nobody writes, or that would be empty."""
    return BLOCK.sub(lambda block: block["open"] + _written(block) + block["close"], page)


def _written(block: re.Match[str]) -> str:
    what = block["what"]
    lines = block["body"] if what in ELSEWHERE else body(what)
    if not lines.strip():
        raise ValueError(f"block {what!r}: expected lines, got none")
    return lines


def body(what: str) -> str:
    """The lines of one block. Raises ValueError for a name that stands for none."""
    if what in TABLES:
        return TABLES[what]()
    if re.fullmatch(r"agentgym [a-z_ -]*--help", what):
        return f"```text\n{help_text(what.split()[1:])}\n```\n"
    raise ValueError(f"block {what!r}: expected agentgym VERB --help or one of {', '.join((*TABLES, *sorted(ELSEWHERE)))}")


def help_text(arguments: list[str]) -> str:
    """The same of a command that succeeds."""
    return printed(arguments, allowed=(0,))


def printed(arguments: list[str], *, allowed: Sequence[int]) -> str:
    """What ``agentgym ARGUMENTS`` prints on a plain terminal of 80 columns, without trailing blanks. Raises RuntimeError for another exit code."""
    variables = {name: value for name, value in os.environ.items() if name not in {"FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS"}}
    program = "from agentgym_cli.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=variables | {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=PAGES.parent,
    )
    if done.returncode not in allowed:
        raise RuntimeError(f"agentgym {' '.join(arguments)}: expected exit code {allowed}, got {done.returncode}: {done.stderr}")
    return "\n".join(line.rstrip() for line in done.stdout.strip().splitlines())


def dialect_keys() -> str:
    """A table of each section of a dialect file, the whole file first: key, default, what it says."""
    said: dict[str, str] = {}
    sections = _sections(DialectSpec, "The file")
    return "\n".join(line for title, section in sections for line in (f"**{title}.** {section.__doc__}", "", *_keys(section, said)))


def _sections(section: type, title: str) -> Iterator[tuple[str, type]]:
    """A section and those inside it, each once, with the key where it first stands."""
    found = {section: title}
    queue = [section]
    while queue:
        for name, hint in get_type_hints(queue.pop(0)).items():
            inner = section_in(hint)
            if inner is not None and inner not in found:
                found[inner] = f"`{name}`"
                queue.append(inner)
    return ((title, each) for each, title in found.items())


def _keys(section: type, said: dict[str, str]) -> Iterator[str]:
    """Rows of a table; a key that says nothing of itself and stood in an earlier section is left out."""
    yield from ("| key | default | what it says |", "|---|---|---|")
    for field in dataclasses.fields(section):
        about = section.__pydantic_fields__[field.name]
        inner = section_in(get_type_hints(section)[field.name])
        if about.description is None and field.name in said:
            continue
        said[field.name] = about.description or inner.__doc__
        default = "required" if about.is_required() else f"`{_default(about.get_default(call_default_factory=True))}`"
        words = " ".join(said[field.name].split()).replace("``", "`").replace("|", "\\|")
        yield f"| `{field.name}` | {default} | {re.sub(NULL, 'null', words)} |"
    yield ""


def _default(value: object) -> str:
    return "{}" if dataclasses.is_dataclass(value) else json.dumps(value)


def exit_codes() -> str:
    """A table of every exit code: number, name, what it means, the class of the failure."""
    failures = {kind.exit_code: kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, AgentgymError)}
    lines = ["| code | name | meaning | class |", "|---|---|---|---|"]
    for code in ExitCode:
        meaning = NOT_A_FAILURE.get(code) or " ".join((failures[code].__doc__ or "").split())
        kind = "" if code in NOT_A_FAILURE else f"`{failures[code].__name__}`"
        lines.append(f"| {code.value} | {code.name.lower()} | {meaning} | {kind} |")
    return "\n".join(lines) + "\n"


def policy_checks() -> str:
    """A table of the checks of a served policy: name, what must hold."""
    return "\n".join(["| check | what must hold |", "|---|---|", *(f"| {name} | {said} |" for name, said in POLICY_CHECKS.items())]) + "\n"


def checks() -> str:
    """A table of the probe's checks in their order: name, level, what it finds out, the checks it needs."""
    lines = ["| check | level | what must hold | after |", "|---|---|---|---|"]
    for name, named in CHECKS.items():
        lines.append(f"| {name} | {named.level} | {' '.join((named.check.__doc__ or '').split())} | {', '.join(named.after)} |")
    return "\n".join(lines) + "\n"


def capacity_answer(*arguments: str) -> str:
    """What ``agentgym capacity recipes/textcraft_grpo.yaml`` prints with these options, whether it fits or not."""
    return f"```text\n{printed(['capacity', 'recipes/textcraft_grpo.yaml', *arguments], allowed=(0, ExitCode.RECIPE))}\n```\n"


def fewer_gpus() -> str:
    """A table of the profiles for GPUs of 80 GB: what makes each fit, and what it needs and takes by the model, on H100."""
    names = (
        "profile",
        "recipe",
        "GPUs",
        "differs by",
        "peak, GiB of 79.1",
        "left",
        "GiB of the machine's memory",
        "a step, s",
        "a run, h",
        "GPU-hours",
    )
    lines = [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
    for recipe in ("textcraft_grpo", "textcraft_ppo"):
        for profile in ("gpu", "gpu4", "gpu2", "gpu1"):
            question = Question(recipe=f"recipes/{recipe}.yaml", overrides=[f"profile={profile}"], gpu="h100-80g")
            found, run = estimate_capacity(question).main, resolve(question.recipe, question.overrides, only_shown=True).run
            assert run.train is not None and run.cluster is not None and found.verdict.training is not None
            differs = [f"`cluster.offload={run.cluster.offload}`"] if run.cluster.offload != "none" else []
            differs += [] if run.train.lora is None else [f"`train.lora` of rank {run.train.lora.rank}", f"`engine.slots={run.engine.slots}`"]
            host = found.verdict.training.host * found.plan.layout.devices
            numbers = f"{found.verdict.peak / GIB:.1f} | {found.verdict.margin:.0%} | {host / GIB:.0f}"
            times = f"{found.step.total:.0f} | {found.total.seconds / 3600:.1f} | {found.total.gpu_hours:.0f}"
            words = f"{profile} | {recipe} | {found.plan.layout.devices} | {', '.join(differs) or 'nothing'}"
            lines.append(f"| {words} | {numbers} | {times} |")
    return "\n".join(lines) + "\n"


def gpu_kinds_table() -> str:
    """A table of the kinds of GPU that are known, smallest first."""
    lines = [
        "| kind | usable GiB | memory, GB/s | bfloat16, dense, TFLOP/s | float32, TFLOP/s | to a neighbour, GB/s | to another machine, GB/s |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind in gpu_kinds().values():
        rates = (kind.bandwidth / 1e9, kind.flops / 1e12, kind.float32 / 1e12, kind.link / 1e9, kind.network / 1e9)
        lines.append(f"| {kind.name} | {kind.memory / GIB:.1f} | {' | '.join(f'{rate:,.4g}' if rate < 1e3 else f'{rate:,.0f}' for rate in rates)} |")
    return "\n".join(lines) + "\n"


def model_table() -> str:
    """A table of the models whose facts are shipped."""
    lines = ["| model | of | counted | published | bytes of cache a token, bfloat16 | positions |", "|---|---|---|---|---|---|"]
    for model in known_models().values():
        shape = model.shape
        numbers = (shape.parameters, model.published, shape.cache_bytes_per_token(2), shape.positions or 0)
        lines.append(f"| {model.name} | {model.maker} | {' | '.join(f'{number:,}' for number in numbers)} |")
    return "\n".join(lines) + "\n"


def capacity_units() -> str:
    """A table of the units of a capacity answer's numbers, the keys of one unit together."""
    by_unit: dict[str, list[str]] = {}
    for key, unit in (*UNITS.items(), *SERVED_UNITS.items()):
        by_unit.setdefault(unit, []).append(f"`{key}`")
    return "\n".join(["| unit | keys |", "|---|---|", *(f"| {unit} | {', '.join(keys)} |" for unit, keys in by_unit.items())]) + "\n"


TABLES: Mapping[str, Callable[[], str]] = {
    "capacity units": capacity_units,
    "eight GPUs of 80 GB": partial(capacity_answer, "--gpu", "h100-80g", "--gpus", "8"),
    "exit codes": exit_codes,
    "fewer GPUs": fewer_gpus,
    "kinds of GPU": gpu_kinds_table,
    "known models": model_table,
    "one GPU of 24 GB": partial(capacity_answer, "--gpu", "rtx4090-24g", "--gpus", "1"),
    "policy checks": policy_checks,
    "checks": checks,
    "dialect keys": dialect_keys,
    "engine features": features.table,
    "an endpoint": partial(capacity_answer, "profile=endpoint"),
    "gate keys": gate_file.keys_table,
    "diagnosis rules": diagnosis.rules_table,
    "verl keys": settings.markdown,
    "verl keys of sft": sft_markdown,
}
"""Blocks other than help texts, by name."""


if __name__ == "__main__":
    for path in sorted(PAGES.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        if (new := render(text)) != text:
            path.write_text(new, encoding="utf-8")
