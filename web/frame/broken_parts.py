"""Parts that an error of the dashboard's own keeps from being drawn: each time counted, once an hour logged with trace.

Guarantee: such an error takes neither its page nor the page's other parts with it, and none goes unsaid.
"""

import logging
import time
from collections.abc import Callable

from cachetools import TTLCache
from fastapi import FastAPI, Request

TOLD = "an error of the dashboard's own; the service's log has it"
AGAIN_S = 3600.0
MOST = 512

log = logging.getLogger(__name__)


class BrokenParts:
    """`count` hears each time of the part, by its page and name: "now/pools"."""

    def __init__(self, count: Callable[[str], object], timer: Callable[[], float] = time.monotonic) -> None:
        self._count = count
        self._logged: TTLCache[tuple[str, type[Exception]], None] = TTLCache(MOST, AGAIN_S, timer)

    def note(self, name: str, error: Exception) -> None:
        self._count(name)
        if (name, type(error)) not in self._logged:
            self._logged[name, type(error)] = None
            log.error("the part %s cannot be drawn", name, exc_info=error)


def install(dashboard: FastAPI, broken: BrokenParts) -> None:
    dashboard.state.broken_parts = broken


def broken_parts_of(request: Request) -> BrokenParts:
    broken: BrokenParts = request.app.state.broken_parts
    return broken
