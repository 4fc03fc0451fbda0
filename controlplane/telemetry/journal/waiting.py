"""Who waits for a report to be written: a thread, or a coroutine.

An event loop is woken once for all of its reports in a commit, since waking it costs more than the rest of an answer.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import Future
from typing import NamedTuple

from controlplane.telemetry.reports.entry import Entry

logger = logging.getLogger(__name__)

Result = Entry | BaseException


class Settled(NamedTuple):
    """A waiter, and what it has waited for."""

    waiter: "Future[Entry] | asyncio.Future[Entry]"
    result: Result


def release(settled: Iterable[Settled]) -> None:
    """Hand every waiter its result. One that has gone away in the meantime is passed over."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Entry], Result]]] = defaultdict(list)
    for waiter, result in settled:
        if isinstance(waiter, asyncio.Future):
            by_loop[waiter.get_loop()].append((waiter, result))
        elif isinstance(result, BaseException):
            waiter.set_exception(result)
        else:
            waiter.set_result(result)
    for loop, results in by_loop.items():
        try:
            loop.call_soon_threadsafe(_in_loop, results)
        except RuntimeError:  # The loop is closed: nobody waits any more. What was written stays written.
            logger.info("%d reports were settled after their event loop had ended", len(results))


def _in_loop(results: Iterable[tuple["asyncio.Future[Entry]", Result]]) -> None:
    for waiter, result in results:
        if waiter.done():  # Cancelled: the sender has hung up.
            continue
        if isinstance(result, BaseException):
            waiter.set_exception(result)
        else:
            waiter.set_result(result)
