"""What of a stored run is like what is planned: recipes compared key by key, so that no measurement stands for something that it is not of.

Worlds' times need the same worlds. Turns and tokens also need the same tasks, prompt, budgets and model. Times of the policy and the update need the
same sizes of model and the same device; they are brought to the planned set-up by the ratio of what is assumed of the two.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agentgym_cli.capacity.gpus import kind_named
from agentgym_cli.capacity.measured import ALL, How, Line, Measured, Use
from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.canonical import leaves
from agentgym_cli.recipe.fingerprint import fingerprint
from agentgym_cli.recipe.freeze import below, config_of
from agentgym_cli.recipe.parts import TASKS, task_parts
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.recipe.tasks import MissingLists, select_tasks
from agentgym_cli.verbs.devices import devices_of, shape_of
from agentgym_cli.verbs.spoken import spoken_dialect
from agentgym_cli.verbs.workload import load_of, plan_of, services_of

WORLDS = ("env.dialect", "env.world", "env.world_args")
_PLAYED = ("policy.model", "policy.sampling", "prompt", "budgets.response_tokens", "budgets.context_tokens")
_ASKED = ("policy.endpoint.model", "policy.endpoint.api", "policy.endpoint.stop")
"""Of an endpoint, what makes it another policy."""
_DEVICE = ("engine.kind", "engine.device")
_LEARNED = ("train", "warm_start")
_DECODED = ("engine.slots", "engine.threads", "budgets.context_tokens", "cluster")
_UPDATED = ("engine.threads", "engine.precision", "engine.activation_checkpointing", "engine.pass_tokens", "cluster", "train")
_LEFT = ("train.steps", "train.learning_rate", "train.warmup_steps", "train.weight_decay", "train.checkpoint_every", "train.max_action_induced_share")
"""Of ``train``, what changes no time of an update."""
_MOST_NAMED = 3
_NUMBERED = re.compile(r"\.\d+.*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A stored run as it is compared."""

    run: Run
    parts: Mapping[str, Mapping[str, str]]
    """What its digest covers outside its recipe: of each task list, digests of what it has."""
    folders: tuple[Path, ...]
    fingerprint: str
    policy: str
    """Who acted."""
    trained: bool
    """Whether its measurements are of training."""


def use_of(stored: Stored, found: Measured, *, planned: Run, folders: Sequence[Path], same_devices: bool, gpu: str | None = None) -> Use:
    """Compare a stored run with the planned one.

    Args:
        found: its measurements; their own ``use`` is not looked at.
        folders: where the planned run's files are.
        same_devices: no other devices were asked for on the command line.
        gpu: kind of GPU that was asked for there; None takes the one of the stored run.
    """
    keys = _different(stored.run, planned)
    served = planned.train is None and planned.evaluation.policy == "endpoint"
    worlds = _under(keys, WORLDS) + ([] if (stored.run.env.urls is None) is (planned.env.urls is None) else ["env.urls"])
    actor, rule = _actor(stored, planned), _follows_rule(planned)
    play = [*worlds, *_under(keys, (*_PLAYED, *(_ASKED if served else ()))), *_tasks(stored, planned, folders), *actor]
    if rule:
        # It has no times that would be assumed.
        device: list[str] = []
    else:
        device = _servers(keys) if served else _devices(stored, planned, folders, keys, same_devices=same_devices, gpu=gpu)
        device += actor
    # A server's times are its own: there is nothing to assume of it.
    policy, update = (None, None) if device or rule else (1.0, None) if served else _ratios(stored, found)
    lines = [_line("worlds' times", worlds, ()), _line("turns and tokens", play, _under(keys, _LEARNED))]
    lines += [_line("policy's times", device, () if served else _under(keys, _DECODED))] if device or policy else []
    if planned.train is not None and (device or update):
        lines.append(_line("update's time", device, [key for key in _under(keys, _UPDATED) if not below(key, _LEFT)]))
    return Use(worlds=not worlds, play=not play, policy=policy, update=update, lines=tuple(lines))


def _line(what: str, apart: Sequence[str], other: Sequence[str]) -> Line:
    """``apart`` is why it is left out; ``other`` is what else differs, by which times are scaled."""
    scaled: How = "scaled" if other and what.endswith(("times", "time")) else "as measured"
    return Line(what=what, how="left out" if apart else scaled, differs=tuple(dict.fromkeys(apart or other)))


def said_of(use: Use) -> tuple[str, ...]:
    """A sentence for what is not of the same thing; what the same keys keep apart stands together."""
    same: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for line in use.lines:
        same.setdefault((line.how, line.differs), []).append(line.what)
    return tuple(f"--from: {', '.join(what)} {how}; {_named(differs)} differ{_s(differs)}" for (how, differs), what in same.items() if differs)


def _s(names: Sequence[str]) -> str:
    return "s" if len(names) == 1 else ""


