"""Following `GET /api/v1/stream`: answers as they come, across lost connections.

Guarantee: each answer is handed out once, in order; after a lost connection the stream is taken up where it ended. An
error of the query itself is raised; a service that is away, or full, is tried again.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import httpx
from httpx_sse import EventSource
from pydantic import BaseModel

from controlplane.contract.bodies.telemetry import QuantilesAnswer, RatesAnswer, SharesAnswer
from controlplane.contract.errors import BadRequest, Overloaded, Unavailable

ANSWERS: Mapping[str, type[QuantilesAnswer] | type[RatesAnswer] | type[SharesAnswer]] = {
    "quantiles": QuantilesAnswer,
    "rates": RatesAnswer,
    "shares": SharesAnswer,
}
SILENCE_S = 45.0
"""Three of the service's heartbeats: then the connection is dead."""
RETRY_S = 1.0
LONGEST_RETRY_S = 10.0

Open = Callable[[Mapping[str, str]], AbstractContextManager[httpx.Response]]
"""Opens the stream with these headers more."""


class Streamed(NamedTuple):
    """One answer; `id` is what `follow` may be given to go on after it."""

    id: str
    answer: QuantilesAnswer | RatesAnswer | SharesAnswer


def follow(
    open_stream: Open,
    raise_for_error: Callable[[httpx.Response], None],
    *,
    last_id: str = "",
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Streamed]:
    """Answers for as long as the caller wants them."""
    wait_s = RETRY_S
    while True:
        try:
            with open_stream({"Last-Event-ID": last_id} if last_id else {}) as response:
                if not response.is_success:
                    response.read()
                    raise_for_error(response)
                for event in EventSource(response).iter_sse():
                    if not event.data:
                        continue  # A heartbeat.
                    if event.event == "error":
                        raise _error(event.data)
                    last_id, wait_s = event.id, RETRY_S
                    yield Streamed(event.id, ANSWERS[event.event].model_validate_json(event.data))
        except Overloaded as full:
            wait_s = max(wait_s, full.retry_after_s)
        except (httpx.TransportError, Unavailable):
            pass  # Restarting, or on the way to it: the next attempt takes the stream up again.
        sleep(wait_s)
        wait_s = min(2 * wait_s, LONGEST_RETRY_S)


class _Told(BaseModel):
    message: str
    detail: dict[str, Any] = {}


class _Body(BaseModel):
    error: _Told


def _error(data: str) -> BadRequest:
    told = _Body.model_validate_json(data).error
    return BadRequest(told.message, **told.detail)
