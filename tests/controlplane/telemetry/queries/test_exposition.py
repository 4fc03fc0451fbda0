"""/metrics is cheap however often it is scraped, bounded however many pools there are, and honest about failures."""

from datetime import timedelta
from typing import Any

import httpx
import pytest
from prometheus_client.core import Metric
from sqlalchemy.exc import OperationalError

from controlplane.contract import metrics
from controlplane.contract.metrics import PROMPT_BUCKETS
from controlplane.evidence.sketch import Sketch
from controlplane.telemetry import Question, Span
from controlplane.telemetry.queries import fleet_gauges
from controlplane.telemetry.queries.exposition import FAILING, FRESH_S, FleetQuantiles
from controlplane.telemetry.reader import SketchSeries, ValueSeries
from controlplane.telemetry.store import TelemetryStore
from tests.controlplane.telemetry.ingesting import ingest_metrics


class Pools:
    """A reader with as many busy pools as asked for; pool k has k + 1 values in each series."""

    def __init__(self, pools: int) -> None:
        self.pools = pools
        self.asked = 0
        self.error: Exception | None = None

    def histograms(self, question: Question) -> list[SketchSeries]:
        self.asked += 1
        if self.error is not None:
            raise self.error
        found = []
        for number in range(self.pools):
            for bucket in PROMPT_BUCKETS if "prompt_bucket" in question.by else ("",):
                sketch = Sketch(total=1.0, minimum=0.5, maximum=0.5)
                sketch.counts[600] = number + 1
                found.append(SketchSeries({"pool": f"p{number:03d}", "prompt_bucket": bucket}, sketch))
        return found

    def scalars(self, _: Question) -> list[ValueSeries]:
        self.asked += 1
        return [ValueSeries({"pool": f"p{number:03d}"}, 60.0) for number in range(self.pools)]


class Stopwatch:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def samples(found: list[Metric]) -> dict[str, int]:
    return {metric.name: len(metric.samples) for metric in found}


def test_it_is_computed_once_in_five_seconds(clock: Any) -> None:
    reader, watch = Pools(2), Stopwatch()
    collector = FleetQuantiles(reader, clock, watch)  # type: ignore[arg-type]
    first = list(collector.collect())
    asked = reader.asked
    for _ in range(50):
        assert list(collector.collect()) == first
    watch.now += FRESH_S - 0.01
    collector.collect()
    assert reader.asked == asked
    watch.now += 0.01
    collector.collect()
    assert reader.asked == 2 * asked


@pytest.mark.slow
def test_the_number_of_series_is_bounded_and_the_busiest_pools_stay(clock: Any) -> None:
    few, many = (samples(list(FleetQuantiles(Pools(pools), clock).collect())) for pools in (1, 500))  # type: ignore[arg-type]
    for name, count in many.items():
        assert count <= fleet_gauges.MOST_POOLS * max(few[name], 1), name
    families = fleet_gauges.read(Pools(40), Span(clock() - timedelta(minutes=1), clock()))  # type: ignore[arg-type]
    shown = {labels[0] for family in families for labels, _ in family.samples if labels}
    assert shown == {f"p{number:03d}" for number in range(10, 40)}
    assert [family.samples for family in families if family.name.endswith("left_out")] == [[((), 10.0)]]


def test_a_failure_shows_itself_and_no_old_values(clock: Any) -> None:
    reader, watch = Pools(2), Stopwatch()
    collector = FleetQuantiles(reader, clock, watch)  # type: ignore[arg-type]
    assert len(list(collector.collect())) > 10
    reader.error = OperationalError("SELECT", {}, Exception("gone"))
    watch.now += FRESH_S
    (only,) = collector.collect()
    assert only.name == FAILING and only.samples[0].value == 1.0
    reader.error = None
    watch.now += FRESH_S
    assert len(list(collector.collect())) > 10


def test_what_the_store_has_is_what_the_gauges_say(
    store: TelemetryStore, api: httpx.Client, make_report: Any, clock: Any
) -> None:
    for node in ("a", "b"):
        report = make_report(node=node, pool="chat", start=clock() - timedelta(seconds=20))
        report.histogram([0.1, 0.2], prompt_bucket="<=128")
        report.histogram([0.4], prompt_bucket="<=2k")
        report.histogram([1.0, 2.0], name=metrics.E2E.name, prompt_bucket="<=128")
        report.histogram([0.5, 0.7], name=metrics.DECODE.name)
        report.number(metrics.REQUESTS.name, 30.0)
        report.number(metrics.KV_USAGE.name, 0.25 if node == "a" else 0.75, kind="gauge")
        ingest_metrics(store, report.request)
    text = api.get("/metrics", headers={"Authorization": ""}).text
    lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("tailwright_fleet"))
    q = {series.labels["prompt_bucket"]: series.total for series in store.histograms(
        Question("ttft", Span(clock() - timedelta(minutes=1), clock()), by=("prompt_bucket",)))}  # fmt: skip
    whole = store.histograms(Question("ttft", Span(clock() - timedelta(minutes=1), clock())))[0].total
    assert float(lines['tailwright_fleet_ttft_seconds{pool="chat",q="0.95"}']) == whole.quantile(0.95)
    name = 'tailwright_fleet_ttft_by_prompt_seconds{pool="chat",prompt_bucket="<=128",q="0.5"}'
    assert float(lines[name]) == q["<=128"].quantile(0.5)
    for name, value in {
        'tailwright_fleet_values{metric="ttft",pool="chat"}': 6,
        'tailwright_fleet_by_prompt_values{metric="ttft",pool="chat",prompt_bucket="<=2k"}': 2,
        'tailwright_fleet_component_ratio{component="decode",pool="chat"}': 1.2 / 3.0,
        'tailwright_fleet_requests_per_second{pool="chat"}': 1.0,
        'tailwright_fleet_kv_cache_usage_ratio{pool="chat"}': 0.5,
        "tailwright_fleet_pools_left_out": 0,
        FAILING: 0,
    }.items():
        assert float(lines[name]) == pytest.approx(value), name
    assert not any('component="queue"' in line for line in lines), "absent data is absent"
