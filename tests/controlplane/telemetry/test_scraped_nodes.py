"""Latencies in an engine's own buckets: nothing is lost, and quantiles state how far off they may be."""

from bisect import bisect_left
from datetime import datetime
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from agents.agent.reports.report import AgentCounts, NodeIdentity, encode_metrics
from agents.agent.reports.tally import Tally
from controlplane.contract.histogram import RELATIVE_ERROR
from controlplane.telemetry.otlp.histogram_point import on_axis, read_explicit
from controlplane.telemetry.values.refusal import Refusals

BOUNDS = [0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0]
"""Some of vLLM's for TTFT."""
PROTOBUF = {"content-type": "application/x-protobuf"}


def send(api: httpx.Client, node: str, start: datetime, *events: dict[str, Any]) -> None:
    time_s = start.timestamp()
    tally = Tally(int(time_s // 5), 5.0, "m")
    for seq, event in enumerate(events, 1):
        head = {"seq": seq, "time": time_s + 1.0, "revision": 1}
        tally.count({**head, **event}, "boot")  # type: ignore[typeddict-item]
    body = encode_metrics(tally, NodeIdentity(node, "chat"), 1, AgentCounts())
    assert api.post("/v1/metrics", content=body, headers=PROTOBUF).status_code == 200


def scraped(values: list[float]) -> dict[str, Any]:
    counts = [0] * (len(BOUNDS) + 1)
    for value in values:
        counts[bisect_left(BOUNDS, value)] += 1
    return {"kind": "buckets", "metric": "ttft", "bounds": BOUNDS, "counts": counts, "total": sum(values)}


def exact(values: list[float]) -> list[dict[str, Any]]:
    head = {"kind": "first_token", "prompt_tokens": 50, "cached_tokens": 0}
    return [{**head, "ttft": value} for value in values]


def quantiles(api: httpx.Client, **filters: str) -> Any:
    params = {"metric": "ttft", "q": "0.5,0.95,0.99", "window": "10m", **filters}
    return api.get("/api/v1/quantiles", params=params).json()


@pytest.fixture
def values() -> list[float]:
    return [float(one) for one in np.random.default_rng(5).lognormal(-0.5, 0.6, 4000)]


def test_quantiles_of_buckets_are_within_the_error_they_state(
    api: httpx.Client, start: datetime, values: list[float]
) -> None:
    send(api, "scraped", start, scraped(values))
    answer = quantiles(api)
    (series,) = answer["series"]
    assert series["count"] == len(values)
    assert series["mean"] == pytest.approx(np.mean(values))
    # The widest bucket that is occupied is (1.0, 2.5], or the first, which reaches down to a tenth of its bound.
    assert answer["relative_error"] >= 1.5 > RELATIVE_ERROR
    for q, told in series["quantiles"].items():
        true = float(np.quantile(values, float(q)))
        place = bisect_left(BOUNDS, true)
        assert BOUNDS[place - 1] * 0.97 <= told <= BOUNDS[place] * 1.03  # In the bucket where it is.
        assert abs(told / true - 1) <= answer["relative_error"]


def test_a_pool_of_both_kinds_shows_the_larger_error_and_each_node_its_own(
    api: httpx.Client, start: datetime, values: list[float]
) -> None:
    send(api, "scraped", start, scraped(values))
    send(api, "raw", start, *exact(values))
    both, raw, coarse = (quantiles(api, **filters) for filters in ({}, {"node": "raw"}, {"node": "scraped"}))
    assert both["series"][0]["count"] == 2 * len(values)
    assert raw["relative_error"] == RELATIVE_ERROR
    assert both["relative_error"] == coarse["relative_error"] > RELATIVE_ERROR
    for q, told in raw["series"][0]["quantiles"].items():
        assert told == pytest.approx(float(np.quantile(values, float(q))), rel=RELATIVE_ERROR)


def test_values_above_all_bounds_are_counted_and_bounded_by_their_sum(api: httpx.Client, start: datetime) -> None:
    send(api, "scraped", start, scraped([0.2, 14.0, 14.0, 14.0]))
    answer = quantiles(api)
    (series,) = answer["series"]
    assert series["count"] == 4
    # Three of them share what the sum leaves above three times 10.
    assert 10.0 <= series["quantiles"]["0.5"] <= series["quantiles"]["0.99"] <= 42.2 - 3 * 10.0 + 10.0
    assert answer["relative_error"] >= 22.2 / 14.0 - 1


def test_one_request_between_two_readings_is_known_exactly(api: httpx.Client, start: datetime) -> None:
    send(api, "scraped", start, scraped([0.0421]))
    answer = quantiles(api)
    assert answer["relative_error"] == pytest.approx(RELATIVE_ERROR)
    assert answer["series"][0]["quantiles"]["0.5"] == pytest.approx(0.0421, rel=RELATIVE_ERROR)


@pytest.mark.parametrize("few", [[0.002, 0.003, 0.004], [0.0, 0.0]])
def test_values_far_below_the_first_bound_are_counted_below_what_their_sum_allows(
    api: httpx.Client, start: datetime, few: list[float]
) -> None:
    send(api, "scraped", start, scraped(few))
    (series,) = quantiles(api)["series"]
    assert series["count"] == len(few)
    assert series["quantiles"]["0.99"] <= sum(few) * 1.03


@given(
    st.lists(
        st.lists(st.one_of(st.floats(0.0, 0.01), st.floats(0.0, 40.0)), min_size=1, max_size=20), min_size=1, max_size=4
    )
)
def test_nothing_that_an_agent_sends_is_refused_or_lost(readings: list[list[float]]) -> None:
    tally = Tally(0, 5.0, "m")
    for seq, found in enumerate(readings, 1):
        tally.count({**scraped(found), "seq": seq, "time": 1.0, "revision": 1}, "boot")  # type: ignore[typeddict-item]
    export = ExportMetricsServiceRequest.FromString(encode_metrics(tally, NodeIdentity("n", "p"), 1, AgentCounts()))
    metrics = export.resource_metrics[0].scope_metrics[0].metrics
    (point,) = next(metric for metric in metrics if metric.HasField("histogram")).histogram.data_points
    _, counts, zero, total, minimum, maximum, _ = on_axis("ttft", read_explicit("ttft", point), Refusals())
    everything = [value for found in readings for value in found]
    assert sum(counts) + zero == len(everything)
    assert total == pytest.approx(sum(everything))
    assert minimum <= max(everything) * 1.001 + 1e-6 and max(everything) <= maximum * 1.001 + 1e-6
