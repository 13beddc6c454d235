"""Whether an evaluation split is held out of training: of the run itself, or of the runs that wrote the weights which were judged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from agentgym_cli.report.face import said_when_frozen
from agentgym_cli.report.frozen import at, read_document, text
from agentgym_cli.report.phrases import NO_DATA
from agentgym_cli.report.reproduce import weights_of
from agentgym_cli.store.db import Connection
from agentgym_cli.store.gates import shared_with_training
from agentgym_cli.store.queries import find_run, weights

_UNTAUGHT = frozenset({"oracle", "random", "scripted"})
_NAME_ONE = "trained_by of the gate can name the run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """One run in which the judged weights were trained."""

    run: str
    why: str
    """How it comes in: the judged run itself, or what its weights have to do with those that were judged."""
    itself: bool
    """It is the judged run, whose splits were held against its tasks when it was frozen."""
    frozen: int | None
    """Tasks of training that it was frozen with; None where it names none."""
    played: int
    """Tasks that its episodes of training were of."""
    shared: int
    """Tasks of the judged split among those."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What an evaluation split has in common with training."""

    trainings: tuple[Training, ...]
    unknown: str | None
    """Why nobody can say where the policy was trained; None where it is known."""
    allowed: tuple[str, ...]
    """Overlaps that recipes allowed or that others reported, in sentences."""


def find_shared(connection: Connection, run: str, *, phase: str, split: str, step: int, trained_by: str | None = None) -> Shared:
    """Look for the training behind a run's evaluation.

    Args:
        trained_by: name of another run that trained the policy, as a person says; None leaves it to what is recorded.

    Raises:
        StoreError: there is no such run, or no run of the name ``trained_by``.
    """
    judged = find_run(connection, run)
    origins, unknown = _origins(connection, judged.run)
    if trained_by is not None:
        origins, unknown = {find_run(connection, trained_by).run: "named by the gate"} | origins, None
    trainings, allowed = [], list(_allowed(judged.frozen, split, ""))
    for name, why in origins.items():
        found = find_run(connection, name)
        played, shared = shared_with_training(connection, judged.run, trained=name, phase=phase, split=split, step=step)
        count = at(read_document(found.frozen), "parts", "tasks.train", "count")
        frozen = int(count) if isinstance(count, str) and count.isdecimal() else None
        trainings.append(Training(run=name, why=why, itself=name == judged.run, frozen=frozen, played=played, shared=shared))
        allowed += _allowed(found.frozen, split, f"{name}: ") if name != judged.run else ()
    return Shared(trainings=tuple(trainings), unknown=unknown, allowed=tuple(allowed))


def _allowed(frozen: str, split: str, whose: str) -> Iterator[str]:
    return (whose + sentence for sentence in said_when_frozen(frozen)[0] if f"split {split} shares" in sentence)


def _origins(connection: Connection, run: str) -> tuple[dict[str, str], str | None]:
    """Runs in which the weights were trained, with what each has to do with them, or why that is not known."""
    judged = find_run(connection, run)
    if judged.verb == "train":
        return _with_beginnings(connection, {run: "the run itself"}), None
    digest, kind = weights_of(judged.policy), judged.policy.partition(",")[0]
    if digest is not None:
        writers = {row.run: f"wrote the weights of step {row.step} that acted" for row in weights(connection, digest)}
        return _with_beginnings(connection, writers), None if writers else f"no run of this store wrote the weights that acted; {_NAME_ONE}"
    if kind in _UNTAUGHT:
        return {}, f"policy {kind} was never trained, so there is no training to hold out from"
    where = "an endpoint's model was trained elsewhere" if kind == "endpoint" else f"no record says where policy {kind} was trained"
    return {}, f"{where}; {_NAME_ONE}"


def _with_beginnings(connection: Connection, found: dict[str, str]) -> dict[str, str]:
    """The same runs and those whose checkpoints their models began as, and so on."""
    queue = list(found)
    while queue:
        name = queue.pop(0)
        files = at(read_document(find_run(connection, name).frozen), "parts", "model")
        for digest in filter(None, map(text, files.values() if isinstance(files, dict) else ())):
            for row in weights(connection, digest):
                if row.run not in found:
                    found[row.run] = f"wrote the weights of step {row.step} that {name} began with"
                    queue.append(row.run)
    return found


def judge_held_out(shared: Shared) -> tuple[str, bool]:
    """What there is to say, and whether no task of the split was trained on as far as anybody can know."""
    if shared.unknown is not None:
        return f"{NO_DATA}: {shared.unknown}", False
    said = [*map(_said, shared.trainings), *shared.allowed]
    return "; ".join(said), not shared.allowed and all(map(_apart, shared.trainings))


def _apart(training: Training) -> bool:
    return not training.shared and (training.frozen is not None if training.itself else training.played > 0)


def _said(training: Training) -> str:
    who = f"{training.run} ({training.why})"
    if training.frozen is None and not training.played:
        return f"{who}: names no tasks of training, so nobody can say"
    counts = [f"{training.frozen:,} tasks of training"] if training.frozen is not None else []
    if not training.itself and not training.played:
        return f"{who}: {counts[0]}, none of which its episodes name, so nobody can say"
    return f"{who}: {', '.join([*counts, f'played {training.played:,}, {training.shared:,} of them in the split'])}"
