"""Unix sockets that only their owner can open: the folder is of mode 700, the socket of mode 600.

Guarantee: a socket's file that a killed process left behind is replaced, that of a living one never; a folder that
somebody else owns, or may write to, is refused.
"""

import fcntl
import os
import socket
import stat
from pathlib import Path
from typing import Final

from controlplane.contract.errors import BadSettings, Conflict

LONGEST_PATH: Final = 107  # sun_path of unix(7), less its closing zero.


def make_folder(folder: Path, field: str) -> None:
    """Make the folder, or take the one that is there. Raises BadSettings when it is not this user's alone."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BadSettings(f"{field}: {folder} cannot be made: {error}", field=field) from error
    check_folder(folder, field)


def check_folder(folder: Path, field: str) -> None:
    """Raises BadSettings when the folder is not there, is somebody else's, or others may write to it."""
    try:
        found = folder.lstat()
    except OSError as error:
        raise BadSettings(f"{field}: {folder} cannot be read: {error.strerror}", field=field) from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise BadSettings(
            f"{field}: {folder} is not this user's alone; remove it, or set {field} to another place", field=field
        )


def claim(path: Path, field: str) -> socket.socket:
    """The socket, bound, mode 600. A lock beside it keeps it to one process, and is let go when that ends.

    Raises `Conflict` when another process has it, `BadSettings` when the path cannot be a socket's.
    """
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise BadSettings(f"{field}: {path} is longer than {LONGEST_PATH} bytes: use a shorter path", field=field)
    try:
        lock = os.open(
            path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
    except OSError as error:
        raise BadSettings(f"{field}: {path}: {error.strerror}", field=field) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise Conflict(f"{field}: another process serves {path}: stop it, or use another path", field=field) from None
    path.unlink(missing_ok=True)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        made.bind(str(path))
    finally:
        os.umask(mask)
    return made  # The lock's descriptor stays open as long as the process lives.
