"""How a run can be done again and its numbers be followed: commands, files, queries. What no record names is a word in capitals, explained."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

from agentgym_cli.report.frozen import FrozenFacts, at, read_document, text
from agentgym_cli.report.model import Pointer
from agentgym_cli.store.rows import RunRow, SegmentRow, WeightsRow

_CHECKPOINT = re.compile(r"checkpoint of step (?P<step>[0-9]+), weights (?P<weights>[0-9a-f]{64})")
_SCRIPTED = re.compile(r"scripted, script (?P<script>[0-9a-f]{64})")


def weights_of(policy: str) -> str | None:
    """SHA-256 of the weights that a run's record of its policy names; None where that is no checkpoint."""
    found = _CHECKPOINT.fullmatch(policy)
    return found["weights"] if found else None


def reproduce(run: RunRow, facts: FrozenFacts, segments: Sequence[SegmentRow], weights: Sequence[WeightsRow]) -> tuple[Pointer, ...]:
    """Pointers of a run; ``weights`` are the checkpoints of the store that hold the weights which acted, where a checkpoint did."""
    name = "'" + run.run.replace("'", "''") + "'"
    pointers = [Pointer(what="stack", how=f"lockfiles/{facts.stack}.txt, SHA-256 {facts.lock or 'not recorded'}")] if facts.stack else []
    if not run.imported:
        pointers += _again(run, facts, segments, weights)
        pointers.append(Pointer(what="what was frozen", how=f"select frozen, fingerprint from runs where run = {name}"))
    pointers.append(Pointer(what="rows of counts", how=f"select * from episodes_final where run = {name}"))
    return (*pointers, Pointer(what="rows of curves", how=f"select * from metrics_final where run = {name}"))


def _again(run: RunRow, facts: FrozenFacts, segments: Sequence[SegmentRow], weights: Sequence[WeightsRow]) -> Iterator[Pointer]:
    folder = f"{facts.runs_dir}/{run.run}"
    who, explained = _who(run, facts, weights) if run.verb == "eval" else ("", "")
    yield Pointer(what="run it again", how=f"agentgym {run.verb} {shlex.quote(f'{folder}/frozen.json')}{who}")
    if explained:
        yield Pointer(what="who acts", how=explained)
    yield Pointer(what="its folder", how=f"{folder}, or where --runs-dir put {run.run}, which no record names")
    if any(segment.drift for segment in segments):
        yield Pointer(what="drift", how="it ran with files that are not what was frozen; the command refuses those unless --allow-drift is given")


def _who(run: RunRow, facts: FrozenFacts, weights: Sequence[WeightsRow]) -> tuple[str, str]:
    """Options that name the policy which acted, and what a person has to know of them."""
    kept = f"{facts.runs_dir}/{run.run}/policy.json has its path"
    if checkpoint := _CHECKPOINT.fullmatch(run.policy):
        pinned = f"the weights of step {checkpoint['step']} with SHA-256 {checkpoint['weights']}"
        if not weights:
            return " --checkpoint CHECKPOINT", f"CHECKPOINT is a folder with {pinned}, which no run of this store wrote; {kept}"
        first = weights[0]
        return f" --checkpoint {shlex.quote(f'{facts.runs_dir}/{first.run}/{first.path}')}", f"{pinned}, which {first.run} wrote"
    if script := _SCRIPTED.fullmatch(run.policy):
        return " --policy scripted --script SCRIPT", f"SCRIPT is the file with SHA-256 {script['script']}; {kept}"
    if run.policy.partition(",")[0] == "endpoint":
        return _endpoint(run)
    return f" --policy {shlex.quote(run.policy)}", ""


def _endpoint(run: RunRow) -> tuple[str, str]:
    spec = at(read_document(run.frozen), "config", "policy", "endpoint")
    url, model, variable = (text(at(spec, key)) for key in ("url", "model", "key_variable"))
    named = f" --endpoint {shlex.quote(url or 'URL')} --model {shlex.quote(model or 'MODEL')}"
    key = f"; its key is read from {variable}" if variable else ""
    unknown = "" if url and model else "; which server and model it asked was not kept"
    return named, f"{run.policy}; a server may have moved or changed since{key}{unknown}"
