"""What a sender may speak of: the event times that are kept, and the node and pool that its token is bound to."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from controlplane.contract.errors import Forbidden
from controlplane.contract.metrics import NODE, POOL
from controlplane.telemetry.values.refusal import Reason, Refusals, Refused

FUTURE_S = 3600


class Sender(NamedTuple):
    """The node and the pool that the sender's token is bound to (None: any)."""

    node: str | None = None
    pool: str | None = None


ANYONE = Sender()


@dataclass(frozen=True)
class Bounds:
    """The event times that are kept, in nanoseconds, and who speaks."""

    oldest_ns: int
    newest_ns: int
    sender: Sender = ANYONE


def check_origin(labels: Mapping[str, str], bounds: Bounds) -> None:
    """Raises `Refused` when the token is bound to another node or pool than the resource names."""
    node, pool = labels.get(NODE.label), labels.get(POOL.label)
    if bounds.sender.node is not None and node != bounds.sender.node:
        raise Refused(
            Reason.NODE,
            f"resource attribute {NODE.name}: is {node!r}, this token is bound to node {bounds.sender.node!r}",
        )
    if bounds.sender.pool is not None and pool != bounds.sender.pool:
        raise Refused(
            Reason.POOL,
            f"resource attribute {POOL.name}: is {pool!r}, the node is enrolled in pool {bounds.sender.pool!r}; "
            "enrol it again to move it",
        )


def forbid_wrong_origin(refusals: Refusals) -> None:
    """Raises `Forbidden` where all that was refused is of a node or a pool that the sender's token is not bound to.

    To be called where nothing was kept.
    """
    reasons = set(refusals.by_reason)
    if reasons and reasons <= {Reason.NODE, Reason.POOL}:
        field = NODE.name if Reason.NODE in reasons else POOL.name
        raise Forbidden(refusals.text(), field=field, rejected=refusals.count)


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
