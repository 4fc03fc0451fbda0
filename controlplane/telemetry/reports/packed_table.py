"""The table of a packed report: its names as the store takes them, checked once for all reports that repeat it.

Guarantee: the `Table` of a `PackedTable` holds only names that may be kept; a place of the report's own table that may
not be has REFUSED instead of a place in it, and a reason with a message that names it.
"""

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import orjson
from cachetools import LRUCache
from numpy.typing import NDArray

from controlplane.contract.errors import BadRequest, nearest
from controlplane.contract.metrics import BY_NAME, METRICS, NODE, POOL, MetricKind
from controlplane.contract.reports.packed_report import parse_table
from controlplane.telemetry.otlp.labels import canonical, labels_of
from controlplane.telemetry.otlp.metric_kind import MAX_NAME, OWN_PREFIXES
from controlplane.telemetry.values.columns import Ids, Table
from controlplane.telemetry.values.refusal import Problem, Reason, Refused

CACHED_BYTES = 192 << 20
"""In memory, as `_held_bytes` reckons: some 15 kB of a node with 60 metrics and 10 label sets."""
OBJECTS_BYTES = 4096
"""Of the objects of one table, however little is in it."""
HINTS = 5
"""Names of one table for which the nearest one that is kept is looked for."""
REFUSED = -1
KINDS = (MetricKind.HISTOGRAM, MetricKind.SUM, MetricKind.GAUGE)
"""Their places are the codes in `PackedTable.kind`."""


@dataclass(frozen=True, eq=False)
class PackedTable:
    """kind, metric: by place of a metric as sent, its code and its place in `table`; labels: likewise for label sets.

    origin: the resource's labels that a token may be bound to. problem: why the whole resource is refused.
    metric_problems, labels_problems: by place as sent.
    """

    table: Table
    origin: Mapping[str, str]
    kind: NDArray[np.int8]
    metric: Ids
    labels: Ids
    problem: Problem | None
    metric_problems: Mapping[int, Problem]
    labels_problems: Mapping[int, Problem]
    metric_names: tuple[str, ...]


NO_TABLE = PackedTable(
    Table((), ()),
    {},
    np.zeros(0, np.int8),
    np.zeros(0, np.int32),
    np.zeros(0, np.int32),
    None,
    {},
    {},
    (),
)
"""Of a report that is refused as a whole: none of its names is made."""


class PackedTables:
    """The tables met last, by the hash of their bytes. For one thread."""

    def __init__(self, cached_bytes: int = CACHED_BYTES) -> None:
        self._cache: LRUCache[bytes, tuple[int, PackedTable]] = LRUCache(cached_bytes, lambda held: held[0])
        """With the bytes that each takes."""
        self._metrics: dict[tuple[tuple[str, MetricKind], ...], tuple[tuple[str, MetricKind], ...]] = {}

    def read(self, data: bytes) -> PackedTable:
        """Raises `BadRequest` where it is no table."""
        key = hashlib.blake2b(data, digest_size=16).digest()
        found = self._cache.get(key)
        if found is not None:
            return found[1]
        try:
            table = self._parse(data)
        except ValueError as error:
            raise BadRequest(f"body: {error}", field="body") from error
        with suppress(ValueError):  # One that takes more than all of the room is read each time.
            self._cache[key] = (_held_bytes(data), table)
        return table

    def _parse(self, data: bytes) -> PackedTable:
        resource, metrics, labels = parse_table(data)
        metric_problems: dict[int, Problem] = {}
        labels_problems: dict[int, Problem] = {}
        texts: list[str] = []
        of_resource: Mapping[str, str] = {}
        problem = None
        try:
            of_resource = labels_of(tuple(resource.items()), of_resource=True)
        except Refused as refused:
            problem = refused.problem
        places = []
        for place, attributes in enumerate(labels):
            try:
                own = labels_of(tuple(attributes.items()), of_resource=False)
                text = canonical({**of_resource, **own})
            except Refused as refused:
                labels_problems[place] = refused.problem
                places.append(REFUSED)
            except orjson.JSONEncodeError as error:
                labels_problems[place] = Problem(Reason.LABEL, f"labels {place} of the table: {error}")
                places.append(REFUSED)
            else:
                places.append(len(texts))
                texts.append(text)
        for place, (name, kind) in enumerate(metrics):
            reason = metric_problem(name, kind, hint=len(metric_problems) < HINTS)
            if reason is not None:
                metric_problems[place] = reason
        kept = tuple(metric for place, metric in enumerate(metrics) if place not in metric_problems)
        good = np.array([place not in metric_problems for place in range(len(metrics))], bool)
        kinds = np.array([KINDS.index(kind) for _, kind in metrics], np.int8)
        return PackedTable(
            Table(self._shared(kept), tuple(texts)),
            {label: of_resource[label] for label in (NODE.label, POOL.label) if label in of_resource},
            np.where(good, kinds, np.int8(REFUSED)).astype(np.int8),
            np.where(good, np.cumsum(good) - 1, REFUSED).astype(np.int32),
            np.array(places, np.int32),
            problem,
            metric_problems,
            labels_problems,
            tuple(name[:MAX_NAME] for name, _ in metrics),
        )

    def _shared(self, metrics: tuple[tuple[str, MetricKind], ...]) -> tuple[tuple[str, MetricKind], ...]:
        """The same tuple for all tables with the same metrics: nodes of one kind send the same ones."""
        if len(self._metrics) >= 1024:
            self._metrics.clear()
        return self._metrics.setdefault(metrics, metrics)


def _held_bytes(data: bytes) -> int:
    """What a table takes in memory, about, given its bytes as sent."""
    return 3 * len(data) + OBJECTS_BYTES


def metric_problem(name: str, kind: MetricKind, *, hint: bool = True) -> Problem | None:
    """Why a metric is not kept; None where it is. hint: name the nearest name that is, which takes a while."""
    known = BY_NAME.get(name)
    if known is not None:
        if known.kind is not kind:
            return Problem(Reason.METRIC, f"{name}: is a {known.kind.value}, not a {kind.value}")
        return None
    if not name.startswith(OWN_PREFIXES):
        near = nearest(name, [metric.name for metric in METRICS]) if hint and len(name) <= MAX_NAME else ""
        mend = near if near.startswith("did") else f"names start with {' or '.join(OWN_PREFIXES)}"
        return Problem(Reason.METRIC, f"metric name {name[:MAX_NAME]!r} is not kept: {mend}")
    if len(name) > MAX_NAME or "\0" in name or not _is_text(name):
        return Problem(Reason.METRIC, f"metric name {name[:40]!r}...: at most {MAX_NAME} characters, no zero byte")
    return None


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:  # JSON can spell half of a surrogate pair.
        return False
    return True
