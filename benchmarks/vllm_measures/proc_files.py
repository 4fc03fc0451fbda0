"""What Linux tells of processes under /proc (proc(5)). A process that has ended meanwhile counts as nothing."""

import contextlib
import os
from pathlib import Path

MARK = "BENCHMARK_RUN_OF_TAILWRIGHT"
"""In the environment of all that a run starts. An agent does not hand TAILWRIGHT_* on to the servers it starts."""
_TICKS = os.sysconf("SC_CLK_TCK")


def marked(mark: str) -> list[int]:
    """Processes whose environment, as they were started, holds the mark."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for pid in all_pids():
        with contextlib.suppress(OSError):
            if wanted in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                found.append(pid)
    return found


def command_lines(mark: str, part: str) -> dict[int, int]:
    """Marked processes with this part in their command line, each with the clock tick of its start."""
    found = {}
    for pid in marked(mark):
        with contextlib.suppress(OSError):
            if part.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" "):
                found[pid] = start_tick(pid)
    return found


def cpu_s_of(pid: int) -> float:
    """CPU seconds of one process, all threads; 0 when there is none."""
    return cpu_s_in(Path(f"/proc/{pid}/stat"))


def busy_s() -> float:
    """CPU seconds that all cores together have been at work since the start, for whomever; stolen ones too."""
    user, nice, system, _idle, _waiting, irq, soft, stolen = Path("/proc/stat").read_text(encoding="utf-8").split()[1:9]
    return sum(map(int, (user, nice, system, irq, soft, stolen))) / _TICKS


def all_pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").glob("[0-9]*")]


def _stat(path: Path) -> list[str]:
    """The fields of /proc/.../stat after the command's name, which may hold spaces: field 3 of proc(5) comes first."""
    return path.read_text(encoding="utf-8").rpartition(")")[2].split()


def group_of(pid: int) -> int:
    try:
        return int(_stat(Path(f"/proc/{pid}/stat"))[2])
    except (OSError, IndexError):
        return 0


def start_tick(pid: int) -> int:
    try:
        return int(_stat(Path(f"/proc/{pid}/stat"))[19])
    except (OSError, IndexError):
        return 0


def cpu_s_in(path: Path) -> float:
    try:
        fields = _stat(path)
        return (int(fields[11]) + int(fields[12])) / _TICKS
    except (OSError, IndexError):
        return 0.0
