"""Files that are wholly there or not there at all, whatever dies in between."""

import os
from pathlib import Path

TEMPORARY_SUFFIX = ".tmp"


def write_durably(path: Path, *parts: bytes, mode: int = 0o600) -> None:
    """Put `parts` one after another into `path`: once this returns, a crash or a power cut finds the new content.

    Until then it finds the old content, or no file. Raises OSError (a full disk); the old content then stands.
    """
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        os.fchmod(descriptor, mode)
        with os.fdopen(descriptor, "wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames and new names in a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
