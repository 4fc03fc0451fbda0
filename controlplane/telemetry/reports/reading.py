"""One OTLP metrics request on its way to rows.

Points of the contract's own scale, and numbers in order, take a short way: hundreds of them come with each report, and
are checked all at once (`exponential_rows`) or in one glance. All others, and all that is not in order, are read one by
one with all care, so that what is refused, and why, is decided in one place.
"""

from collections.abc import Iterable, Sized
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
from google.protobuf.message import DecodeError
from opentelemetry.proto.metrics.v1 import metrics_pb2 as otlp

from controlplane.contract.metrics import BY_SHORT, MetricKind
from controlplane.telemetry.otlp.bounds import Bounds, check_times
from controlplane.telemetry.otlp.histogram_point import check_extremes, on_axis, read_explicit, read_exponential
from controlplane.telemetry.otlp.labels import LabelSet, Origin, label_set
from controlplane.telemetry.otlp.metric_kind import MetricKinds, StatedMetric, StoredMetric
from controlplane.telemetry.otlp.number_point import read_number
from controlplane.telemetry.otlp.otlp_bodies import check_items
from controlplane.telemetry.otlp.raw_point import RawNumber, RawPoint
from controlplane.telemetry.reports.column_builder import ColumnBuilder, TableCache
from controlplane.telemetry.reports.cumulative_rows import CumulativePoint
from controlplane.telemetry.reports.exemplar import METRICS as EXEMPLIFIED
from controlplane.telemetry.reports.exemplar import Exemplar, of_point
from controlplane.telemetry.reports.exponential_rows import Gathered, rows_of
from controlplane.telemetry.reports.repeat import PointIdentities
from controlplane.telemetry.values.columns import Columns, Table
from controlplane.telemetry.values.magnitude import fits
from controlplane.telemetry.values.refusal import Reason, Refusals, Refused

NO_RECORDED_VALUE = otlp.DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK
MAX_EXEMPLARS = 200
"""Of one request."""
_HINTED = 20
"""So many unknown names of a request get the nearest known one, which is slow to find."""
_EXEMPLIFIED = frozenset(BY_SHORT[short].name for short in EXEMPLIFIED)
_MASK = (1 << 64) - 1
_SIGN = 1 << 63
_ODD = 0x9E3779B97F4A7C15
_DATA_KEYS = {"sum": 1, "histogram": 2, "exponential_histogram": 3}


@dataclass(frozen=True, eq=False)
class Extracted:
    """What is to be written. silent: points that say nothing (empty, or flagged so)."""

    table: Table
    columns: Columns
    identities: PointIdentities
    cumulative: tuple[CumulativePoint, ...]
    exemplars: tuple[Exemplar, ...]
    silent: int


@dataclass(frozen=True, slots=True)
class PointSource:
    """Whose points are read: metric, the name of its data field, its place in the table, and its resource."""

    metric: StoredMetric
    data: str
    place: int
    origin: Origin


