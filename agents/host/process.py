"""One process as the kernel counts it: CPU time, major page faults, and how its threads waited for a core.

Guarantee: a process that has ended reads as None; `identity` tells it from a later one with the same number.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from agents.host.run_queue import ran_and_waited_ns

PROC = Path("/proc")
Identity = tuple[int, int]
"""(pid, start in clock ticks since the machine's)."""
Waits = dict[int, tuple[int, int, int]]
"""Thread to nanoseconds on a core, nanoseconds ready but without one, and involuntary switches."""


@dataclass(frozen=True)
class ProcessTimes:
    identity: Identity
    parent: int
    cpu_ticks: int
    major_faults: int


def parse_stat(text: str) -> ProcessTimes:
    """/proc/PID/stat. The name in it may hold spaces and brackets."""
    pid, _, rest = text.partition(" ")
    fields = rest.rpartition(")")[2].split()
    user, system = int(fields[11]), int(fields[12])
    return ProcessTimes((int(pid), int(fields[19])), int(fields[1]), user + system, int(fields[9]))


def parse_switches(text: bytes) -> int:
    """Involuntary context switches, from /proc/PID/task/TID/status; they are its last line."""
    name, _, value = text.rstrip().rpartition(b":")
    if not name.endswith(b"nonvoluntary_ctxt_switches"):
        raise ValueError("no line nonvoluntary_ctxt_switches")
    return int(value)


def read(pid: int, proc: Path) -> ProcessTimes | None:
    try:
        return parse_stat((proc / str(pid) / "stat").read_text())
    except (OSError, ValueError, IndexError):
        return None


def waits(pid: int, proc: Path) -> Waits:
    """Of each thread. Empty where the kernel does not keep schedstat, or the process is gone."""
    found: Waits = {}
    folder = f"{proc}/{pid}/task"
    try:
        threads = os.listdir(folder)
    except OSError:
        return found
    for thread in threads:
        try:
            times = ran_and_waited_ns(_content(f"{folder}/{thread}/schedstat"))
            found[int(thread)] = *times, parse_switches(_content(f"{folder}/{thread}/status"))
        except (OSError, ValueError):
            continue  # The thread has ended meanwhile.
    return found


def tree(roots: Iterable[int], proc: Path = PROC) -> list[int]:
    """The processes and all that they started, parents first."""
    found = list(dict.fromkeys(roots))
    for pid in found:
        try:
            threads = os.listdir(f"{proc}/{pid}/task")
        except OSError:
            continue
        for thread in threads:  # Any thread may have started some.
            try:
                children = _content(f"{proc}/{pid}/task/{thread}/children").split()
            except OSError:
                continue
            found.extend(int(child) for child in children if int(child) not in found)
    return found


def _content(path: str) -> bytes:
    """The file, by the shortest way: an engine has dozens of threads, each read in each window."""
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, 8192)
    finally:
        os.close(file)
