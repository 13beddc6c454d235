"""Under which conditions numbers were made, and which differences keep two of them from being compared. Computes no number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from agentgym_cli.recipe.canonical import canonical_json, digest_of
from agentgym_cli.report.frozen import at, number, read_document, text, whole

UNKNOWN = "not known"
NO_MODEL = "no model"
_NO_MODEL = frozenset({"oracle", "random", "scripted"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What evaluations have to share to be compared; None where it is not known."""

    env: str
    dialect: str | None
    """Digest of the dialect's file."""
    protocol: str | None
    tasks: Mapping[str, str]
    """Digest of each evaluation split's tasks, content and all, in any order."""
    success: str | None
    """The rule by which an episode counts as a success."""
    prompt: str | None
    """Digest of what the policy is told."""
    horizon: int | None
    samples: int | None
    """Episodes of each task."""
    temperature: str | None
    """``no model`` for a policy that has none."""
    chosen: str | None
    """Which of the tasks were run by choice; ``all`` when none were left out."""
    attempts: int | None
    """Most attempts at one episode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incomparable:
    """One condition that differs, or that is not known on one side; all texts are short, some foreign."""

    what: str
    """``environment``, ``dialect``, ``protocol``, ``tasks``, ``success rule``, ``prompt``, ``horizon``, ``samples``, ``temperature``,
    ``chosen tasks`` or ``attempts``."""
    ours: str
    theirs: str
    why: str
    """What follows for a comparison."""


_WHY = {
    "environment": "other tasks altogether",
    "dialect": "the world is spoken to in another way",
    "protocol": "another procedure of evaluation",
    "success rule": "a success means something else",
    "prompt": "the policy is told something else",
    "horizon": "more turns allow more successes",
    "samples": "another number of episodes of each task",
    "temperature": "tokens are drawn in another way",
    "chosen tasks": "another choice of tasks",
    "attempts": "more retries leave fewer infra errors",
}

WHATS = ("tasks", *_WHY)
"""Everything that can keep two runs from being compared, by its name."""


def read_conditions(frozen: str, *, env: str, policy: str) -> Conditions:
    """Conditions of a run's evaluations from its frozen run.

    Args:
        env: dialect of the run's record.
        policy: what acted, as recorded; one without a model has no temperature.
    """
    document = read_document(frozen)
    parts, spec = at(document, "parts"), at(document, "config", "evaluation")
    found = parts.items() if isinstance(parts, dict) else ()
    lists = {str(item).removeprefix("tasks.evaluation."): text(at(part, "rows")) for item, part in found if str(item).startswith("tasks.evaluation.")}
    return Conditions(
        env=env,
        dialect=_digest(at(parts, "dialect")),
        protocol=text(at(spec, "protocol")),
        tasks={split: rows for split, rows in lists.items() if rows is not None},
        success=_success(document),
        prompt=_digest(at(parts, "prompt")),
        horizon=whole(at(spec, "horizon")),
        samples=whole(at(spec, "samples_per_task")),
        temperature=NO_MODEL if policy.partition(",")[0] in _NO_MODEL else _temperature(document),
        chosen=_chosen(spec),
        attempts=whole(at(document, "config", "retry", "attempts")),
    )


def _digest(part: object) -> str | None:
    return canonical_json(part) if isinstance(part, dict) and part else None


def _success(document: object) -> str | None:
    rules = at(document, "parts", "rules")
    if not isinstance(rules, dict):
        return None
    said = {str(name): rule for name, rule in rules.items()}
    least = number(at(document, "config", "reward", "success_at_least"))
    return canonical_json(said | ({} if least is None else {"reward.success_at_least": least}))


def _temperature(document: object) -> str | None:
    said = at(document, "config", "evaluation", "temperature")
    if said is None:
        said = at(document, "config", "policy", "sampling", "temperature")
    return text(said) or (None if (value := number(said)) is None else f"{value:g}")


def _chosen(spec: object) -> str | None:
    if spec is None:
        return None
    limit, only = whole(at(spec, "limit")), at(spec, "only")
    words = ([f"the first {limit}"] if limit is not None else []) + ([canonical_json(only)] if isinstance(only, dict) else [])
    return " of ".join(words) or "all"


def incomparable(ours: Conditions, theirs: Conditions) -> Iterator[Incomparable]:
    """Every condition that differs, or that not both sides know; the tasks are compared where they are known one by one."""
    pairs: tuple[tuple[str, object, object], ...] = (
        ("environment", ours.env, theirs.env),
        ("dialect", ours.dialect, theirs.dialect),
        ("protocol", ours.protocol, theirs.protocol),
        ("success rule", ours.success, theirs.success),
        ("prompt", ours.prompt, theirs.prompt),
        ("horizon", ours.horizon, theirs.horizon),
        ("samples", ours.samples, theirs.samples),
        ("temperature", ours.temperature, theirs.temperature),
        ("chosen tasks", ours.chosen, theirs.chosen),
        ("attempts", ours.attempts, theirs.attempts),
    )
    for what, mine, other in pairs:
        unknown = mine is None or other is None
        if (unknown or mine != other) and not (what == "temperature" and NO_MODEL in (mine, other)):
            why = "nobody can say whether it was the same" if unknown else _WHY[what]
            yield Incomparable(what=what, ours=_shown(what, mine), theirs=_shown(what, other), why=why)


_LONG = frozenset({"dialect", "success rule", "prompt"})


def _shown(what: str, value: object) -> str:
    if value is None:
        return UNKNOWN
    return digest_of(value)[:12] if what in _LONG else str(value)
