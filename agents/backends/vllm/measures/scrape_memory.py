"""Where the reading of /metrics stood, kept over restarts of the agent.

Guarantee: a position that the agent has stored finds the reading that belongs to it, so that what happened while the
agent was away is counted, once. When that reading is lost, a later one is taken, or none: then something is lost, and
nothing counted twice.
"""

import logging
import os
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from agents.backends.base import Position
from agents.backends.vllm.measures.merge import TracedMerge
from agents.backends.vllm.measures.scrape_reading import Reading, Series

log = logging.getLogger(__name__)

FILE_NAME = "scrape.json"
KEPT = 24
"""Points kept: the agent stores a position some seconds after it was reached."""


@dataclass(frozen=True)
class Point:
    """After event `seq` of the course `boot` all that `reading` tells was told, or waits in `merge`."""

    boot: str
    seq: int
    reading: Reading
    merge: dict[str, Any]


class ScrapeMemory:
    """One server's. Without a folder it lasts as long as the process."""

    def __init__(self, state_dir: Path | None) -> None:
        self._file = None if state_dir is None else state_dir / FILE_NAME
        self._points: deque[Point] = deque(self._load(), maxlen=KEPT)
        self._complained = False

    def keep(self, point: Point) -> None:
        """Remember a point. Not synced to the disk: after a power cut vLLM begins anew as well."""
        self._points.append(point)
        if self._file is None:
            return
        scratch = self._file.with_suffix(".tmp")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            scratch.write_bytes(_dump(list(self._points)))
            os.replace(scratch, self._file)
        except OSError as error:
            if not self._complained:
                log.error("%s cannot be written: %s", self._file, error)
            self._complained = True

    def resume(self, position: Position) -> Point | None:
        """`find`, to go on from there. What this course told after it was never stored, and will be told anew under the
        same numbers: those points are forgotten, or a later look-up would take a reading of the life before.
        """
        found = self.find(position)
        if found is not None:
            kept = [one for one in self._points if one.boot != found.boot or one.seq <= found.seq]
            self._points = deque(kept, maxlen=KEPT)
        return found

    def find(self, position: Position) -> Point | None:
        """The point at this position, or else the next one behind it."""
        behind = [one for one in self._points if one.boot == position.boot and one.seq >= position.seq]
        return min(behind, key=lambda one: one.seq, default=None)

    def _load(self) -> list[Point]:
        if self._file is None:
            return []
        try:
            return _parse(self._file.read_bytes())
        except FileNotFoundError:
            return []
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            log.error("%s is damaged, vLLM's metrics are counted from now on: %s", self._file, error)
            return []


def _dump(points: list[Point]) -> bytes:
    """The names of the series stand in it once, as they are most of it."""
    series = sorted({one for point in points for one in point.reading.totals})
    return orjson.dumps(
        {
            "series": [list(one) for one in series],
            "points": [
                {
                    "boot": point.boot,
                    "seq": point.seq,
                    "time": point.reading.time,
                    "started": point.reading.started,
                    "model": point.reading.model,
                    "totals": [point.reading.totals.get(one) for one in series],
                    "merge": point.merge,
                }
                for point in points
            ],
        }
    )


def _parse(content: bytes) -> list[Point]:
    stored = orjson.loads(content)
    series = [Series(*names) for names in stored["series"]]
    found = []
    for one in stored["points"]:
        totals = {name: float(total) for name, total in zip(series, one["totals"], strict=True) if total is not None}
        started = None if one["started"] is None else float(one["started"])
        reading = Reading(float(one["time"]), started, str(one["model"]), totals)
        TracedMerge.restored(one["merge"])
        found.append(Point(str(one["boot"]), int(one["seq"]), reading, one["merge"]))
    return found
