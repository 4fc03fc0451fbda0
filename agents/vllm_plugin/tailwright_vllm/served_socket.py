"""The folder's Unix socket, served by one process at a time, made again when it is removed.

The process that holds the lock on events.lock serves; the lock goes with the process, so what a dead one left behind
is in nobody's way.
"""

import contextlib
import fcntl
import os
import socket
from pathlib import Path

from tailwright_vllm.folder import EVENTS_LOCK, EVENTS_SOCKET

LONGEST_PATH_BYTES = 107
"""sockaddr_un holds 108 bytes on Linux, the last of them zero (unix(7))."""


class ServedSocket:
    """Raises ValueError when the folder's path is too long."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.path = folder / EVENTS_SOCKET
        length = len(os.fsencode(self.path))
        if length > LONGEST_PATH_BYTES:
            raise ValueError(f"{self.path} has {length} bytes, a Unix socket's path at most {LONGEST_PATH_BYTES}")
        self._lock: int | None = None
        self._listener: socket.socket | None = None
        self._identity = (0, 0)

    @property
    def held(self) -> bool:
        """This process serves it."""
        return self._listener is not None

    def hold(self) -> socket.socket | None:
        """The listening socket, made (again) where needed; None while another process serves. Raises OSError."""
        if self._listener is not None and self._there() == self._identity:
            return self._listener
        self.release()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = self._take_lock()
        if self._lock is None:
            return None
        try:
            self._listener = listen(self.path)
            self._identity = self._there()
        except OSError:
            self.release()
            raise
        return self._listener

    def release(self) -> None:
        """Close and remove the socket, if it is this process's, and let another process serve."""
        listener, self._listener = self._listener, None
        if listener is not None:
            if self._there() == self._identity:
                with contextlib.suppress(OSError):
                    self.path.unlink()
            listener.close()
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)

    def _there(self) -> tuple[int, int]:
        try:
            found = os.stat(self.path)
        except OSError:
            return (0, 0)
        return (found.st_dev, found.st_ino)

    def _take_lock(self) -> int | None:
        lock = os.open(self._folder / EVENTS_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        except OSError:
            os.close(lock)
            raise
        return lock


def listen(path: Path) -> socket.socket:
    """A listening socket for this user alone; what was in its place is removed. Raises OSError."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.unlink(missing_ok=True)
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(4)
    except OSError:
        listener.close()
        raise
    return listener
