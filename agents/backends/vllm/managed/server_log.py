"""A server's log on disk, kept within a bound while the server writes into it.

Guarantee: the two files together stay near the bound as long as an agent runs; each keeps whole recent history. The
server appends (O_APPEND), so its file can be copied away and emptied under it; a line that is written in that very
moment may be lost. While no agent runs nothing is trimmed.
"""

import os
from pathlib import Path

_READ_BYTES = 256 * 1024


def trim(path: Path, most_bytes: int) -> None:
    """Move the log aside once it fills half of the bound. Raises OSError."""
    half = most_bytes // 2
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return
    if size <= half:
        return
    with path.open("rb") as file:
        file.seek(max(size - half, 0))
        older(path).write_bytes(file.read(half))
    os.truncate(path, 0)


def tail(path: Path) -> str:
    """The log's last part, what was moved aside included; empty when there is none."""
    content = b""
    for part in (older(path), path):
        try:
            with part.open("rb") as file:
                file.seek(max(part.stat().st_size - _READ_BYTES, 0))
                content += file.read()
        except FileNotFoundError:
            continue
    return content[-_READ_BYTES:].decode(errors="replace")


def older(path: Path) -> Path:
    return path.with_name(path.name + ".1")
