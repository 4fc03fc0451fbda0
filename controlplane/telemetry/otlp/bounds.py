"""What a sender may speak of: the event times that are kept, and the node that its token is bound to."""

from collections.abc import Mapping
from dataclasses import dataclass

from controlplane.contract.metrics import NODE
from controlplane.telemetry.values.refusal import Reason, Refused

FUTURE_S = 3600


@dataclass(frozen=True)
class Bounds:
    """The event times that are kept, in nanoseconds, and the node that the sender's token is bound to (None: any)."""

    oldest_ns: int
    newest_ns: int
    node: str | None = None


def check_node(labels: Mapping[str, str], bounds: Bounds) -> None:
    """Raises `Refused` when the token is bound to another node than the resource names."""
    node = labels.get(NODE.label)
    if bounds.node is not None and node != bounds.node:
        raise Refused(
            Reason.NODE, f"resource attribute {NODE.name}: is {node!r}, this token is bound to node {bounds.node!r}"
        )


def check_times(name: str, start_ns: int, end_ns: int, bounds: Bounds) -> None:
    """Raises `Refused` for a span of time that ends outside the bounds, or before it starts."""
    if end_ns == 0:
        raise Refused(Reason.TIMESTAMP, f"{name}: time_unix_nano is missing")
    if end_ns > bounds.newest_ns:
        raise Refused(Reason.TIMESTAMP, f"{name}: time_unix_nano is more than {FUTURE_S} s in the future")
    if end_ns < bounds.oldest_ns:
        raise Refused(Reason.TIMESTAMP, f"{name}: time_unix_nano is older than what is kept")
    if start_ns > end_ns:
        raise Refused(Reason.TIMESTAMP, f"{name}: start_time_unix_nano is after time_unix_nano")
