"""A server's processes: started detached, recognised again, ended to the last one. Linux only.

Guarantee: a process is taken for a server's only when number, kernel start time and boot of the machine are those of
its record; a number that was given to another process since is never signalled.
"""

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import psutil

from agents.backends.vllm.managed import become_server
from agents.backends.vllm.managed.kept_servers import ServerRecord

log = logging.getLogger(__name__)

POLL_S = 0.05
KILLED_WITHIN_S = 20.0
"""The kernel may take this long to free a large process's memory."""


def spawn(
    record_path: Path, record: ServerRecord, environment: Mapping[str, str], *, end_with_agent: bool
) -> ServerRecord:
    """Start the record's command in a session of its own; returns the record with the process's identity.

    Call it from the thread that lives as long as the agent. Raises OSError when no process can be made.
    """
    parent = os.getpid() if end_with_agent else 0
    process = subprocess.Popen(
        [
            sys.executable,
            "-I",
            become_server.__file__,
            str(record_path),
            str(record.log),
            str(parent),
            "--",
            *record.argv,
        ],
        env=dict(environment),
        cwd=record.cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    _children[process.pid] = process
    identity = {
        "pid": process.pid,
        "ticks": become_server.start_ticks(process.pid),
        "machine_boot": become_server.machine_boot(),
    }
    return record.model_copy(update=identity)


def is_alive(record: ServerRecord) -> bool:
    """Does the server's first process live?"""
    if record.pid is None or record.ticks is None:
        return False
    reap()
    return record.machine_boot == become_server.machine_boot() and become_server.start_ticks(record.pid) == record.ticks


def members(record: ServerRecord) -> list[int]:
    """Every living process of the server: its session is the first one's number, which no other can get meanwhile."""
    if record.pid is None or record.machine_boot != become_server.machine_boot():
        return []
    first = become_server.start_ticks(record.pid)
    if first is not None and first != record.ticks:
        return []  # The number has been given away, so the session is long empty.
    return [pid for pid in psutil.pids() if _is_in(record.pid, pid)]


async def end(record: ServerRecord, grace_s: float) -> None:
    """SIGTERM to the first process, and after `grace_s` SIGKILL to all that is left. Returns when none lives."""
    if is_alive(record):
        assert record.pid is not None
        _signal(record.pid, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while time.monotonic() < deadline:
        if not members(record):
            return
        await asyncio.sleep(POLL_S)
    await killed(record)


async def killed(record: ServerRecord) -> None:
    """SIGKILL to all of the server's processes; returns when none lives."""
    deadline = time.monotonic() + KILLED_WITHIN_S
    while time.monotonic() < deadline:
        if not kill(record):
            return
        await asyncio.sleep(POLL_S)
    log.error("processes of the vLLM at port %d live on after SIGKILL", record.port)


def kill(record: ServerRecord) -> int:
    """SIGKILL to all of the server's processes; tells how many there were."""
    found = members(record)
    for pid in found:
        _signal(pid, signal.SIGKILL)
    return len(found)


def reap() -> None:
    """Take note of children that have ended, so that none stays a zombie."""
    for pid, process in list(_children.items()):
        if process.poll() is not None:
            del _children[pid]


_children: dict[int, "subprocess.Popen[bytes]"] = {}
"""Servers that this very process started."""


def _is_in(session: int, pid: int) -> bool:
    """Is this a living process of the session?

    One whose first thread has ended while others are ending still holds its files and its port, though it is a zombie.
    """
    try:
        if os.getsid(pid) != session:
            return False
        process = psutil.Process(pid)
        return process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD) or process.num_threads() > 1
    except (ProcessLookupError, psutil.NoSuchProcess):
        return False


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
