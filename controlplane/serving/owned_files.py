"""Files that hold a secret: this user's own, which nobody else can have put there or write to.

Guarantee: no symbolic link is followed at the path's last step, nothing is read from a file that somebody else owns
or may write to, and what is written is on the disk, of mode 600, under its name only when it is whole.
"""

import os
import stat
from pathlib import Path
from typing import Final

from controlplane.contract.errors import BadSettings

LONGEST: Final = 65_536
"""Bytes of a file of secrets."""


def read(path: Path, field: str, *, mounted: bool = False) -> str | None:
    """Its text, None where there is no such file. Tightens its mode to 600 where others may read it.

    mounted: somebody else has put it there for this user (a Kubernetes secret): links are followed, root may own it,
    and a group may read it. Raises BadSettings.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if mounted else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        if path.is_symlink():
            raise _refused(field, path, "is a link to nowhere") from None
        return None
    except OSError as error:
        why = "is a symbolic link" if path.is_symlink() else f"cannot be read: {error.strerror}"
        raise _refused(field, path, why) from error
    try:
        found = os.fstat(descriptor)
        _check_own(path, field, found, or_root=mounted)
        if mounted and found.st_mode & 0o007:
            raise _refused(field, path, "may be read by everybody", "chmod 600 it, or 440 for a mount")
        if not mounted and found.st_mode & 0o077:
            os.fchmod(descriptor, 0o600)
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            content = stream.read(LONGEST + 1)
    finally:
        os.close(descriptor)
    try:
        if len(content) > LONGEST:
            raise ValueError
        return content.decode("ascii")
    except ValueError:
        raise _refused(field, path, "is no file of this service") from None


def make_folder(folder: Path, field: str) -> None:
    """Make the folder (mode 700), or take the one that is there. Raises BadSettings when others may write to it, when
    it is somebody else's, or a link that somebody else has made; OSError when it cannot be made."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    ours = (os.geteuid(), 0)
    link, found = folder.lstat(), folder.stat()
    mend = f"give it to this user (chown {os.geteuid()} {folder.resolve()}), or name another folder"
    if folder.is_symlink() and link.st_uid not in ours:
        raise _refused(field, folder, f"is a link that user {link.st_uid} has made", "name the folder itself")
    if found.st_uid not in ours:
        raise _refused(field, folder, f"belongs to user {found.st_uid}", mend)
    if found.st_mode & 0o022:
        raise _refused(field, folder, "may be written to by others", f"chmod go-w {folder.resolve()}")


def touch(path: Path, field: str) -> None:
    """Make the file where it is not there, of mode 600. Raises BadSettings as `read` does."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    except OSError as error:
        if not path.is_symlink():
            raise
        raise _refused(field, path, "is a symbolic link", "name the folder that it leads to") from error
    try:
        _check_own(path, field, os.fstat(descriptor))
        os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)


def refuse_link(path: Path, field: str) -> None:
    """Raises BadSettings for a symbolic link."""
    if path.is_symlink():
        raise _refused(field, path, "is a symbolic link", "remove it")


def write(path: Path, text: str) -> None:
    """Put the text there, in place of what was. Raises OSError."""
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    fresh.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _check_own(path: Path, field: str, found: os.stat_result, *, or_root: bool = False) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise _refused(field, path, "is no file")
    if found.st_uid not in ((os.geteuid(), 0) if or_root else (os.geteuid(),)):
        raise _refused(field, path, f"belongs to user {found.st_uid}")
    if found.st_mode & 0o022:
        raise _refused(field, path, "may be written to by others", "see who changed it, then chmod 600 it")


def _refused(field: str, path: Path, why: str, mend: str = "remove it, or put there what you know") -> BadSettings:
    return BadSettings(f"{field}: {path} {why}: {mend}", field=field)
