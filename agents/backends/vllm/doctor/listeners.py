"""Who listens on a port, and what its processes run with, as far as /proc lets this user see (Linux; proc(5)).

Guarantee: what cannot be seen (another user's process, another container, no Linux) is None, never a guess.
"""

import socket
from pathlib import Path

_LISTENING = "0A"  # TCP_LISTEN, in /proc/net/tcp.


def listens(host: str, port: int, timeout_s: float = 2.0) -> bool:
    """Does anybody take connections there?"""
    try:
        socket.create_connection((host, port), timeout_s).close()
    except OSError:
        return False
    return True


def listener(port: int, proc: Path = Path("/proc")) -> int | None:
    """The process that listens on a TCP port of this machine."""
    inodes = {inode for table in ("tcp", "tcp6") for inode in _listening(proc / "net" / table, port)}
    if not inodes:
        return None
    wanted = {f"socket:[{inode}]" for inode in inodes}
    for folder in proc.glob("[0-9]*"):
        try:
            if any(str(file.readlink()) in wanted for file in (folder / "fd").iterdir()):
                return int(folder.name)
        except OSError:
            continue  # Ended meanwhile, or another user's.
    return None


def command_line(pid: int, proc: Path = Path("/proc")) -> str | None:
    try:
        words = (proc / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return None
    return " ".join(word.decode(errors="replace") for word in words if word) or None


def environment(pid: int, proc: Path = Path("/proc")) -> dict[str, str] | None:
    """What the process was started with."""
    try:
        content = (proc / str(pid) / "environ").read_bytes()
    except OSError:
        return None
    pairs = (entry.decode(errors="replace").partition("=") for entry in content.split(b"\0") if entry)
    return {name: value for name, _, value in pairs}


def family(pid: int, proc: Path = Path("/proc")) -> list[int]:
    """The process and all below it."""
    pids = [pid]
    for one in pids:
        for children in (proc / str(one) / "task").glob("*/children"):
            try:
                pids.extend(int(word) for word in children.read_text().split())
            except OSError:
                continue  # The thread has ended meanwhile.
    return pids


def libraries(pids: list[int], proc: Path = Path("/proc")) -> set[str] | None:
    """Names of the files mapped into these processes; None when none of them can be looked into."""
    found: set[str] = set()
    seen = False
    for pid in pids:
        try:
            lines = (proc / str(pid) / "maps").read_text().splitlines()
        except OSError:
            continue
        seen = True
        found |= {line.rpartition("/")[2] for line in lines if "/" in line}
    return found if seen else None


def _listening(table: Path, port: int) -> list[str]:
    """Inodes of the sockets that listen on the port."""
    try:
        lines = table.read_text().splitlines()[1:]
    except OSError:
        return []
    fields = (line.split() for line in lines)
    return [one[9] for one in fields if one[3] == _LISTENING and int(one[1].rpartition(":")[2], 16) == port]
