"""Coroutines that wait for their reports to be written.

An event loop is woken once for all of its reports in a commit, since waking it costs more than the rest of an answer.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from controlplane.telemetry.reports.entry import Entry

logger = logging.getLogger(__name__)

Result = Entry | BaseException


class Settled(NamedTuple):
    """A waiter, and what it has waited for."""

    waiter: "asyncio.Future[Entry]"
    result: Result


def release(settled: Iterable[Settled]) -> None:
    """Hand every waiter its result. One that has gone away in the meantime is passed over."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Settled]] = defaultdict(list)
    for one in settled:
        by_loop[one.waiter.get_loop()].append(one)
    for loop, results in by_loop.items():
        try:
            loop.call_soon_threadsafe(_in_loop, results)
        except RuntimeError:  # The loop is closed: nobody waits any more. What was written stays written.
            logger.info("%d reports were settled after their event loop had ended", len(results))


def _in_loop(results: Iterable[Settled]) -> None:
    for waiter, result in results:
        if waiter.done():  # Cancelled: the sender has hung up.
            continue
        if isinstance(result, BaseException):
            waiter.set_exception(result)
        else:
            waiter.set_result(result)
