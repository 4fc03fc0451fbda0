"""What a node went through is joined to its requests: a planted cause comes first, over nothing nothing is named."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from controlplane.contract.bodies.explanation import Against, ExplainAnswer
from controlplane.contract.metrics import (
    CONTAINER_PRESSURE_CPU,
    HOST_PRESSURE_CPU,
    HOST_STEAL,
    LIMIT,
    NODE,
    STEP_LIMIT,
)
from controlplane.contract.step_limits import StepLimit
from controlplane.telemetry.question import Free
from controlplane.telemetry.request_log.contrast import ALPHA, contrasts
from controlplane.telemetry.request_log.explain import Side, explain
from controlplane.telemetry.request_log.factors import NOT_TOLD, factors
from controlplane.telemetry.request_log.node_states import (
    HOST_FACTOR,
    MOST_NODES,
    STEP_LIMIT_FACTOR,
    middles,
    node_states,
)
from controlplane.telemetry.request_log.request_columns import Coded, Mask, RequestColumns
from controlplane.telemetry.request_log.request_filter import RequestFilter
from controlplane.telemetry.values.timespan import Span, to_ns
from tests.controlplane.telemetry.fake_reader import FakeReader
from tests.controlplane.telemetry.request_log.traffic import Traffic, traffic
from tests.soak import soak

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
WINDOWS = 60
SPAN = Span(START, START + timedelta(seconds=5 * WINDOWS))
NOW = SPAN.end
SEEDS = soak(100, 400)
NODES = [f"gpu-{place}" for place in range(4)]


def arriving(found: Traffic, rng: np.random.Generator) -> Traffic:
    """The same requests, spread over the span's windows but for the last ones, in which they end."""
    arrival = to_ns(START) + np.sort(rng.integers(0, 5 * (WINDOWS - 12) * 1_000_000_000, len(found.columns)))
    return Traffic(replace(found.columns, arrival_ns=arrival.astype(np.int64)))


def told(
    limit: Callable[[int, int], StepLimit] = lambda node, window: StepLimit.NO_WORK,
    steal: Callable[[int, int], float] = lambda node, window: 0.0,
) -> FakeReader:
    """Every node's 100 steps and its steal in every window; a tenth of the steps is of another limit."""
    reader = FakeReader()
    for window in range(WINDOWS):
        at = START + timedelta(seconds=5 * window)
        for node, name in enumerate(NODES):
            labels = {NODE.label: name}
            most = limit(node, window)
            reader.add(STEP_LIMIT.short, at, 90.0, **labels, **{LIMIT.label: most.value})
            reader.add(STEP_LIMIT.short, at, 10.0, **labels, **{LIMIT.label: StepLimit.CHUNK.value})
            reader.add(HOST_STEAL.short, at, steal(node, window), **labels)
    return reader


def states(reader: FakeReader, found: RequestColumns, metric: str = "ttft", now: datetime = NOW) -> dict[str, Coded]:
    return node_states(reader, found, metric, now, Free())


def answered(reader: FakeReader, found: Traffic, inside: Mask, metric: str = "ttft") -> ExplainAnswer:
    here, there = found.split(inside)
    box = RequestFilter({}, metric, 0.0, None)
    log_from = START - timedelta(days=2)
    return explain(
        Side(here, SPAN), Side(there, SPAN), box, Against.SPAN, log_from, lambda of: states(reader, of, metric)
    )


def in_windows(found: Traffic, chosen: Callable[[int, int], bool]) -> Mask:
    """Requests whose time to first token has its middle in such a window of its node."""
    window = (middles(found.columns, "ttft") - to_ns(START)) // 5_000_000_000
    node = found.columns.labels["node"].codes
    return np.array([chosen(int(n), int(w)) for n, w in zip(node, window, strict=True)], dtype=np.bool_)


