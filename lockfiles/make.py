"""Writes lockfiles/STACK.txt with uv: ``python lockfiles/make.py [STACK ...] [--upgrade]``, without names all of them.

Present versions are kept where they still fit; ``--upgrade`` takes the newest. Nothing is installed and no address is written.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from agentgym_cli.recipe.lock import normalized, of_torch

FOLDER = Path(__file__).parent
UV_SECONDS = 600
TORCH = "2.13.0"
"""Of every stack that runs on a CPU; noxfile.py and the README install the same."""
EVERYWHERE = ("--universal", "--python-version=3.11", "--fork-strategy=fewest")
CUDA_LINUX = ("--python-version=3.12", "--python-platform=x86_64-manylinux_2_28")
CPU_LINUX = ("--python-version=3.11", "--python-platform=x86_64-manylinux_2_28")
PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)")
HASH = re.compile(r"--hash=(sha256:[0-9a-f]{64})")
Pins: TypeAlias = dict[str, tuple[str, list[str]]]
"""Version and hashes by normalized name."""
Resolve: TypeAlias = Callable[[tuple[str, ...], tuple[str, ...], str, Path | None], Pins]


@dataclass(frozen=True, kw_only=True)
class Stack:
    """One lock: what it is for, what goes into it, and where it holds."""

    purpose: str
    sources: tuple[str, ...]
    """What uv resolves, as its arguments."""
    target: tuple[str, ...]
    """Interpreters and platforms, as uv's arguments."""
    built: tuple[tuple[str, str], ...] = ()
    """Version by name of torch and of what is built for one build of it: comments, since the machine chooses the build."""
    notes: tuple[str, ...] = ()
    """More lines of the header."""


PLATFORMS = "Holds on Linux x86_64, Linux aarch64 and macOS arm64, Python 3.11 to 3.13."
STACKS = {
    "cpu": Stack(
        purpose="what agentgym-cli[local] runs with",
        sources=("pyproject.toml", "--extra=local"),
        target=EVERYWHERE,
        built=(("torch", TORCH),),
        notes=(PLATFORMS,),
    ),
    "dev": Stack(
        purpose="what the checks and tests run with, agentgym-cli[local,dev]",
        sources=("pyproject.toml", "--extra=local", "--extra=dev"),
        target=EVERYWHERE,
        built=(("torch", TORCH),),
        notes=(PLATFORMS,),
    ),
    "envs": Stack(
        purpose="what the servers of every world and everything but training run with, agentgym-cli[envs], without torch",
        sources=("pyproject.toml", "--extra=envs"),
        target=EVERYWHERE,
        notes=(PLATFORMS,),
    ),
    "verl-cpu": Stack(
        purpose="the cluster stack on a CPU, for rehearsing a launch: verl, Ray and vLLM's CPU build",
        sources=("lockfiles/verl-cpu.in", "--no-deps"),
        target=CPU_LINUX,
        built=(("torch", TORCH),),
        notes=(
            "Holds on Linux x86_64, Python 3.11.",
            "Installed and run: lockfiles/verl-cpu.in has the versions of an environment in which verl trained two steps of GRPO with vLLM.",
            "vLLM's CPU build asks for torchvision, torchaudio, torchcodec and an older setuptools, and runs without: hence --no-deps.",
        ),
    ),
    "verl-cuda": Stack(
        purpose="the cluster stack on CUDA: verl, Ray and vLLM, with agentgym-cli[serve]",
        sources=("pyproject.toml", "--extra=serve", "lockfiles/verl-cuda.in"),
        target=CUDA_LINUX,
        built=(("torch", "2.11.0"), ("torchvision", "0.26.0"), ("torchaudio", "2.11.0")),
        notes=(
            "Resolved, not installed: no machine with CUDA was at hand. Holds on Linux x86_64 with glibc 2.28 or newer, Python 3.12, CUDA 13.",
            "flash-attn is built against the torch that is there, so it is a step of its own: pip install --no-build-isolation flash-attn==2.8.3",
        ),
    ),
}


