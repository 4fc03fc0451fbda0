"""Becomes a vLLM server: run as a program, standard library only.

    python launch.py RECORD LOG PARENT -- ARGV...

Puts this process's identity into the record, its output into the log, and then executes ARGV in its place. PARENT is
the process to end with, 0 for none. Without a record there is nothing to become: the agent has given the start up.

Guarantee: from the first moment that vLLM's code runs, the record on disk says which process it runs in.
"""

import ctypes
import json
import os
import signal
import sys
from pathlib import Path

# prctl(2), PR_SET_PDEATHSIG; it survives execve(2) of an ordinary program. As in controlplane/terminal/parent_death.py,
# which a program that runs by itself cannot import.
_SET_PARENT_DEATH_SIGNAL = 1


def start_ticks(pid: int) -> int | None:
    """When a process began, in clock ticks since the machine's boot (proc(5), stat, field 22); None: it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    state, *fields = stat.rpartition(")")[2].split()  # The name before it may hold anything, even a bracket.
    return None if state in "ZX" else int(fields[18])


def machine_boot() -> str:
    """The kernel's identity of this boot: process numbers mean nothing beyond it."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def main() -> None:
    record, log, parent, _, *argv = sys.argv[1:]
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    if int(parent):
        ctypes.CDLL(None, use_errno=True).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)
        if os.getppid() != int(parent):
            sys.exit("the agent has ended before its server began")
    _identify(Path(record))
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        sys.exit(f"OSError: {argv[0]} cannot be run: {error}")


def _identify(path: Path) -> None:
    content = json.loads(path.read_bytes())
    content.update(pid=os.getpid(), ticks=start_ticks(os.getpid()), machine_boot=machine_boot())
    scratch = path.with_name(path.name + ".pid")
    with scratch.open("w") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    scratch.rename(path)


if __name__ == "__main__":
    main()
