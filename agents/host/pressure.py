"""Pressure stall information (PSI): for how long something had to wait for CPU, memory or I/O.

Guarantee: a kernel or control group without PSI reads as None, never as zero.
"""

from pathlib import Path

RESOURCES = ("cpu", "memory", "io")


def parse(text: str) -> int | None:
    """Microseconds in which at least one task was stalled (`some ... total=`), since the start of the machine."""
    for line in text.splitlines():
        kind, *fields = line.split()
        if kind == "some":
            return next((int(field[6:]) for field in fields if field.startswith("total=")), None)
    return None


def read(path: Path) -> int | None:
    """Of one file: /proc/pressure/cpu, or a control group's cpu.pressure. A kernel started with psi=0 refuses it."""
    try:
        return parse(path.read_text())
    except (OSError, ValueError):
        return None


def of_host(proc: Path) -> dict[str, int]:
    """By resource, those that the kernel tells."""
    found = {resource: read(proc / "pressure" / resource) for resource in RESOURCES}
    return {resource: total for resource, total in found.items() if total is not None}


def of_group(folder: Path | None) -> dict[str, int]:
    """The same of one control group (v2)."""
    if folder is None:
        return {}
    found = {resource: read(folder / f"{resource}.pressure") for resource in RESOURCES}
    return {resource: total for resource, total in found.items() if total is not None}
