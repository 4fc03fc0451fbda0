"""Where sockets live: their whole path is limited to 107 bytes (unix(7)), which a long state folder exceeds.

Guarantee: the folder is ours alone (mode 700, owned by this user), and the same at each start.
"""

import hashlib
import os
import stat
import tempfile
from pathlib import Path

from controlplane.contract.errors import BadSettings

LONGEST_SOCKET_PATH = 107
_LONGEST_BELOW = len("/s-0123456789ab/events.sock") + 8  # A server's folder and socket, and room for a temporary name.


def choose_run_folder(given: Path | None, state_dir: Path) -> Path:
    """The node file's own, else beside the state, else in the temporary folder. Raises BadSettings if too long."""
    name = hashlib.sha256(str(state_dir.resolve()).encode()).hexdigest()[:8]
    short = Path(tempfile.gettempdir()) / f"tailwright-{os.getuid()}-{name}"
    candidates = [given] if given is not None else [state_dir.resolve() / "run", short]
    for candidate in candidates:
        if len(os.fsencode(candidate)) + _LONGEST_BELOW <= LONGEST_SOCKET_PATH:
            return candidate
    most = LONGEST_SOCKET_PATH - _LONGEST_BELOW
    raise BadSettings(
        f"run_dir: {candidates[-1]} is too long for a socket's path; set run_dir in the node file to a folder of at "
        f"most {most} bytes, such as /run/tailwright",
        field="run_dir",
    )


def make_run_folder(folder: Path) -> None:
    """Raises BadSettings when it cannot be made, or is somebody else's."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise BadSettings(f"run_dir: {folder} cannot be made: {error}", field="run_dir") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise BadSettings(
            f"run_dir: {folder} is not this user's alone; remove it, or set run_dir in the node file", field="run_dir"
        )
