"""One request by its id: from the log or, once that has let go of it, from the exemplars; and who shared its time.

Guarantee: "no such request" is said only where neither of them has the id.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

import orjson
from sqlalchemy import Connection, select
from sqlmodel import col

from controlplane.contract.bodies.request_log import Peer, RequestName
from controlplane.contract.bodies.workload import RequestRecord
from controlplane.contract.errors import NotFound
from controlplane.contract.metrics import E2E
from controlplane.telemetry.question import Cost
from controlplane.telemetry.request_log.engine_time import ahead_s, engine_time, overlap_s
from controlplane.telemetry.request_log.request_filter import LONGEST_S
from controlplane.telemetry.request_log.request_page import named
from controlplane.telemetry.tables import ExemplarRow, RequestRow
from controlplane.telemetry.values.timespan import at_ns, to_ns

OTHERS_SHOWN = 20
PEERS_SHOWN = 50
CANDIDATES = 2000
"""Requests of the node that are looked at, the newest."""


@dataclass(frozen=True)
class Found:
    """others: requests of the same id."""

    request: RequestRecord
    source: Literal["log", "exemplars"]
    others: list[RequestName]


@dataclass(frozen=True)
class Peers:
    """shown: those that shared most seconds first. whole: all that may have shared any were looked at."""

    shown: list[Peer]
    found: int
    whole: bool


def find_request(connection: Connection, request_id: str, node: str | None, arrival: datetime | None) -> Found:
    """The newest of this id, of the node and the arrival (to the microsecond) that are given. Raises `NotFound`."""
    logged = named(connection, request_id, OTHERS_SHOWN + 1)
    names = {(one.node, one.arrival) for one in logged}
    kept = [one for one in _exemplars(connection, request_id) if (one.node, one.arrival) not in names]
    every = [*logged, *kept]
    fit = [one for one in every if node in (None, one.node) and arrival in (None, one.arrival)]
    if not fit:
        wanted = " of this node and arrival" if every else ""
        raise NotFound(
            f"there is no request {request_id[:80]!r}{wanted}, neither in the log nor among the exemplars",
            field="request_id",
        )
    request = max(fit, key=lambda one: one.arrival)
    others = [RequestName(node=one.node, arrival=one.arrival) for one in every if one is not request]
    return Found(request, "log" if request in logged else "exemplars", others[:OTHERS_SHOWN])


def find_peers(connection: Connection, request: RequestRecord, oldest: datetime, cost: Cost) -> Peers:
    """Requests of the same node that were computed while this one was queued or computed.

    Those that arrived over `LONGEST_S` before it are not looked for. `oldest`: how far back the log reaches.
    """
    own = engine_time(0.0, request.parts)
    first = request.arrival - timedelta(seconds=LONGEST_S)
    last = request.arrival + timedelta(seconds=min(request.parts.get(E2E.short, 0.0), LONGEST_S))
    # Adding nothing keeps the planner off the index of arrivals: that of nodes has far fewer requests to pass over.
    arrival_ns = col(RequestRow.arrival_ns) + 0
    names = ("request_id", "tenant", "model", "prompt_tokens", "output_tokens", "arrival_ns", "parts")
    query = (
        select(*(col(getattr(RequestRow, name)) for name in names))
        .where(col(RequestRow.node) == request.node, arrival_ns >= to_ns(first), arrival_ns <= to_ns(last))
        .order_by(arrival_ns.desc(), col(RequestRow.request_id))
        .limit(CANDIDATES + 1)
    )
    rows = connection.execute(query).all()
    cost.read(len(rows))
    peers = []
    for row in rows[:CANDIDATES]:
        arrival = at_ns(row.arrival_ns)
        if row.request_id == request.request_id and arrival == request.arrival:
            continue
        parts = orjson.loads(row.parts)
        there = engine_time((arrival - request.arrival).total_seconds(), parts)
        shared, ahead = overlap_s(own, there), ahead_s(own, there)
        if shared + ahead > 0.0:
            peer = Peer(
                request_id=row.request_id,
                arrival=arrival,
                tenant=row.tenant,
                model=row.model,
                prompt_tokens=row.prompt_tokens,
                output_tokens=row.output_tokens,
                overlap_s=shared,
                while_queued_s=ahead,
                parts=parts,
            )
            peers.append(peer)
    peers.sort(key=lambda one: (-(one.overlap_s + one.while_queued_s), one.arrival, one.request_id))
    return Peers(peers[:PEERS_SHOWN], len(peers), whole=len(rows) <= CANDIDATES and first >= oldest)


def _exemplars(connection: Connection, request_id: str) -> list[RequestRecord]:
    """The requests of this id that are kept as exemplars, each once, the newest first."""
    names = ("node", "pool", "model", "revision", "request_id", "trace_id", "finish_reason")
    counts = ("prompt_tokens", "cached_tokens", "output_tokens")
    query = select(*(col(getattr(ExemplarRow, name)) for name in (*names, *counts, "arrival_ns", "parts", "batch")))
    # An exemplar of another sender's histogram has no arrival; it has no id either.
    query = query.where(col(ExemplarRow.request_id) == request_id, col(ExemplarRow.arrival_ns).is_not(None))
    found: dict[tuple[str, int], RequestRecord] = {}
    for row in connection.execute(query.order_by(col(ExemplarRow.arrival_ns).desc()).limit(4 * OTHERS_SHOWN)):
        if (row.node, row.arrival_ns) not in found:
            found[row.node, row.arrival_ns] = RequestRecord(
                **{name: getattr(row, name) for name in names},
                **{name: getattr(row, name) or 0 for name in counts},
                arrival=at_ns(row.arrival_ns),
                parts=orjson.loads(row.parts),
                batch=orjson.loads(row.batch),
            )
    return list(found.values())
