"""The exact values of a stretch of time, out of the raw log. Pure but for reading the file.

Guarantee: every line is checked to be whole; a half line at the end (the server writes still) is left out.
"""

import json
from collections.abc import Iterable
from pathlib import Path

METRICS = ("ttft", "itl", "e2e", "queue", "prefill", "decode")
"""Short names, those of the control plane's API."""
_OF_ITERATIONS = ("ttft", "itl")


def values_between(lines: Iterable[str], start: float, end: float) -> dict[str, list[float]]:
    """Seconds by metric, of the iterations of [start, end) (Unix seconds). Aborted requests are left out."""
    found: dict[str, list[float]] = {name: [] for name in METRICS}
    for line in lines:
        if not line.endswith("\n"):
            continue
        told = json.loads(line)
        if not start <= told["time"] < end:
            continue
        for name in _OF_ITERATIONS:
            found[name] += told[name]
        for one in told["finished"]:
            if one["reason"] in ("stop", "length"):
                for name in METRICS:
                    if name not in _OF_ITERATIONS:
                        found[name].append(one[name])
    return found


def read(path: Path, start: float, end: float) -> dict[str, list[float]]:
    with path.open(encoding="utf-8") as lines:
        return values_between(lines, start, end)