@pytest.mark.parametrize("seed", range(20))
def test_a_planted_cause_of_the_nodes_comes_first(seed: int) -> None:
    rng = np.random.default_rng(seed)
    base = arriving(traffic(rng, 1500), rng)
    bad = rng.random((len(NODES), WINDOWS)) < 0.2

    def is_bad(node: int, window: int) -> bool:
        return bool(bad[node, window])

    slowed = base.slowed(in_windows(base, is_bad), rng)
    inside = slowed.ttft >= np.quantile(base.ttft, 0.9)
    bound = told(limit=lambda node, window: StepLimit.KV_MEMORY if is_bad(node, window) else StepLimit.NO_WORK)
    first = answered(bound, slowed, inside).factors[0]
    assert (first.factor, first.named, first.label) == (STEP_LIMIT_FACTOR, True, False)
    assert first.values[0].value in ("kv_memory", "no_work")
    assert "waited while most steps of their node were bound by want of KV memory" in first.sentence
    stolen = told(steal=lambda node, window: 0.4 if is_bad(node, window) else 0.02)
    answer = answered(stolen, slowed, inside)
    assert answer.factors[0].factor == HOST_FACTOR and answer.factors[0].named
    assert "waited while the host of their node was busy" in answer.sentence


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("metric", ["ttft", "e2e"])
def test_over_states_that_come_and_go_by_chance_a_box_names_nothing_but_for_alpha(metric: str) -> None:
    """Requests last from a second to minutes: who lasts long is in more windows, and must not be told apart by it."""
    rng = np.random.default_rng(7)
    bound = rng.choice([StepLimit.NO_WORK, StepLimit.TOKEN_BUDGET, StepLimit.MAX_NUM_SEQS], (len(NODES), WINDOWS))
    reader = told(
        limit=lambda node, window: StepLimit(bound[node, window]),
        steal=lambda node, window: float((node * 7 + window * 13) % 10 < 3) * 0.5,
    )
    named = 0
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        found = arriving(traffic(rng, int(rng.integers(30, 2000)), tenants=20), rng)
        lasting = rng.lognormal(1.5, 1.0, len(found.columns))
        parts = {**found.columns.parts, "ttft": lasting / 2.0, "e2e": lasting}
        found = Traffic(replace(found.columns, parts=parts))
        values = found.columns.parts[metric]
        low, high = np.sort(np.quantile(values, rng.random(2)))
        inside = (values >= low) & (values <= high)
        columns = {**factors(found.columns), **states(reader, found.columns, metric)}
        named += any(one.is_named for one in contrasts(columns, inside)[:1])
    assert named <= ALPHA * SEEDS, f"{named} of {SEEDS} boxes over nothing named something"


def request(node: str, arrival_s: float, ttft_s: float, e2e_s: float) -> RequestColumns:
    found = traffic(np.random.default_rng(0), 1).columns
    labels = {**found.labels, "node": Coded([node], np.zeros(1, dtype=np.int64))}
    parts = {**found.parts, "ttft": np.array([ttft_s]), "e2e": np.array([e2e_s])}
    arrival = np.array([to_ns(START) + int(arrival_s * 1e9)], dtype=np.int64)
    return replace(found, labels=labels, parts=parts, arrival_ns=arrival)


def value(found: dict[str, Coded], factor: str) -> str | None:
    (code,) = found[factor].codes
    return None if code == NOT_TOLD else found[factor].names[code]


def test_until_the_first_token_or_the_whole_of_it_by_what_was_asked_for() -> None:
    reader = told(limit=lambda node, window: StepLimit.CHUNK if window < 2 else StepLimit.DRAFTS)
    one = request("gpu-1", 1.0, 2.0, 40.0)
    assert value(states(reader, one, "queue"), STEP_LIMIT_FACTOR) == "chunk"
    assert value(states(reader, one, "tpot"), STEP_LIMIT_FACTOR) == "drafts"


def test_of_a_node_that_told_nothing_nothing_is_known() -> None:
    silent = states(told(), request("gpu-9", 1.0, 2.0, 40.0))
    assert value(silent, STEP_LIMIT_FACTOR) is None and value(silent, HOST_FACTOR) is None
    assert states(told(), traffic(np.random.default_rng(0), 0).columns) == {}


def test_the_engines_own_control_group_is_believed_before_its_host() -> None:
    at, labels = START + timedelta(seconds=5), {NODE.label: "gpu-0"}
    reader = FakeReader()
    reader.add(HOST_PRESSURE_CPU.short, at, 0.5, **labels)
    one = request("gpu-0", 5.0, 2.0, 3.0)
    assert value(states(reader, one), HOST_FACTOR) == "busy"
    reader.add(CONTAINER_PRESSURE_CPU.short, at, 0.01, **labels)
    assert value(states(reader, one), HOST_FACTOR) == "quiet"


def test_windows_are_as_wide_as_what_is_kept_and_as_what_can_be_read() -> None:
    rng = np.random.default_rng(0)
    reader, young = told(), arriving(traffic(rng, 100), rng).columns
    for age, width in ((timedelta(), 5.0), (timedelta(hours=20), 10.0), (timedelta(days=9), 60.0)):
        states(reader, young, now=NOW + age)
        assert {one.step_s for one in reader.asked[-9:]} == {width}
    crowd = np.arange(MOST_NODES + 44, dtype=np.int64)
    labels = {**young.labels, "node": Coded([f"n{one}" for one in crowd], crowd)}
    long = traffic(rng, len(crowd)).columns
    spread = to_ns(START) + crowd * 60_000_000_000
    states(reader, replace(long, labels=labels, arrival_ns=spread), now=NOW + timedelta(hours=5))
    assert {one.step_s for one in reader.asked[-9:]} == {60.0}
    assert {len(one.where[NODE.label]) for one in reader.asked[-9:]} == {MOST_NODES}