class Reading:
    """Give it each `metric` of a request, then take what was `extracted`."""

    def __init__(self, kinds: MetricKinds, bounds: Bounds, refusals: Refusals) -> None:
        self.bounds = bounds
        self.refusals = refusals
        self._kinds = kinds
        self._builder = ColumnBuilder()
        self._cumulative: list[CumulativePoint] = []
        self._gathered: list[Gathered] = []
        self._gathered_from: list[tuple[PointSource, Any, LabelSet]] = []
        self._exemplars: list[Exemplar] = []
        self._silent = 0
        self._items = 0

    def enter(self, items: Sized) -> None:
        """Count items that are about to be read. Raises `TooLarge`."""
        self._items += len(items)
        check_items(self._items)

    def metric(self, scope: bytes, metric: Any, origin: Origin) -> None:
        """All points of a metric (a view)."""
        data, points = data_points(metric)
        self.enter(points)
        temporality, is_monotonic = 0, False
        if data in _DATA_KEYS:
            container = getattr(metric, data)
            temporality = container.aggregation_temporality
            is_monotonic = data == "sum" and container.is_monotonic
        try:
            hint = len(self.refusals.messages) < _HINTED
            stated = StatedMetric(scope, metric.name, metric.unit, data, temporality, is_monotonic)
            kept = self._kinds.of(stated, hint=hint)
        except Refused as refused:
            self.refusals.add(refused.reason, refused.message, max(1, len(points)))
            return
        assert data is not None
        of = PointSource(kept, data, self._builder.metric(kept.name, kept.kind), origin)
        if kept.name in _EXEMPLIFIED and kept.kind is MetricKind.HISTOGRAM:
            for view in points:
                if view.exemplars:
                    self._take_exemplars(of, view)
        if kept.is_cumulative or data == "histogram":
            for view in points:
                self._single(of, view)
        elif data == "exponential_histogram":
            self._gather(of, points)
        else:
            self._numbers(of, points)

    def extracted(self, tables: TableCache) -> Extracted:
        """To be called once."""
        if self._gathered:
            self._take_gathered()
        return Extracted(
            self._builder.table(tables),
            self._builder.columns(),
            self._builder.identities(),
            tuple(self._cumulative),
            tuple(self._exemplars),
            self._silent,
        )

    def _take_exemplars(self, of: PointSource, view: Any) -> None:
        """Of one point; one that cannot be read is nobody's loss, and the point goes on without them."""
        with suppress(Refused, DecodeError, UnicodeDecodeError):
            labels = orjson.loads(label_set(of.origin, view.attributes).labels)
            for item in view.exemplars[: MAX_EXEMPLARS - len(self._exemplars)]:
                found = of_point(of.metric.name, labels, otlp.Exemplar.FromString(item))
                if found is not None:
                    self._exemplars.append(found)

    def _numbers(self, of: PointSource, points: Iterable[Any]) -> None:
        """Gauges and delta sums."""
        metric, place, number = of.metric, of.place, self._builder.number
        kind, must_grow, resource, known = metric.kind, metric.must_grow, of.origin.identity, of.origin.sets
        first_ns, last_ns = max(self.bounds.oldest_ns, 1), self.bounds.newest_ns
        for view in points:
            start_ns, end_ns = view.start_time_unix_nano, view.time_unix_nano
            found = known.get(tuple(view.attributes))
            value = view.as_double or float(view.as_int)
            in_order = first_ns <= end_ns <= last_ns and start_ns <= end_ns and fits(value)
            says_nothing = view.flags or (not value and view.WhichOneof("value") is None)
            if found is None or not in_order or says_nothing or (must_grow and value < 0):
                self._single(of, view)
                continue
            identity = (resource, start_ns, end_ns, _key(metric.key, found.identity))
            number(kind, place, self._builder.labels(found.labels), value, identity)

    def _gather(self, of: PointSource, points: Iterable[Any]) -> None:
        """Delta exponential histograms, for `_take_gathered`."""
        place, labels_of, known = of.place, self._builder.labels, of.origin.sets
        for view in points:
            found = known.get(tuple(view.attributes)) or self._label_set(of, view)
            if found is None:
                continue
            if view.negative or view.flags:
                self._single(of, view)  # Whether these say anything is for the careful reading.
                continue
            positive, stated = view.positive, view.HasField
            self._gathered_from.append((of, view, found))
            self._gathered.append(
                (
                    place,
                    labels_of(found.labels),
                    view.start_time_unix_nano,
                    view.time_unix_nano,
                    view.count,
                    view.zero_count,
                    view.scale,
                    positive.offset,
                    view.sum,
                    view.min,
                    view.max,
                    stated("sum"),
                    stated("min"),
                    stated("max"),
                    b"".join(positive.bucket_counts),
                )
            )

    def _label_set(self, of: PointSource, view: Any) -> LabelSet | None:
        """None when it is refused."""
        try:
            return label_set(of.origin, view.attributes)
        except Refused as refused:
            self.refusals.add(refused.reason, f"{of.metric.name}: {refused.message}")
            return None

    def _take_gathered(self) -> None:
        rows, kept = rows_of(self._gathered, self.bounds)
        resources = [of.origin.identity for of, _, _ in self._gathered_from]
        metrics = np.array([of.metric.key for of, _, _ in self._gathered_from], np.int64)
        sets = np.array([found.identity for _, _, found in self._gathered_from], np.int64)
        keys = metrics.view(np.uint64) + sets.view(np.uint64) * np.uint64(_ODD)  # As `_key`.
        start_ns, end_ns = (np.array([one[column] for one in self._gathered], np.uint64) for column in (2, 3))
        identities = PointIdentities(
            np.array(resources, np.int64)[kept],
            start_ns[kept].astype(np.int64),
            end_ns[kept].astype(np.int64),
            keys.view(np.int64)[kept],
        )
        self._builder.histograms(rows, identities)
        if len(rows) < len(kept):
            for (of, view, _), keep in zip(self._gathered_from, kept.tolist(), strict=True):
                if not keep:
                    self._single(of, view)

    def _single(self, of: PointSource, view: Any) -> None:
        """Read one point with all care."""
        metric = of.metric
        start_ns, end_ns = view.start_time_unix_nano, view.time_unix_nano
        if view.flags & NO_RECORDED_VALUE:
            self._silent += 1
            return
        found = self._label_set(of, view)
        if found is None:
            return
        try:
            check_times(metric.name, start_ns, end_ns, self.bounds)
            raw = _raw(of, view)
            says_nothing = not isinstance(raw, RawNumber) and not raw.count
            if says_nothing and not metric.is_cumulative:
                self._silent += 1
                return
            labels = self._builder.labels(found.labels)
            if metric.is_cumulative:
                self._keep_cumulative(of, found, labels, raw)
                return
            identity = (of.origin.identity, start_ns, end_ns, _key(metric.key, found.identity))
            if isinstance(raw, RawNumber):
                self._builder.number(metric.kind, of.place, labels, float(raw.value), identity)
            else:
                self._builder.histogram(of.place, labels, on_axis(metric.name, raw, self.refusals), identity)
        except Refused as refused:
            self.refusals.add(refused.reason, refused.message)

    def _keep_cumulative(self, of: PointSource, found: LabelSet, labels: int, raw: RawPoint) -> None:
        if not isinstance(raw, RawNumber) and raw.count:
            check_extremes(of.metric.name, raw)
        series = _key(_key(of.metric.key, found.identity), _key(of.origin.identity, _DATA_KEYS[of.data]))
        self._cumulative.append(CumulativePoint(series, of.place, labels, of.metric.name, raw))


def data_points(metric: Any) -> tuple[str | None, Any]:
    """(the name of the data field, its points)."""
    data: str | None = metric.WhichOneof("data")
    return data, () if data is None else getattr(metric, data).data_points


def _key(first: int, second: int) -> int:
    """One signed 64-bit number of two hashes, in this order: their combination is as evenly spread as they are."""
    mixed = (first + second * _ODD) & _MASK
    return mixed - _SIGN - _SIGN if mixed & _SIGN else mixed


def _raw(of: PointSource, view: Any) -> RawPoint:
    """What the point states, from its own OTLP class."""
    name = of.metric.name
    if of.metric.kind is not MetricKind.HISTOGRAM:
        return read_number(name, view, must_grow=of.metric.must_grow)
    view.ClearField("exemplars")  # They were read already, and text in them that is no UTF-8 is not the point's fault.
    try:
        if of.data == "histogram":
            return read_explicit(name, otlp.HistogramDataPoint.FromString(view.SerializeToString()))
        return read_exponential(name, otlp.ExponentialHistogramDataPoint.FromString(view.SerializeToString()))
    except (DecodeError, UnicodeDecodeError):
        raise Refused(Reason.MALFORMED, f"{name}: the point does not fit OTLP's schema") from None
