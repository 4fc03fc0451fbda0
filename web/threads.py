"""How the dashboard's handlers run: on threads of their own, and what the API refuses answered in the page's form."""

from collections.abc import Callable, Coroutine
from functools import partial, wraps
from typing import Any

import httpx
from anyio import CapacityLimiter, to_thread
from fastapi import Request, Response

from controlplane.contract.errors import TailwrightError, Unavailable
from web.refusals import refused

THREADS = CapacityLimiter(8)


def handled(handler: Callable[..., Response]) -> Callable[..., Coroutine[Any, Any, Response]]:
    """Run `handler` on the dashboard's own threads; what it raises of the contract's errors becomes a refusal.

    Pages call the API of the same process: were both served from one pool, enough pages at once would hold every
    thread and wait for API calls that no thread is left to answer.
    """

    def answer(request: Request, *args: Any, **kwargs: Any) -> Response:
        try:
            return handler(request, *args, **kwargs)
        except TailwrightError as error:
            return refused(request, error)
        except httpx.TransportError as error:
            return refused(request, Unavailable(f"the service's API does not answer: {type(error).__name__}"))

    @wraps(handler)
    async def run(request: Request, *args: Any, **kwargs: Any) -> Response:
        return await to_thread.run_sync(partial(answer, request, *args, **kwargs), limiter=THREADS)

    return run
