"""Memory that is left on the machine, from /proc/meminfo."""

from pathlib import Path


def parse(text: str) -> float | None:
    """Share of memory that can be had without swapping, 0..1."""
    found = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        if name in ("MemTotal", "MemAvailable"):
            found[name] = int(rest.split()[0])
    if not found.get("MemTotal") or "MemAvailable" not in found:
        return None
    return found["MemAvailable"] / found["MemTotal"]


def read(proc: Path) -> float | None:
    try:
        return parse((proc / "meminfo").read_text())
    except (OSError, ValueError, IndexError):
        return None
