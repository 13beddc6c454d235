"""What a number can depend on beyond the frozen run: CPU, threads, interpreter, installed versions. Imports none of them."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path

from agentgym_cli.recipe.canonical import canonical_json, leaves
from agentgym_cli.recipe.lock import Installed, installed_version, normalized

_CPUINFO = Path("/proc/cpuinfo")
_DEVELOPMENT = re.compile(r"extra\s*==\s*['\"]dev['\"]")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def fingerprint(
    *, threads: int, variables: Mapping[str, str], gpus: Sequence[str] = (), cpuinfo: Path = _CPUINFO, installed: Installed = installed_version
) -> str:
    """Canonical JSON of this machine and interpreter.

    Args:
        threads: torch threads of the run's engine.
        variables: thread settings of the environment, from ``resolve.environment()``.
        gpus: names of the GPUs that a run uses, as their driver has them; none for a run that uses none, or those of another machine.
    """
    made: dict[str, object] = {
        "cpu": _cpu(cpuinfo),
        "threads": threads,
        "variables": dict(variables),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.machine()}",
        "packages": _packages(installed),
    }
    return canonical_json({**made, "gpus": list(gpus)} if gpus else made)


def fingerprint_differences(a: str, b: str) -> tuple[str, ...]:
    """Sentences ``key: VALUE, then VALUE`` for what differs between two fingerprints, sorted."""
    ours, theirs = dict(leaves(json.loads(a))), dict(leaves(json.loads(b)))
    keys = sorted(key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key))
    return tuple(f"{key}: {ours.get(key, 'nothing')}, then {theirs.get(key, 'nothing')}" for key in keys)


def _cpu(cpuinfo: Path) -> dict[str, str | int | None]:
    """Model, digest of the feature flags and number of logical CPUs; the platform's words where there is no cpuinfo."""
    try:
        text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    fields = dict(re.findall(r"^(model name|flags|Features)\s*:\s*(.*)$", text, re.MULTILINE))
    flags = fields.get("flags", fields.get("Features", ""))
    digest = hashlib.sha256(" ".join(sorted(flags.split())).encode()).hexdigest()[:16] if flags else None
    return {"model": fields.get("model name", platform.processor() or platform.machine()), "flags": digest, "count": os.cpu_count()}


def _packages(installed: Installed) -> dict[str, str | None]:
    """Version of each distribution that agentgym-cli names, its development tools left out; None for one that is not installed."""
    required = metadata.requires("agentgym-cli") or []
    names = {normalized(found[0]) for line in required if not _DEVELOPMENT.search(line) and (found := _NAME.match(line))}
    return {name: installed(name) for name in sorted(names)}
