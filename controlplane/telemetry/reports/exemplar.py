"""Which requests stand for the tail, and what is kept of each (pure).

Guarantee: a request that does not count in the histograms (aborted, failed) is no exemplar; its time is the instant at
which its value was complete, so that it lies in the window of the quantile that it explains.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import orjson
from opentelemetry.proto.metrics.v1 import metrics_pb2 as otlp

from controlplane.contract import metrics
from controlplane.contract.metrics import BY_NAME, prompt_bucket
from controlplane.telemetry.reports.records import Record
from controlplane.telemetry.values.magnitude import fits

KEPT = 5
"""Of each pool, metric, prompt bucket and minute."""
MINUTE_NS = 60 * 1_000_000_000
LONGEST_S = 7 * 86_400.0
"""A request that claims to have taken longer is no exemplar of anything, and its end may lie beyond 64 bits."""
METRICS = tuple(metric.short for metric in (metrics.TTFT, metrics.E2E, metrics.TPOT))
NOT_COUNTED = frozenset({"abort", "error", "timeout", "shed"})
EMPTY = b"{}"


class Place(NamedTuple):
    """What exemplars compete for."""

    minute: int
    pool: str
    metric: str
    prompt_bucket: str


class Exemplar(NamedTuple):
    """The columns of an exemplar's row."""

    minute: int
    metric: str
    pool: str
    prompt_bucket: str
    value: float
    time_ns: int
    node: str
    model: str
    revision: int
    trace_id: str
    request_id: str
    arrival_ns: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    finish_reason: str = ""
    parts: bytes = EMPTY
    batch: bytes = EMPTY

    @property
    def place(self) -> Place:
        return Place(self.minute, self.pool, self.metric, self.prompt_bucket)

    @property
    def identity(self) -> tuple[str, str, str]:
        """Whose value it is, among those of one place."""
        return self.node, self.request_id, self.trace_id


def of_record(record: Record) -> list[Exemplar]:
    """The exemplars that a finished request may become: one for each metric that it has."""
    if record.finish_reason in NOT_COUNTED:
        return []
    parts: Mapping[str, float] = orjson.loads(record.parts)
    found = []
    for metric in METRICS:
        value = parts.get(metric)
        after_s = value if metric == metrics.TTFT.short else record.e2e_s
        if value is None or after_s is None or not 0.0 <= after_s <= LONGEST_S:
            continue
        time_ns = record.arrival_ns + int(after_s * 1e9)
        found.append(
            Exemplar(
                minute=time_ns // MINUTE_NS,
                metric=metric,
                pool=record.pool,
                prompt_bucket=prompt_bucket(record.prompt_tokens),
                value=value,
                time_ns=time_ns,
                node=record.node,
                model=record.model,
                revision=record.revision,
                trace_id=record.trace_id,
                request_id=record.request_id,
                arrival_ns=record.arrival_ns,
                prompt_tokens=record.prompt_tokens,
                cached_tokens=record.cached_tokens,
                output_tokens=record.output_tokens,
                finish_reason=record.finish_reason,
                parts=record.parts,
                batch=record.batch,
            )
        )
    return found


def of_point(metric_name: str, labels: Mapping[str, str], given: otlp.Exemplar) -> Exemplar | None:
    """The exemplar of another sender's histogram point, without a waterfall; None for what is of no use."""
    metric = BY_NAME.get(metric_name)
    value = given.as_double if given.HasField("as_double") else float(given.as_int)
    if metric is None or metric.short not in METRICS or not given.trace_id or not given.time_unix_nano:
        return None
    if len(given.trace_id) > 16 or given.time_unix_nano >= 1 << 63 or not fits(value) or value < 0:
        return None
    revision = labels.get(metrics.REVISION.label, "")
    return Exemplar(
        minute=given.time_unix_nano // MINUTE_NS,
        metric=metric.short,
        pool=labels.get(metrics.POOL.label, ""),
        prompt_bucket=labels.get(metrics.PROMPT_BUCKET.label, ""),
        value=value,
        time_ns=given.time_unix_nano,
        node=labels.get(metrics.NODE.label, ""),
        model=labels.get(metrics.MODEL.label, ""),
        revision=int(revision) if revision.isascii() and revision.isdecimal() and len(revision) < 10 else 0,
        trace_id=given.trace_id.hex(),
        request_id="",
    )


def slowest(exemplars: Iterable[Exemplar]) -> dict[Place, list[Exemplar]]:
    """The `KEPT` slowest of each place, the slowest first; of one request its first mention only."""
    by_place: dict[Place, dict[tuple[str, str, str], Exemplar]] = defaultdict(dict)
    for one in exemplars:
        by_place[one.place].setdefault(one.identity, one)
    return {place: ranked(found.values())[:KEPT] for place, found in by_place.items()}


def ranked(exemplars: Iterable[Exemplar]) -> list[Exemplar]:
    """The slowest first; equals in the order of their identity, so that any order of arrival gives the same."""
    return sorted(exemplars, key=lambda one: (-one.value, one.identity))
