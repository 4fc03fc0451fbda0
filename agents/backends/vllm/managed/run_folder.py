"""Where sockets live: their whole path is limited to 107 bytes (unix(7)), which a long state folder exceeds.

Guarantee: the folder is ours alone (mode 700, owned by this user), and the same at each start.
"""

import hashlib
import os
import tempfile
from pathlib import Path

from controlplane.contract.errors import BadSettings
from controlplane.serving.owned_socket import LONGEST_PATH

_LONGEST_BELOW = len("/s-0123456789ab/events.sock") + 8  # A server's folder and socket, and room for a temporary name.


def choose_run_folder(given: Path | None, state_dir: Path) -> Path:
    """The node file's own, else beside the state, else in the temporary folder. Raises BadSettings if too long."""
    name = hashlib.sha256(str(state_dir.resolve()).encode()).hexdigest()[:8]
    short = Path(tempfile.gettempdir()) / f"tailwright-{os.getuid()}-{name}"
    candidates = [given] if given is not None else [state_dir.resolve() / "run", short]
    for candidate in candidates:
        if len(os.fsencode(candidate)) + _LONGEST_BELOW <= LONGEST_PATH:
            return candidate
    most = LONGEST_PATH - _LONGEST_BELOW
    raise BadSettings(
        f"run_dir: {candidates[-1]} is too long for a socket's path; set run_dir in the node file to a folder of at "
        f"most {most} bytes, such as /run/tailwright",
        field="run_dir",
    )