def header(name: str, stack: Stack) -> str:
    """The comments at the top of a lock: what it is for and how it is used."""
    lines = [f"Stack {name}: {stack.purpose}. Use it in an environment with nothing else:"]
    if stack.built:
        lines.append(f"  pip install {' '.join(f'{each}=={version}' for each, version in stack.built)}")
    lines += [f"  pip install --no-deps --require-hashes -r lockfiles/{name}.txt", "  pip install --no-deps agentgym-cli", *stack.notes]
    if stack.built:
        lines.append("The machine chooses the build of what follows, this file its version; what its vendors ship with torch comes with it.")
        lines += [f"{each}=={version}" for each, version in stack.built]
    return "".join(f"# {line}\n" for line in lines)


def compile_pins(sources: tuple[str, ...], target: tuple[str, ...], wanted: str, known: Path | None) -> Pins:
    """Version and hashes by name, as uv resolves them.

    Args:
        wanted: further requirements, one a line.
        known: a lock whose versions are kept where they still fit.
    """
    with tempfile.TemporaryDirectory() as folder:
        further, out = Path(folder) / "further.in", Path(folder) / "out.txt"
        further.write_text(wanted, encoding="utf-8")
        if known is not None and known.exists():
            out.write_bytes(known.read_bytes())
        options = ("--generate-hashes", "--no-header", "--no-annotate", "--quiet", f"--output-file={out}")
        command = [sys.executable, "-m", "uv", "pip", "compile", *sources, str(further), *target, *options]
        subprocess.run(command, cwd=FOLDER.parent, check=True, timeout=UV_SECONDS)
        return read_pins(out.read_text(encoding="utf-8"))


def read_pins(text: str) -> Pins:
    """Pins of uv's output. Markers are left out: every package of a lock is installed everywhere that the lock holds. SystemExit for two versions."""
    pins: Pins = {}
    for block in re.split(r"\n(?=\S)", text.strip()):
        found = PIN.match(block)
        if found is None:
            raise SystemExit(f"expected name==version, got {block.splitlines()[0]!r}")
        name = normalized(found[1])
        if name in pins:
            raise SystemExit(f"expected one version of {name}, got {pins[name][0]} and {found[2]}: add a constraint")
        pins[name] = (found[2], sorted(HASH.findall(block)))
    return pins


def lock_text(name: str, stack: Stack, *, upgrade: bool, resolve: Resolve = compile_pins) -> str:
    """The whole text of a stack's lock."""
    wanted = "".join(f"{each}=={version}\n" for each, version in stack.built)
    pins = resolve(stack.sources, stack.target, wanted, None if upgrade else FOLDER / f"{name}.txt")
    # What comes with torch is no line, unless another package needs a version of it that torch by itself does not bring.
    with_torch = resolve((), stack.target, wanted, None) if stack.built else {}
    apart = {each for each, (version, _) in with_torch.items() if of_torch(each) and pins.get(each, (version,))[0] == version}
    lines = [
        " \\\n".join([f"{each}=={version}", *(f"    --hash={digest}" for digest in hashes)]) + "\n"
        for each, (version, hashes) in sorted(pins.items())
        if each not in apart | dict(stack.built).keys()
    ]
    return header(name, stack) + "".join(lines)


def main(arguments: list[str]) -> None:
    """Write the locks of the named stacks, or of all."""
    names = [each for each in arguments if each != "--upgrade"] or list(STACKS)
    if unknown := [name for name in names if name not in STACKS]:
        raise SystemExit(f"expected stacks of {', '.join(STACKS)}, got {', '.join(unknown)}")
    for name in names:
        (FOLDER / f"{name}.txt").write_text(lock_text(name, STACKS[name], upgrade="--upgrade" in arguments), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
