"""Becomes another program under a unit's filters: `python -m tests.deploy.sandboxed UNIT PROGRAM ARGUMENT ...`.

As systemd does it: system calls outside SystemCallFilter= fail with EPERM (by libseccomp, which systemd uses, too), and
MemoryDenyWriteExecute= by the kernel's own PR_SET_MDWE. Status 9 where this machine cannot do it.
"""

import ctypes
import ctypes.util
import errno
import os
import subprocess
import sys
from pathlib import Path

ERRNO, ALLOW = 0x00050000, 0x7FFF0000  # Actions of seccomp.h.
PR_SET_NO_NEW_PRIVS, PR_SET_MDWE, PR_GET_MDWE = 38, 65, 66
UNKNOWN = -1


def unit(path: Path) -> dict[str, list[str]]:
    """All values of each key of a unit file, in order."""
    found: dict[str, list[str]] = {}
    for line in path.read_text().splitlines():
        if line and line[0] not in "#[":
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


def possible() -> bool:
    """Whether systemd's groups, libseccomp and PR_SET_MDWE (Linux 6.3) are here."""
    has_groups = subprocess.run(["which", "systemd-analyze"], capture_output=True).returncode == 0
    mdwe = ctypes.CDLL(None).prctl(PR_GET_MDWE, 0, 0, 0, 0)
    return has_groups and ctypes.util.find_library("seccomp") is not None and mdwe >= 0


def calls_of(said: dict[str, list[str]]) -> set[str]:
    """System calls that a unit lets through: an allow list, then one that takes some away."""
    plus, minus = said["SystemCallFilter"]
    found = _members(plus)
    for name in minus.removeprefix("~").split():
        found -= _members(name)
    return found


def _members(group: str) -> set[str]:
    """Of a group of system calls, as this machine's systemd knows it."""
    done = subprocess.run(
        ["systemd-analyze", "syscall-filter", group], capture_output=True, text=True, check=True, timeout=60
    )
    found: set[str] = set()
    for line in done.stdout.splitlines()[1:]:
        word = line.strip()
        if word and not word.startswith("#"):
            found |= _members(word) if word.startswith("@") else {word}
    return found


def close(said: dict[str, list[str]]) -> None:
    """This process, and what comes of it, is held to the unit's filters from here on. Raises OSError."""
    libc, seccomp = ctypes.CDLL(None), ctypes.CDLL(ctypes.util.find_library("seccomp"))
    seccomp.seccomp_init.restype = ctypes.c_void_p
    numbers = [seccomp.seccomp_syscall_resolve_name(name.encode()) for name in calls_of(said)]
    rules = ctypes.c_void_p(seccomp.seccomp_init(ctypes.c_uint32(ERRNO | errno.EPERM)))
    for number in numbers:
        if number >= 0 and seccomp.seccomp_rule_add(rules, ctypes.c_uint32(ALLOW), number, 0):
            raise OSError(f"system call {number} cannot be allowed")
    if said.get("MemoryDenyWriteExecute") == ["yes"] and libc.prctl(PR_SET_MDWE, 1, 0, 0, 0):
        raise OSError("no PR_SET_MDWE")
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or seccomp.seccomp_load(rules):
        raise OSError("the filter cannot be loaded")


def main() -> None:
    try:
        close(unit(Path(sys.argv[1])))
    except OSError as error:
        print(error, file=sys.stderr)
        sys.exit(9)
    os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
