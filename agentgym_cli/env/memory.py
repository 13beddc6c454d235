"""How much memory a server on this machine uses: its process is found by the loopback port it listens on. Linux only; elsewhere nothing is found."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx

_PROC = Path("/proc")
_LISTENING = "0A"


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """A process that listens on a port of this machine."""

    name: str
    """What the system calls it."""
    pids: tuple[int, ...]
    """The processes that hold the listening socket."""

    def resident_bytes(self) -> int | None:
        """Resident memory of these processes and all that they started; None when they have ended."""
        parents = dict(_parents())
        sizes = [size for pid in _descendants(self.pids, parents) if (size := _resident(pid)) is not None]
        return sum(sizes) if sizes else None


def find_server(url: str) -> ServerProcess | None:
    """The process of this user that listens where a loopback URL points; None for another URL, or where it cannot be seen."""
    address = httpx.URL(url)
    if not _is_loopback(address.host):
        return None
    port = address.port or {"http": 80, "https": 443}[address.scheme]
    inodes = {inode for table in ("tcp", "tcp6") for inode in _listening(_PROC / "net" / table, port)}
    pids = tuple(pid for pid in _pids() if inodes & set(_sockets(pid)))
    return ServerProcess(_name(pids[0]), pids) if pids else None


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _listening(table: Path, port: int) -> Iterator[str]:
    """Inodes of the sockets of a table of the kernel that listen on a port."""
    for line in _lines(table)[1:]:
        fields = line.split()
        if len(fields) > 9 and fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
            yield fields[9]


def _pids() -> list[int]:
    return sorted(int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()) if _PROC.is_dir() else []


def _sockets(pid: int) -> Iterator[str]:
    """Inodes of the sockets that a process holds; none where we may not look."""
    try:
        entries = list((_PROC / str(pid) / "fd").iterdir())
    except OSError:
        return
    for entry in entries:
        try:
            target = str(entry.readlink())
        except OSError:
            continue
        if target.startswith("socket:["):
            yield target[8:-1]


def _parents() -> Iterator[tuple[int, int]]:
    """Every process with its parent."""
    for pid in _pids():
        # The name before the last parenthesis can hold anything.
        fields = "".join(_lines(_PROC / str(pid) / "stat")).rpartition(")")[2].split()
        if len(fields) > 1:
            yield pid, int(fields[1])


def _descendants(pids: tuple[int, ...], parents: dict[int, int]) -> set[int]:
    found = set(pids)
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def _resident(pid: int) -> int | None:
    pages = "".join(_lines(_PROC / str(pid) / "statm")).split()
    return int(pages[1]) * os.sysconf("SC_PAGE_SIZE") if len(pages) > 1 else None


def _name(pid: int) -> str:
    said = "".join(_lines(_PROC / str(pid) / "comm"))
    return f"process {pid} ({''.join(character if character.isprintable() else '?' for character in said)[:40]})"


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
