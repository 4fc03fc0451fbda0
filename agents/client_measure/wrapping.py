"""Puts the clock at a client that exists already.

httpx has no public way to exchange a client's transport, so this sets the attributes that OpenTelemetry's own
instrumentation of httpx sets. A client that lacks them is refused by name, and stays as it was.
"""

from typing import Any, TypeVar

from agents.client_measure.recorder import Recorder
from agents.client_measure.transport import TimedTransport, timed_transport

C = TypeVar("C")


def wrap_httpx(client: C, recorder: Recorder) -> C:
    """The same client (httpx or httpx2, sync or async), whose requests `recorder` is told of from now on.

    Its proxies' transports too. Wrapping twice for one recorder changes nothing. Raises TypeError for anything else.
    """
    transport, mounts = _transports(client)

    def timed(inner: Any) -> Any:
        already = isinstance(inner, TimedTransport) and inner.keep == recorder.record
        return inner if inner is None or already else timed_transport(inner, recorder.record)

    owner: Any = client
    owner._transport = timed(transport)
    for pattern, mounted in mounts.items():
        mounts[pattern] = timed(mounted)
    return client


def unwrap_httpx(client: C) -> C:
    """Takes every clock away from a wrapped client; one that has none stays as it is."""
    transport, mounts = _transports(client)
    owner: Any = client
    owner._transport = _bare(transport)
    for pattern, mounted in mounts.items():
        mounts[pattern] = _bare(mounted)
    return client


def wrap_openai(client: C, recorder: Recorder) -> C:
    """The same client of the openai library (sync or async), measured. A retry is an exchange of its own."""
    http = getattr(client, "_client", None)
    if http is None:
        raise TypeError(f"{type(client).__name__} is no client of the openai library: it holds no HTTP client")
    wrap_httpx(http, recorder)
    return client


def _transports(client: Any) -> tuple[Any, dict[Any, Any]]:
    transport, mounts = getattr(client, "_transport", None), getattr(client, "_mounts", None)
    if transport is None or not isinstance(mounts, dict):
        raise TypeError(f"{type(client).__name__} is no client of httpx: it holds no transport to put a clock at")
    return transport, mounts


def _bare(transport: Any) -> Any:
    while isinstance(transport, TimedTransport):
        transport = transport.inner
    return transport
