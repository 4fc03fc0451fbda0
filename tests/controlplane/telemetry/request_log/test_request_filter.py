"""The filter as SQL lets in what its meaning says, on every database; and the counts by label agree with it."""

import random
from collections.abc import Callable
from datetime import datetime, timedelta
from inspect import signature
from typing import Any

import pytest

from controlplane.contract.bodies.nodes import NodeRole
from controlplane.contract.bodies.workload import RequestRecord
from controlplane.contract.errors import BadRequest
from controlplane.contract.metrics import LABELS, cache_class, prompt_bucket
from controlplane.db.database import Database
from controlplane.telemetry.http.request_endpoints import request_labels
from controlplane.telemetry.question import Free
from controlplane.telemetry.request_log.facet_counts import facets
from controlplane.telemetry.request_log.request_columns import read_columns
from controlplane.telemetry.request_log.request_filter import (
    FACETS,
    RequestFilter,
    arrived_in,
    completed_in,
    in_range,
)
from controlplane.telemetry.request_log.request_page import records
from controlplane.telemetry.store import TelemetryStore
from controlplane.telemetry.values.timespan import Span
from tests.controlplane.telemetry.ingesting import ingest_traces

SPANS = 400


@pytest.fixture
def span(start: datetime) -> Span:
    return Span(start, start + timedelta(minutes=5))