def _named(keys: Sequence[str]) -> str:
    rest = len(keys) - _MOST_NAMED
    return ", ".join(keys[:_MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def _different(a: Run, b: Run) -> list[str]:
    """Keys of a recipe whose values differ: a list as one, a section that only one has as one, and of one of another kind its kind alone."""
    ours, theirs = (dict(leaves(config_of(run))) for run in (a, b))
    found = {_NUMBERED.sub("", key) for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key)}
    kinds = {key.removesuffix(".kind") for key in found if key.endswith(".kind") and key != "engine.kind"}
    return sorted(
        key for key in found if not any(key.startswith(f"{above}.") for above in found) and (key.endswith(".kind") or not below(key, kinds))
    )


def _under(keys: Iterable[str], names: Sequence[str]) -> list[str]:
    return [key for key in keys if below(key, names)]


def _tasks(stored: Stored, planned: Run, folders: Sequence[Path]) -> list[str]:
    """``tasks`` where the tasks that were played are not the planned ones, by content; also where nobody can say."""
    try:
        lists = select_tasks(planned.tasks, env=spoken_dialect(planned, beside=folders).name, beside=folders)
    except MissingLists:
        return ["tasks"]
    of = f"{TASKS}train" if stored.trained and planned.train is not None else f"{TASKS}evaluation."
    wanted = {part["rows"] for name, part in task_parts(lists).items() if name.startswith(of)}
    played = {part.get("rows") for name, part in stored.parts.items() if name.startswith(f"{TASKS}train" if stored.trained else of)}
    return [] if wanted == played else ["tasks"]


def _actor(stored: Stored, planned: Run) -> list[str]:
    """``policy`` where something else acted than what is planned: the model, an endpoint, or the same rule."""
    acts = planned.evaluation.policy
    wanted = ("local", "checkpoint") if planned.train is not None or acts == "checkpoint" else (acts,)
    return [] if stored.policy.startswith(wanted) else ["policy"]


def _follows_rule(run: Run) -> bool:
    """Whether neither a model nor an endpoint acts."""
    return run.train is None and run.evaluation.policy not in ("checkpoint", "endpoint")


def _servers(keys: Sequence[str]) -> list[str]:
    """What keeps times of one server from saying anything of the other."""
    return _under(keys, (*_ASKED, "policy.endpoint.url"))


def _devices(stored: Stored, planned: Run, folders: Sequence[Path], keys: Sequence[str], *, same_devices: bool, gpu: str | None) -> list[str]:
    """What keeps times of one set-up from saying anything of the other."""
    found = _under(keys, _DEVICE)
    if on_gpus(stored.run):
        found += _kinds(stored, gpu)
    elif not same_devices:
        found.append("--gpu")
    elif _cpu(stored.fingerprint) != _cpu(fingerprint(threads=planned.engine.threads, variables={})):
        found.append("CPU")
    try:
        if shape_of(stored.run, stored.folders)[0] != shape_of(planned, folders)[0]:
            found.append("policy.model.path")
    except RecipeError:
        found.append("policy.model.path")
    return found


def on_gpus(run: Run) -> bool:
    """Whether a run computes on GPUs."""
    return run.engine.device == "cuda" or (run.engine.kind == "verl" and run.cluster is not None and run.cluster.gpus_per_node > 0)


def gpu_of(stored: Stored) -> str | None:
    """The kind of GPU that a run used; None where it is not stored, not known, or not one kind."""
    try:
        names = json.loads(stored.fingerprint).get("gpus", [])
    except (ValueError, AttributeError):
        return None
    kinds = {kind_named(str(name)) for name in names}
    kind = kinds.pop() if len(kinds) == 1 else None
    return None if kind is None else kind.name


def _kinds(stored: Stored, gpu: str | None) -> list[str]:
    """``gpu``: the kind that was asked for; None takes the stored one."""
    kind = gpu_of(stored)
    if kind is None:
        return ["kind of GPU, which is not stored"]
    return [] if gpu in (None, kind) else [f"--gpu, which was {kind}"]


def _cpu(text: str) -> object:
    try:
        made = json.loads(text)
    except ValueError:
        return None
    return made.get("cpu") if isinstance(made, dict) else None


def _ratios(stored: Stored, found: Measured) -> tuple[float | None, float | None]:
    """Measured over assumed, of the stored run on its own devices and with its own turns and tokens."""
    run = stored.run
    kind, layout = devices_of(run, gpu=gpu_of(stored) if on_gpus(run) else None)
    plan = plan_of(run, shape_of(run, stored.folders)[0], kind, layout)
    own = replace(found, use=ALL)
    load = load_of(run, plan, found.horizon, own)
    assumed = services_of(run, plan, load, own)
    policy, update = found.policy_seconds, found.update_seconds
    at_once = found.in_flight or min(load.in_flight, load.episodes)
    return (
        policy / assumed.turn(load, max(1.0, at_once)) if policy else None,
        update / assumed.update if update and assumed.update > 0 else None,
    )
