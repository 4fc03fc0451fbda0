"""The folder that the agent shares with the plugin: its rights, its socket, and what the plugin has written there."""

import json
import os
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agents.backends.vllm.doctor.running_server import SCHEDULER
from agents.backends.vllm.further_knobs import with_queue_limits
from agents.backends.vllm.plugin_link import queue_limits_of
from controlplane.terminal.doctor_finding import Finding

LONGEST_SOCKET = 107  # Bytes of a Unix socket's path; unix(7), sun_path.
EVENTS, KNOBS, EFFECTIVE, PLUGIN = "events.sock", "knobs.json", "effective.json", "plugin.json"
STEPS, QUEUE_LIMITS = "steps.json", "queue_limits.json"
TAKE_UP_S = 2.0
"""The scheduler looks at a new knob file at each step, and 50 times a second without steps."""
_HELLO_TIMEOUT_S = 5.0
_RUN = "vLLM is to run with TAILWRIGHT_VLLM_DIR set to this folder, and the plugin installed"


def read(folder: Path, name: str) -> dict[str, Any] | None:
    """One of the plugin's JSON files; None when it is not there or is none."""
    try:
        found = json.loads((folder / name).read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def running(folder: Path) -> dict[str, Any] | None:
    """What scheduler and server process say that they run; None where the scheduler says nothing."""
    told = read(folder, EFFECTIVE)
    if told is None or not isinstance(told.get("knobs"), dict):
        return None
    return with_queue_limits(told, queue_limits_of(read(folder, QUEUE_LIMITS) or {}, read(folder, PLUGIN) or {}))


def findings(folder: Path, now: float | None = None) -> Iterator[Finding]:
    """All about the folder; `now` is Unix seconds."""
    now = time.time() if now is None else now
    rights = _rights(folder)
    yield rights
    length = len(os.fsencode(folder.absolute() / EVENTS))
    fits = length <= LONGEST_SOCKET
    yield Finding(
        "socket's path", fits, f"{length} bytes of {LONGEST_SOCKET}", "choose a shorter folder, such as /run/tailwright"
    )
    if not folder.is_dir():
        return
    yield _socket(folder / EVENTS)
    yield from _plugin(folder)
    yield from _effective(folder, now)
    yield _steps(folder)


def _rights(folder: Path) -> Finding:
    make = f"mkdir -m 700 {folder}, owned by the user that runs both vLLM and the agent"
    try:
        found = folder.stat()
    except OSError as error:
        return Finding("folder", False, f"{folder}: {error.strerror}", make)
    mode = f"{stat.filemode(found.st_mode)}, owner {found.st_uid}"
    if not stat.S_ISDIR(found.st_mode):
        return Finding("folder", False, f"{folder} is no folder", make)
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return Finding("folder", False, f"{folder} cannot be written by this user ({mode})", make)
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return Finding(
            "folder",
            False,
            f"{folder}: others may write here, and so set vLLM's limits ({mode})",
            f"chmod go-w {folder}",
        )
    return Finding("folder", True, f"{folder} ({mode})")


def _socket(path: Path) -> Finding:
    """Whether the feed answers. A reader that is connected is left alone: the feed serves one, and the newest."""
    if not path.exists():
        return Finding("raw statistics", False, f"{path.name} is not there", _RUN)
    if _has_reader(path):
        return Finding("raw statistics", True, f"{path.name} has a reader, an agent")
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
            link.settimeout(_HELLO_TIMEOUT_S)
            link.connect(str(path))
            link.sendall(b"{}\n")
            with link.makefile("rb") as answer:
                hello = json.loads(answer.readline())
    except (OSError, ValueError) as error:
        return Finding("raw statistics", False, f"{path.name} does not answer: {error}", f"is vLLM gone? {_RUN}")
    if hello.get("kind") != "hello":
        return Finding("raw statistics", False, f"{path.name} is not the plugin's", _RUN)
    return Finding("raw statistics", True, f"{path.name} answers, model {hello.get('model')}, nobody reads it now")


def _has_reader(path: Path, table: Path = Path("/proc/net/unix")) -> bool:
    """Is a connection accepted on this socket? Where that cannot be seen, it is not known, and so no."""
    try:
        lines = table.read_text().splitlines()[1:]
    except OSError:
        return False
    absolute = str(path.absolute())
    fields = (line.split(maxsplit=7) for line in lines)
    return any(len(one) == 8 and one[7] == absolute and one[5] == "03" for one in fields)  # 03: SS_CONNECTED.


def _plugin(folder: Path) -> Iterator[Finding]:
    told = read(folder, PLUGIN)
    if told is None:
        yield Finding("plugin's word", False, f"{PLUGIN} is not there: vLLM has not started the plugin", _RUN)
        return
    tried = told.get("tried") is True
    yield Finding(
        "plugin's word",
        tried,
        f"plugin {told.get('plugin')} in vLLM {told.get('vllm')}{'' if tried else ', which was not tried'}",
        "what the plugin does not know of it stays off",
        needed=False,
    )
    for key, name, mend in (("raw_statistics", "statistics", "look at vLLM's log"), ("live_limits", "limits", "")):
        part = told.get(key)
        on = isinstance(part, dict) and part.get("on") is True
        why = str(part.get("why") or "on") if isinstance(part, dict) else "not told"
        yield Finding(name, on, "on" if on else why, mend or f"start vLLM with {SCHEDULER}")


def _steps(folder: Path) -> Finding:
    told = (read(folder, STEPS) or {}).get("steps")
    return Finding(
        "what binds steps",
        isinstance(told, dict),
        f"{sum(told.values())} steps counted"
        if isinstance(told, dict)
        else f"{STEPS} is not there: no step is counted",
        f"the plugin counts from version 0.2.0, with {SCHEDULER}; vLLM's log says why not",
        needed=False,
    )


def _effective(folder: Path, now: float) -> Iterator[Finding]:
    told = read(folder, EFFECTIVE)
    if told is None or not isinstance(told.get("knobs"), dict):
        yield Finding("live limits", False, f"{EFFECTIVE} is not there or damaged", f"start vLLM with {SCHEDULER}")
        return
    pid, when = told.get("pid"), float(told.get("time") or 0.0)
    age = f"revision {told.get('revision')}, told {max(0.0, now - when):.0f} s ago by the {told.get('scheduler')}"
    asked_at = (folder / KNOBS).stat().st_mtime if (folder / KNOBS).exists() else 0.0
    if isinstance(pid, int) and not Path(f"/proc/{pid}").exists() and Path("/proc/self").exists():
        # In another container its number means nothing here; the socket above then says whether vLLM lives.
        age += f"; process {pid}, which wrote it, is not seen here"
    if told.get("error"):
        mend = f"the agent puts {KNOBS} right with its next change; nobody else should write it"
        yield Finding("live limits", False, f"{age}; the newest wish was refused: {told['error']}", mend)
    elif asked_at > when + TAKE_UP_S:
        mend = "vLLM is gone, stuck, or another server wrote it: look at its log"
        yield Finding("live limits", False, f"{age}, but {KNOBS} is {asked_at - when:.0f} s newer", mend)
    else:
        yield Finding("live limits", True, age)
    if clamped := told.get("clamped"):
        wish = ", ".join(f"{name} {value}" for name, value in clamped.items())
        yield Finding("capacity", False, f"asked above or below what it can: {wish}", "see the table", needed=False)
