"""Where an embedded engine is controlled: a Unix socket that its port's number names (`owned_socket` keeps it ours)."""

import os
import tempfile
from pathlib import Path


def engine_socket(port: int) -> Path:
    """Where the embedded engine that serves on `port` is controlled, unless its command line says otherwise.

    In `$XDG_RUNTIME_DIR`, which a login session has; else in a folder of this user's in the temporary directory.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    folder = Path(runtime) if runtime else Path(tempfile.gettempdir()) / f"tailwright-{os.getuid()}"
    return folder / f"tailwright-engine-{port}.sock"
