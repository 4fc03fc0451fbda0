"""The dashboard's own pool of threads: bounded, and apart from that of the API, which its pages call."""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import partial, wraps
from typing import Any, ParamSpec

from anyio import CapacityLimiter, to_thread
from fastapi import Response

P = ParamSpec("P")

THREADS = CapacityLimiter(8)


def on_own_threads(handler: Callable[P, Response]) -> Callable[P, Coroutine[Any, Any, Response]]:
    """The handler as a coroutine that runs it there.

    Pages call the API of the same process: were both served from one pool, enough pages at once would hold every
    thread and wait for API calls that no thread is left to answer.
    """

    @wraps(handler)
    async def run(*args: P.args, **kwargs: P.kwargs) -> Response:
        return await to_thread.run_sync(partial(handler, *args, **kwargs), limiter=THREADS)

    return run


async def each_on_own_threads(pieces: Iterator[str]) -> AsyncIterator[str]:
    """Each of `pieces` as soon as it is made, one after the other."""
    while (piece := await to_thread.run_sync(next, pieces, None, limiter=THREADS)) is not None:
        yield piece