@pytest.fixture
def logged(any_store: TelemetryStore, make_spans: Callable[..., Any], span: Span, any_database: Database) -> Any:
    draw = random.Random(7)
    for node, pool in (("a", "chat"), ("b", "chat"), ("c", "batch")):
        spans = []
        for place in range(SPANS // 4):
            prompt = draw.choice([100, 128, 129, 3000, 40000])
            spans.append(
                {
                    "id": f"{node}-{place}",
                    "arrival": span.start + timedelta(seconds=draw.uniform(-60.0, 300.0)),
                    "prompt": prompt,
                    "cached": draw.choice([0, prompt // 4, prompt // 2]),
                    "parts": {"e2e": draw.uniform(0.1, 30.0), **({"ttft": draw.random()} if place % 3 else {})},
                    "tenant": draw.choice(["acme", "zeta", ""]),
                    "region": "eu",
                    "revision": draw.choice(["3", "4"]),
                    "finish_reason": draw.choice(["stop", "length"]),
                }
            )
        ingest_traces(any_store, make_spans(node, spans, pool))
    with any_database.snapshot() as connection:
        yield lambda wanted, **how: records(connection, span, wanted, slowest=False, limit=5000, **how)


def labels_of(one: RequestRecord) -> dict[str, str]:
    told = {label: str(getattr(one, label)) for label in FACETS if hasattr(one, label)}
    bucket, held = prompt_bucket(one.prompt_tokens), cache_class(one.cached_tokens, one.prompt_tokens)
    return {**told, "prompt_bucket": bucket, "cache_class": str(held)}


@pytest.mark.slow
def test_each_label_lets_in_what_has_it(logged: Callable[..., list[RequestRecord]]) -> None:
    every = logged(RequestFilter())
    assert len(every) > SPANS // 2
    for label in FACETS:
        values = {labels_of(one)[label] for one in every}
        for value in values:
            found = logged(RequestFilter({label: [value]}))
            assert found == [one for one in every if labels_of(one)[label] == value], (label, value)
        assert logged(RequestFilter({label: sorted(values)})) == every
    both = logged(RequestFilter({"pool": ["chat"], "tenant": ["acme", ""], "revision": ["4"]}))
    assert both and {(one.pool, one.revision) for one in both} == {("chat", 4)}
    assert {one.tenant for one in both} == {"acme", ""}


def test_bounds_are_of_the_metric_and_a_request_without_it_has_none(
    logged: Callable[..., list[RequestRecord]],
) -> None:
    every = logged(RequestFilter())
    for metric in ("e2e", "ttft"):
        low, high = (1.0, 9.0) if metric == "e2e" else (0.25, 0.5)
        found = logged(RequestFilter({}, metric, low, high))
        assert found == [one for one in every if low <= one.parts.get(metric, -1.0) <= high] != []
        edge = found[0].parts[metric]
        assert found[0] in logged(RequestFilter({}, metric, edge, edge))
    assert logged(RequestFilter({}, "queue", 0.0, None)) == []


def test_a_value_counts_when_it_was_complete(logged: Callable[..., list[RequestRecord]], span: Span) -> None:
    every = {one.request_id: one for one in logged(RequestFilter(), by_completion=True)}
    assert any(one.arrival < span.start for one in every.values()), "those that came before the span and ended in it"
    for one in every.values():
        assert span.start <= one.arrival + timedelta(seconds=one.parts["e2e"]) < span.end
    for one in logged(RequestFilter({}, "ttft"), by_completion=True):
        assert span.start <= one.arrival + timedelta(seconds=one.parts["ttft"]) < span.end


def test_counts_by_label_are_those_of_the_pages(
    logged: Callable[..., list[RequestRecord]], any_database: Database, span: Span
) -> None:
    wanted = RequestFilter({"pool": ["chat"], "prompt_bucket": ["<=128"]}, "e2e", 2.0, None)
    with any_database.snapshot() as connection:
        dialect = connection.dialect.name
        by_arrival = [arrived_in(span.start, span.end), *in_range(wanted, dialect)]
        found = facets(read_columns(connection, by_arrival, Free()), span, wanted)
        ended = read_columns(connection, [completed_in("e2e", span, None, dialect)], Free(), with_timings=True)
    ranged = logged(RequestFilter({}, "e2e", 2.0, None))
    assert found.found == found.looked_at == len(ranged) and found.matching == len(logged(wanted))
    for facet in found.facets:
        others = {label: values for label, values in wanted.labels.items() if label != facet.label}
        for value in facet.values:
            narrowed = RequestFilter({**others, facet.label: [value.value]}, "e2e", 2.0, None)
            assert value.requests == len(logged(narrowed)), (facet.label, value)
    assert sorted(ended.parts["e2e"]) == sorted(one.parts["e2e"] for one in logged(RequestFilter(), by_completion=True))


def test_above_the_most_each_request_has_the_same_chance(
    logged: Callable[..., list[RequestRecord]], any_database: Database, span: Span
) -> None:
    total = len(logged(RequestFilter()))
    with any_database.snapshot() as connection:
        read = [read_columns(connection, [arrived_in(span.start, span.end)], Free(), most=60) for _ in range(2)]
    assert all(one.found == total for one in read) and (read[0].arrival_ns == read[1].arrival_ns).all()
    assert 40 <= len(read[0]) <= 60
    nodes = read[0].labels["node"]
    assert all(nodes.among([node]).sum() >= 8 for node in ("a", "b", "c")), "of each node a part"


def test_what_trial_nodes_replayed_is_told_apart(logged: Callable[..., list[RequestRecord]]) -> None:
    on_trial = {"a", "gone"}
    trial = logged(RequestFilter(role=NodeRole.TRIAL, trial_nodes=on_trial))
    serving = logged(RequestFilter(role=NodeRole.SERVING, trial_nodes=on_trial))
    assert {one.node for one in trial} == {"a"} and {one.node for one in serving} == {"b", "c"}
    assert len(trial) + len(serving) == len(logged(RequestFilter()))


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"metric": "itl"}, "metric"),
        ({"low": 2.0, "high": 1.0}, "low"),
        ({"labels": {"revision": ["x"]}}, "revision"),
        ({"labels": {"prompt_bucket": ["<=64"]}}, "prompt_bucket"),
        ({"labels": {"cache_class": ["warm"]}}, "cache_class"),
    ],
)
def test_what_no_request_can_be_is_refused(given: dict[str, Any], field: str) -> None:
    with pytest.raises(BadRequest) as refused:
        RequestFilter(**given)
    assert refused.value.detail["field"] == field


def test_each_label_of_a_request_is_a_parameter() -> None:
    assert set(signature(request_labels).parameters) == set(FACETS) == set(LABELS) - {"limit", "position", "role"}
