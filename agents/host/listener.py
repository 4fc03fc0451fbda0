"""Finds the process on this host that listens on a port: TCP table to socket to open file.

Guarantee: a listener of another host, network name space or user (whose files cannot be read) is not found: None.
"""

import os
from pathlib import Path
from urllib.parse import urlsplit

from agents.host.process import PROC

LISTENS = "0A"
LOCAL = ("localhost", "127.0.0.1", "::1", "0.0.0.0", "::", "[::1]")


def port_of(url: str) -> int | None:
    """The port of a URL whose host is this one by name; a name of another host cannot be looked for here."""
    parts = urlsplit(url)
    if parts.hostname not in LOCAL and parts.hostname != os.uname().nodename:
        return None
    return parts.port or (443 if parts.scheme == "https" else 80)


def parse_table(text: str, port: int) -> set[str]:
    """Inodes of the sockets that listen on `port`, from /proc/net/tcp or tcp6."""
    found = set()
    for line in text.splitlines()[1:]:
        fields = line.split()
        if fields[3] == LISTENS and int(fields[1].rpartition(":")[2], 16) == port:
            found.add(fields[9])
    return found


def listeners(port: int, proc: Path = PROC) -> list[int]:
    """Processes that hold a listening socket of the port, the lowest number first."""
    inodes: set[str] = set()
    for name in ("tcp", "tcp6"):
        try:
            inodes |= parse_table((proc / "net" / name).read_text(), port)
        except (OSError, ValueError, IndexError):
            continue
    wanted = {f"socket:[{inode}]" for inode in inodes}
    return [pid for pid in _processes(proc) if _holds(proc, pid, wanted)] if wanted else []


def _processes(proc: Path) -> list[int]:
    try:
        return sorted(int(name) for name in os.listdir(proc) if name.isdigit())
    except OSError:
        return []


def _holds(proc: Path, pid: int, wanted: set[str]) -> bool:
    folder = f"{proc}/{pid}/fd"
    try:
        for name in os.listdir(folder):
            if os.readlink(f"{folder}/{name}") in wanted:
                return True
    except OSError:  # Ended, or another user's.
        return False
    return False
