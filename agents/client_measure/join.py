"""Client's records against the server's, by request id: network time as a figure.

Only durations are compared, each of one clock, so that no two clocks need agree:

    network = (client's e2e - pool - connect - tls) - server's e2e

and the same for the time to first token. It is the time on the wire in both directions, what stands between (proxies,
load balancers), and what either side's HTTP code takes. A figure may come out a little below nought, when the client
had the last byte before the server had noted that it was sent; it is kept as it is.

Servers keep the client's `X-Request-Id` in their own way: the embedded engine as it is, with -1, -2 ... for the further
answers of one request; vLLM as chatcmpl-ID and cmpl-ID-PROMPT. An id is only taken apart as far as a client's id is
found in it, so an id that itself ends in a number is safe.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from agents.client_measure.client_record import ClientRecord, Ending
from controlplane.contract.metrics import E2E, TTFT

_PREFIXES = ("chatcmpl-", "cmpl-")


class ServerRecord(Protocol):
    """What is needed of `controlplane.contract.bodies.workload.RequestRecord`."""

    @property
    def request_id(self) -> str: ...

    @property
    def node(self) -> str: ...

    @property
    def parts(self) -> Mapping[str, float]: ...


@dataclass(frozen=True, slots=True)
class NetworkTime:
    """One request seen from both sides, in seconds; `ended` is the client's wall clock.

    network_ttft_s is None where either side has no time to first token (an answer in one piece). uncertainty_s: the
    client's consumer may have been so late at most; the true network time is between network_s less this and network_s.
    """

    request_id: str
    node: str
    model: str
    ended: float
    network_s: float
    network_ttft_s: float | None
    connect_s: float | None
    tls_s: float | None
    pool_s: float
    client_e2e_s: float
    server_e2e_s: float
    uncertainty_s: float


@dataclass(frozen=True)
class JoinResult:
    """matched, and how many could not be: by client records, but for unmatched_server."""

    matched: tuple[NetworkTime, ...]
    unmatched_client: int = 0
    """Complete at the client, not among the server's records: not there yet, or from a server that keeps no id."""
    unmatched_server: int = 0
    """Of the server, asked for by nobody here."""
    ambiguous: int = 0
    """Several complete requests with one id: which is which cannot be told."""
    not_complete: int = 0
    """Ended by an error or a cancellation: the two sides end at different moments."""


def join(client_records: Iterable[ClientRecord], server_records: Iterable[ServerRecord]) -> JoinResult:
    """Pairs what belongs together. Several server records of one request are its several answers: the longest counts,
    and the first to speak."""
    records = list(client_records)
    complete = [record for record in records if record.ending is Ending.COMPLETE]
    times = Counter(record.request_id for record in complete)
    answers: defaultdict[str, list[ServerRecord]] = defaultdict(list)
    unmatched_server = 0
    known = {record.request_id for record in records}
    for server in server_records:
        found = own_id(server.request_id, known)
        if found is None:
            unmatched_server += 1
        else:
            answers[found].append(server)
    matched, unmatched, ambiguous = [], 0, 0
    for record in complete:
        told = [server for server in answers.get(record.request_id, ()) if E2E.short in server.parts]
        if times[record.request_id] > 1:
            ambiguous += 1
        elif not told:
            unmatched += 1
        else:
            matched.append(network_time(record, told))
    return JoinResult(tuple(matched), unmatched, unmatched_server, ambiguous, len(records) - len(complete))


def own_id(server_id: str, known: Iterable[str]) -> str | None:
    """The client's id in a server's; None where there is none. known: the clients' ids, a set."""
    bare = next((server_id[len(prefix) :] for prefix in _PREFIXES if server_id.startswith(prefix)), server_id)
    for candidate in (server_id, bare, _without_number(server_id), _without_number(bare)):
        if candidate in known:
            return candidate
    return None


def network_time(record: ClientRecord, told: Sequence[ServerRecord]) -> NetworkTime:
    """Of a complete record, and at least one of the server's with an e2e."""
    longest = max(told, key=lambda server: server.parts[E2E.short])
    first = min((server.parts[TTFT.short] for server in told if TTFT.short in server.parts), default=None)
    seen = record.first_event_s
    return NetworkTime(
        request_id=record.request_id,
        node=longest.node,
        model=record.model,
        ended=record.started + record.e2e_s,
        network_s=record.e2e_s - record.setup_s - longest.parts[E2E.short],
        network_ttft_s=None if seen is None or first is None else seen - record.setup_s - first,
        connect_s=record.connect_s,
        tls_s=record.tls_s,
        pool_s=record.pool_s,
        client_e2e_s=record.e2e_s,
        server_e2e_s=longest.parts[E2E.short],
        uncertainty_s=record.behind_s,
    )


def _without_number(server_id: str) -> str:
    head, dash, number = server_id.rpartition("-")
    return head if dash and number.isascii() and number.isdecimal() else server_id
