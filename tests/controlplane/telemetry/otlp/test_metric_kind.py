"""What a metric is kept as, and that what was said of one is remembered within bounds."""

import pytest

from controlplane.contract import metrics
from controlplane.contract.metrics import MetricKind
from controlplane.telemetry.otlp import metric_kind
from controlplane.telemetry.otlp.metric_kind import MetricKinds, StatedMetric
from controlplane.telemetry.reports.column_builder import TableCache
from controlplane.telemetry.values.refusal import Reason, Refused

DELTA, CUMULATIVE = 1, 2


@pytest.mark.parametrize(
    ("data", "temporality", "is_monotonic", "kind", "is_cumulative"),
    [
        ("gauge", 0, False, MetricKind.GAUGE, False),
        ("sum", DELTA, True, MetricKind.SUM, False),
        ("sum", DELTA, False, MetricKind.SUM, False),
        ("sum", CUMULATIVE, True, MetricKind.SUM, True),
        ("sum", CUMULATIVE, False, MetricKind.GAUGE, False),
        ("histogram", CUMULATIVE, False, MetricKind.HISTOGRAM, True),
        ("exponential_histogram", DELTA, False, MetricKind.HISTOGRAM, False),
    ],
)
def test_kinds(data: str, temporality: int, is_monotonic: bool, kind: MetricKind, is_cumulative: bool) -> None:
    found = MetricKinds().of(StatedMetric(b"", b"tailwright.own", b"", data, temporality, is_monotonic))
    assert (found.kind, found.is_cumulative, found.name) == (kind, is_cumulative, "tailwright.own")
    assert found.must_grow == is_monotonic


@pytest.mark.parametrize(
    ("stated", "reason", "said"),
    [
        (StatedMetric(b"", b"tailwright.x", b"", "sum", 0, True), Reason.TEMPORALITY, "DELTA or CUMULATIVE"),
        (StatedMetric(b"", b"tailwright.x", b"", "summary", 0, False), Reason.METRIC, "send a histogram"),
        (StatedMetric(b"", b"tailwright.x", b"", None, 0, False), Reason.METRIC, "no data field"),
        (StatedMetric(b"", b"tailwright." + b"x" * 250, b"", "gauge", 0, False), Reason.METRIC, "at most 256"),
        (StatedMetric(b"", b"\xff", b"", "gauge", 0, False), Reason.METRIC, "UTF-8"),
        (StatedMetric(b"", b"tailwright.output_token", b"", "gauge", 0, False), None, ""),
        (StatedMetric(b"", b"ailwright.output_tokens", b"", "sum", DELTA, True), Reason.METRIC, "did you mean"),
        (
            StatedMetric(b"", metrics.TTFT.name.encode(), b"ms", "histogram", DELTA, False),
            Reason.METRIC,
            "unit must be 's'",
        ),
    ],
)
def test_refusals(stated: StatedMetric, reason: Reason | None, said: str) -> None:
    kinds = MetricKinds()
    for _ in range(2):  # From memory it is the same.
        if reason is None:
            assert kinds.of(stated).kind is MetricKind.GAUGE
            continue
        with pytest.raises(Refused, match=said) as raised:
            kinds.of(stated)
        assert raised.value.reason is reason


def test_a_key_is_of_scope_and_name_apart() -> None:
    kinds = MetricKinds()
    keys = {
        kinds.of(StatedMetric(*pair, b"", "gauge", 0, False)).key
        for pair in ((b"", b"tailwright.a"), (b"t", b"tailwright.a"))
    }
    assert len(keys) == 2


def test_hints_are_left_out_where_they_cost_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(metric_kind, "nearest", lambda name, _: asked.append(name) or "did you mean 'x'?")
    kinds, stated = MetricKinds(), StatedMetric(b"", b"http.server", b"", "gauge", 0, False)
    with pytest.raises(Refused, match="names start with"):
        kinds.of(stated, hint=False)
    assert asked == []
    for _ in range(2):
        with pytest.raises(Refused, match="did you mean"):
            kinds.of(stated)
    assert asked == ["http.server"]


def test_memories_are_bounded() -> None:
    kinds, tables = MetricKinds(remembered=5), TableCache(held_bytes=5 * 2200)
    for number in range(30):
        kinds.of(StatedMetric(b"", f"tailwright.{number}".encode(), b"", "gauge", 0, False))
        table = tables.of((), (str(number),))
        assert tables.of((), (str(number),)) is table
        assert len(kinds._found) <= 5 and len(tables._found) <= 5
    large = tuple("x" * number for number in range(200))
    assert tables.of((), large).labels == large and tables._found.currsize <= 5 * 2200
    kinds.of(StatedMetric(b"s" * 2000, b"tailwright.long", b"", "gauge", 0, False))
    assert not [stated for stated in kinds._found if stated.scope]
