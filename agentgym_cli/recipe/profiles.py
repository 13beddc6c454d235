"""Which profile of a recipe a run takes, and the sentence that says why. Reads no environment variable."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentgym_cli.errors import LockError, RecipeError
from agentgym_cli.recipe.lock import Installed, install_hint, installed_version, missing_packages
from agentgym_cli.recipe.wording import listed, nearest, shown

DEFAULT = "default"
GPU = "gpu"
LAPTOP = "laptop"
_SMI = ("nvidia-smi", "--format=csv,noheader,nounits")
_SMI_SECONDS = 15.0
_USABLE_SHARE = 0.95
"""A card sold as 80 GiB reports as little as 79.6; at least this share of the size asked for counts as that size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSurvey:
    """What this machine has."""

    memory_mib: tuple[int, ...]
    """Memory of each visible GPU, in MiB; where it was asked for, what is taken of it."""
    names: tuple[str, ...] = ()
    """What the driver calls each of them."""
    why_none: str = ""
    """Why there is none, in words; '' when there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuNeed:
    """What the gpu profile asks for."""

    kind: str
    """Engine."""
    gpus: int
    gpu_memory_gib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The profile taken, and why."""

    name: str
    reason: str


Survey = Callable[[], GpuSurvey]


def survey_gpus(visible: str | None = None, *, taken: bool = False) -> GpuSurvey:
    """Ask nvidia-smi.

    Args:
        visible: value of CUDA_VISIBLE_DEVICES, by index or UUID.
        taken: ask for the memory that is taken, by whomever, in place of all that there is.
    """
    query = f"--query-gpu=uuid,memory.{'used' if taken else 'total'},name"
    try:
        answer = subprocess.run((*_SMI, query), capture_output=True, text=True, timeout=_SMI_SECONDS, check=False)
    except FileNotFoundError:
        return GpuSurvey(memory_mib=(), why_none="nvidia-smi not found")
    except (OSError, subprocess.TimeoutExpired) as err:
        return GpuSurvey(memory_mib=(), why_none=f"nvidia-smi gave no answer ({type(err).__name__})")
    if answer.returncode != 0:
        first = next(iter((answer.stderr or answer.stdout).splitlines()), "")
        return GpuSurvey(memory_mib=(), why_none=f"nvidia-smi failed with status {answer.returncode} ({shown(first)})")
    return read_survey(answer.stdout, visible=visible)


def read_survey(answer: str, *, visible: str | None) -> GpuSurvey:
    """The survey in an answer of nvidia-smi, one line ``UUID, MIB, NAME`` a GPU; a line without a number (shared memory) is no usable GPU."""
    cards: list[tuple[str, int, str]] = []
    for line in answer.splitlines():
        uuid, memory, name = (part.strip() for part in (*line.split(",", 2), "", "")[:3])
        if memory.isdecimal():
            cards.append((uuid, int(memory), name))
    if not cards:
        return GpuSurvey(memory_mib=(), why_none="nvidia-smi lists none")
    if visible is None:
        return _surveyed(cards)
    seen: list[tuple[str, int, str]] = []
    for said in (part.strip() for part in visible.split(",")):
        found = [card for number, card in enumerate(cards) if said and (said == str(number) or card[0].startswith(said))]
        if not found:
            break  # CUDA ignores what follows an invalid entry
        seen.append(found[0])
    return _surveyed(seen) if seen else GpuSurvey(memory_mib=(), why_none=f"CUDA_VISIBLE_DEVICES={visible} shows none")


def _surveyed(cards: Sequence[tuple[str, int, str]]) -> GpuSurvey:
    return GpuSurvey(memory_mib=tuple(memory for _, memory, _ in cards), names=tuple(name for *_, name in cards if name))


def choose_profile(
    names: Sequence[str],
    *,
    wanted: str | None,
    need: GpuNeed | None,
    survey: Survey,
    installed: Installed = installed_version,
    only_shown: bool = False,
) -> Choice:
    """The profile asked for, else ``gpu`` where its GPUs are, else ``laptop``, else the only one.

    Args:
        names: profiles of the recipe; none means the profile ``default``.
        wanted: from ``profile=NAME``.
        need: what profile ``gpu`` asks for; None when there is no such profile.
        only_shown: nothing will run, so where no profile fits this machine the first is taken.

    Raises:
        RecipeError: no profile has the wanted name, or none fits this machine.
        LockError: the GPUs are there and the stack is not installed.
    """
    known = list(names) or [DEFAULT]
    if wanted is not None:
        if wanted not in known:
            raise RecipeError(f"profile: expected one of {listed(known)}, got {shown(wanted)}", hint=f"profile={nearest(wanted, known)}")
        return Choice(name=wanted, reason=f"profile={wanted} was asked for")
    if not names:
        return Choice(name=DEFAULT, reason="the recipe has no profiles")
    found = survey() if need is not None else GpuSurvey(memory_mib=())
    lack = "the recipe has no profile gpu" if need is None else _lack(found, need)
    if lack is not None:
        return _without_gpu(known, lack, only_shown=only_shown)
    assert need is not None
    if (missing := missing_packages(need.kind, installed=installed)) and not only_shown:
        message = f"profile gpu: expected engine {need.kind} to be installed where {_said(found)} can be used, got no {listed(missing)}"
        others = " or ".join(f"profile={name}" for name in known if name != GPU)
        raise LockError(message, hint=f"{install_hint(need.kind)}{f', or say {others}' if others else ''}")
    return Choice(name=GPU, reason=f"this machine has {_said(found)}")


def _without_gpu(known: Sequence[str], why: str, *, only_shown: bool) -> Choice:
    if LAPTOP in known:
        return Choice(name=LAPTOP, reason=why)
    if len(known) == 1 and known[0] != GPU:
        return Choice(name=known[0], reason="the recipe has no other profile")
    if only_shown:
        return Choice(name=known[0], reason=f"the first, only to be shown; {why}")
    raise RecipeError(f"profile: expected a choice among {listed(known)}, got none and {why}", hint=f"profile={known[0]}")


def _lack(found: GpuSurvey, need: GpuNeed) -> str | None:
    """Why the GPUs are not usable; None when they are."""
    if not found.memory_mib:
        return f"no usable GPU: {found.why_none}"
    gpus = max(1, need.gpus)
    big = sum(memory >= need.gpu_memory_gib * 1024 * _USABLE_SHARE for memory in found.memory_mib)
    if big >= gpus:
        return None
    asked = f"{gpus} {'GPU' if gpus == 1 else 'GPUs'} of {need.gpu_memory_gib} GiB"
    return f"no usable GPU: profile gpu asks for {asked}, this machine has {_said(found)}"


def _said(found: GpuSurvey) -> str:
    sizes = [f"{memory / 1024:.0f} GiB" for memory in found.memory_mib]
    if len(set(sizes)) == 1:
        return f"{len(sizes)} {'GPU' if len(sizes) == 1 else 'GPUs'} of {sizes[0]}"
    return f"{len(sizes)} GPUs of {listed(sizes)}"
