"""The folder shared with the agent. Unset: the plugin is idle."""

import os
from pathlib import Path

VARIABLE = "TRIMTAB_VLLM_DIR"
EVENTS_SOCKET = "events.sock"
KNOBS = "knobs.json"
EFFECTIVE = "effective.json"


def shared_folder() -> Path | None:
    """The folder, made if it was missing; None when the variable is unset. Raises OSError when it cannot be used."""
    given = os.environ.get(VARIABLE)
    if not given:
        return None
    folder = Path(given)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def write_atomically(path: Path, content: bytes) -> None:
    """Readers see the old content or the new, never a part."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    scratch.write_bytes(content)
    os.replace(scratch, path)
