"""Whether somebody else is on the GPUs that a launch would take: two runs on one machine share no GPU."""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir

from agentgym_cli.errors import TrainerError
from agentgym_cli.recipe.resolve import whole_environment
from agentgym_cli.recipe.schema.computing import ClusterSpec

_SMI = ("nvidia-smi", "--query-gpu=uuid,memory.used,memory.total", "--format=csv,noheader,nounits")
_SMI_SECONDS = 15.0
FREE_SHARE = 0.1
"""Of a GPU's memory may be taken where nobody computes on it: a driver and a desktop take a few hundred MiB."""


@dataclass(frozen=True, slots=True)
class Card:
    """A GPU as nvidia-smi lists it; sizes are in MiB, or words where it has none."""

    number: int
    uuid: str
    used: str
    whole: str


@contextmanager
def claimed_gpus(cluster: ClusterSpec) -> Iterator[None]:
    """Take GPUs of this machine for as long as the block runs. Another launch that begins meanwhile, while none of their memory is taken yet, is
    refused; a kill releases them. Raises TrainerError for one that is in use."""
    cards = taken_by(cluster)
    refuse_used(cluster.gpus_per_node, cards)
    with ExitStack() as held:
        for card in cards:
            held.enter_context(_claimed(card, cluster.gpus_per_node))
        yield


def taken_by(cluster: ClusterSpec) -> list[Card]:
    """The GPUs of this machine that a launch takes; none where it takes none, or there are none: that is another check's."""
    if cluster.gpus_per_node == 0 or cluster.ray_address is not None:
        return []
    try:
        answer = subprocess.run(_SMI, capture_output=True, text=True, timeout=_SMI_SECONDS, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return []
    return read_cards(answer, visible=whole_environment().get("CUDA_VISIBLE_DEVICES"))[: cluster.gpus_per_node]


def read_cards(answer: str, *, visible: str | None) -> list[Card]:
    """Visible GPUs in an answer of nvidia-smi, a line ``UUID, MIB USED, MIB`` for each, in the order in which Ray takes them."""
    lines = [[part.strip() for part in line.split(",")] for line in answer.splitlines() if line.count(",") == 2]
    cards = [Card(number, *parts) for number, parts in enumerate(lines)]
    if visible is None:
        return cards
    names = [name.strip() for name in visible.split(",")]
    return [card for name in names for card in cards if name == str(card.number) or (name and card.uuid.startswith(name))]


def refuse_used(count: int, cards: Sequence[Card]) -> None:
    """Refuse GPUs on which somebody computes. Raises TrainerError."""
    taken = [
        f"GPU {card.number} has {int(card.used) / 1024:.0f} of {int(card.whole) / 1024:.0f} GiB taken"
        for card in cards
        if card.used.isdecimal() and card.whole.isdecimal() and int(card.used) > FREE_SHARE * int(card.whole)
    ]
    if taken:
        raise _in_use(count, ", ".join(taken))


@contextmanager
def _claimed(card: Card, count: int) -> Iterator[None]:
    place = Path(gettempdir()) / f"agentgym-{card.uuid}.lock"
    try:
        held = os.open(place, os.O_RDONLY | os.O_CREAT, 0o644)
    except OSError:  # of a file system that takes no lock nothing is asked
        yield
        return
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(held)
        raise _in_use(count, f"GPU {card.number} taken by another launch that is starting") from None
    try:
        yield
    finally:
        os.close(held)


def _in_use(count: int, found: str) -> TrainerError:
    return TrainerError(
        f"cluster.gpus_per_node: expected {count} GPUs that nobody uses, got {found}",
        "wait until the other run ends (nvidia-smi names its processes), or CUDA_VISIBLE_DEVICES=LIST agentgym train ... takes others",
    )
