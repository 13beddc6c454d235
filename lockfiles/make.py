"""Writes lockfiles/STACK.txt from what the running interpreter has: ``python lockfiles/make.py cpu local``.

Versions are the installed ones of everything that an extra of agentgym-cli needs; hashes come from pip's own reports, one for each
interpreter and platform, so they are of the files that pip would install there. Nothing is installed and no address is written.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

FOLDER = Path(__file__).parent
LINUX = [f"manylinux_2_{minor}" for minor in (5, 12, 17, 24, 26, 27, 28, 31, 34)] + ["manylinux1", "manylinux2010", "manylinux2014"]
PLATFORMS = {
    "Linux x86_64": [f"{name}_x86_64" for name in LINUX],
    "Linux aarch64": [f"{name}_aarch64" for name in LINUX],
    "macOS arm64": ["macosx_14_0_arm64"],
}
PYTHONS = ("3.11", "3.12", "3.13")
APART = ("torch", "agentgym-cli")
PIP_SECONDS = 900
HEADER = """\
# Stack {stack}: what agentgym-cli[{extra}] runs with. Use it with nothing else in the environment, torch first:
#   pip install torch=={torch}
#   pip install --no-deps --require-hashes -r lockfiles/{stack}.txt
#   pip install --no-deps agentgym-cli
# The machine chooses torch's build; the line below pins its version.
# torch=={torch}
# Hashes: wheels of {platforms} for Python {pythons}.
"""


def needed(extra: str) -> dict[str, str]:
    """Installed version by name of everything that the extra needs, torch included."""
    found: dict[str, str] = {}
    waiting = [("agentgym-cli", frozenset({extra}))]
    seen = set(waiting)
    while waiting:
        name, extras = waiting.pop()
        found[name] = metadata.version(name)
        for line in metadata.requires(name) or []:
            requirement = Requirement(line)
            applies = requirement.marker is None or any(requirement.marker.evaluate({"extra": each}) for each in extras | {""})
            key = (re.sub(r"[-_.]+", "-", requirement.name).lower(), frozenset(requirement.extras))
            if applies and key not in seen:
                seen.add(key)
                waiting.append(key)
    return found


def hashes(pins: dict[str, str], python: str, platforms: list[str]) -> dict[str, str]:
    """SHA-256 by name of the wheel that pip would install for one interpreter and platform."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        options = ["--dry-run", "--ignore-installed", "--no-deps", "--quiet", "--only-binary=:all:", "--target", folder]
        target = ["--python-version", python, *(f"--platform={name}" for name in platforms)]
        command = [sys.executable, "-m", "pip", "install", *options, *target, "--report", str(report)]
        subprocess.run([*command, *(f"{name}=={version}" for name, version in pins.items())], check=True, timeout=PIP_SECONDS)
        items = json.loads(report.read_text(encoding="utf-8"))["install"]
    return {re.sub(r"[-_.]+", "-", item["metadata"]["name"]).lower(): item["download_info"]["archive_info"]["hashes"]["sha256"] for item in items}


def main(stack: str, extra: str) -> None:
    """Write the lock of a stack."""
    versions = needed(extra)
    pins = {name: versions[name] for name in sorted(versions) if name not in APART}
    known: dict[str, set[str]] = defaultdict(set)
    for python in PYTHONS:
        for platforms in PLATFORMS.values():
            for name, digest in hashes(pins, python, platforms).items():
                known[name].add(digest)
    torch = versions["torch"].partition("+")[0]
    text = HEADER.format(stack=stack, extra=extra, torch=torch, platforms=", ".join(PLATFORMS), pythons=", ".join(PYTHONS))
    for name, version in pins.items():
        text += " \\\n".join([f"{name}=={version}", *(f"    --hash=sha256:{digest}" for digest in sorted(known[name]))]) + "\n"
    (FOLDER / f"{stack}.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
