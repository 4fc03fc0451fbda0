"""The folder shared with the agent, and the files in it. The variable unset: the plugin is idle.

events.sock       raw statistics of each iteration, for one reader at a time (`feed.py`)
events.lock       held by the process that serves events.sock, for as long as it lives
plugin.json       written by vLLM's server process at its start and when something is lost later (`installation.py`):
                  {"plugin", "vllm", "tried", "pid", "process", "time",
                   "raw_statistics": {"on": true or false, "why": "...", "details": true or false},
                   "live_limits": {"on": true or false, "why": "..."}}
knobs.json        the limits the agent wants, replaced atomically (`knob_file.py`)
effective.json    the limits that the scheduler runs, written by vLLM's engine process after each change (`limits.py`);
                  with data parallelism that is rank 0, the others write effective.RANK.json
queue_limits.json the queue limits that vLLM's server process runs, written by it after each change (`queue_limits.py`)
steps.json        how many steps were bound by what, written by vLLM's engine process (`step_counts.py`); as above,
                  the others write steps.RANK.json
"""

import os
import stat
from pathlib import Path

VARIABLE = "TAILWRIGHT_VLLM_DIR"
EVENTS_SOCKET = "events.sock"
EVENTS_LOCK = "events.lock"
PLUGIN = "plugin.json"
QUEUE_LIMITS = "queue_limits.json"
KNOBS = "knobs.json"
EFFECTIVE = "effective.json"


def shared_folder() -> Path | None:
    """The folder, made if it was missing; None when the variable is unset. Raises OSError when it cannot be used."""
    given = os.environ.get(VARIABLE)
    if not given:
        return None
    folder = Path(given)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"{folder} is not writable for vLLM's user")
    link, found = folder.lstat(), folder.stat()
    for owner in (link.st_uid, found.st_uid):
        if owner not in (os.geteuid(), 0):
            raise PermissionError(f"{folder} belongs to user {owner}, not to vLLM's: give it a folder of its own")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(f"{folder} is writable for others, who could then move vLLM's limits: chmod go-w")
    return folder


def write_atomically(path: Path, content: bytes) -> None:
    """Readers see the old content or the new, never a part."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    scratch.write_bytes(content)
    os.replace(scratch, path)
