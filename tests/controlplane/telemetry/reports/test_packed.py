"""Packed reports as arrays: what the contract's own decode reads, and nothing that must not be kept."""

import gc
import struct
from collections import Counter
from dataclasses import replace
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.contract import metrics
from controlplane.contract.errors import BadRequest
from controlplane.contract.histogram import AXIS_LENGTH, RELATIVE_ERROR
from controlplane.contract.metrics import MetricKind
from controlplane.contract.reports.packed_report import (
    HEADER,
    PackedHistogram,
    PackedNumber,
    PackedReport,
    Section,
    decode,
    encode,
)
from controlplane.telemetry.otlp.bounds import Bounds, Sender
from controlplane.telemetry.otlp.histogram_point import MAX_COUNT
from controlplane.telemetry.otlp.labels import canonical
from controlplane.telemetry.reports import packed
from controlplane.telemetry.reports.packed import Packed
from controlplane.telemetry.reports.packed_table import OBJECTS_BYTES, PackedTables
from controlplane.telemetry.values.batch import Batch
from controlplane.telemetry.values.magnitude import LARGEST, all_that_fit
from controlplane.telemetry.values.refusal import Reason, Refusals
from tests.controlplane.telemetry.packed_reports import (
    BOUNDS,
    GAUGE_PLACE,
    METRICS,
    SUM_PLACE,
    WINDOW,
    histogram,
    report,
)

TABLES = PackedTables()
GOOD = histogram([0.1, 0.2, 0.25])


def split(given: PackedReport) -> Packed:
    return packed.split(encode(given), TABLES)


def read(*reports: PackedReport, bounds: Bounds = BOUNDS) -> tuple[Batch, list[int], list[Refusals]]:
    refusals = [Refusals() for _ in reports]
    found = packed.read([split(one) for one in reports], [bounds] * len(reports), refusals)
    return found.batch, found.silent.tolist(), refusals


def rows_of(batch: Batch) -> Counter[Any]:
    """Every row spelled out: owner, kind, window, metric, labels, and its values."""
    names = [metric for table in batch.tables for metric in table.metrics]
    labels = [text for table in batch.tables for text in table.labels]
    found: list[Any] = []
    rows, owners = batch.columns.histograms, batch.owners.tolist()
    ends = np.cumsum(rows.width)
    for i in range(len(rows)):
        cells = tuple(rows.cells[ends[i] - rows.width[i] : ends[i]].tolist())
        values = (int(rows.low[i]), cells, int(rows.zero[i]), rows.total[i], rows.minimum[i], rows.maximum[i])
        found.append((owners[i], int(rows.window[i]), names[rows.metric[i]], labels[rows.labels[i]], values))
        assert rows.error[i] == RELATIVE_ERROR
    at = len(rows)
    for numbers in (batch.columns.sums, batch.columns.gauges):
        for i in range(len(numbers)):
            assert numbers.time_ns[i] == (numbers.window[i] + 1) * 5 * 10**9
            name, text = names[numbers.metric[i]], labels[numbers.labels[i]]
            found.append((owners[at + i], int(numbers.window[i]), name, text, numbers.value[i]))
        at += len(numbers)
    return Counter(found)


def expected_rows(owner: int, given: PackedReport) -> Counter[Any]:
    def text(place: int) -> str:
        names = {**given.resource, **given.labels[place]}
        return canonical({metrics.LABEL_OF[name]: value for name, value in names.items()})

    found: list[Any] = []
    for section in given.sections:
        for one in section.histograms:
            values = (one.low, one.counts, one.zero, one.total, one.minimum, one.maximum)
            found.append((owner, section.window, given.metrics[one.metric], text(one.labels), values))
        for number in (*section.sums, *section.gauges):
            found.append((owner, section.window, given.metrics[number.metric], text(number.labels), number.value))
    return Counter(found)


VALUES = st.lists(st.floats(0, 2000, allow_subnormal=False), min_size=1, max_size=12)
HISTOGRAM = st.builds(histogram, VALUES, st.integers(0, GAUGE_PLACE - 1), st.integers(0, 2))
BIG = st.builds(
    lambda one, factor: replace(
        one,
        counts=tuple(count * factor for count in one.counts),
        zero=one.zero * factor,
        total=one.total * factor,
    ),
    HISTOGRAM,
    st.sampled_from([1, 100, 300, 70_000, 2**33]),
)
FINITE = st.floats(-LARGEST, LARGEST)
SUM = st.builds(PackedNumber, st.just(SUM_PLACE), st.integers(0, 2), st.floats(0, LARGEST))
GAUGE = st.builds(PackedNumber, st.integers(GAUGE_PLACE, SUM_PLACE - 1), st.integers(0, 2), FINITE)
SECTION = st.builds(
    Section,
    st.integers(WINDOW - 3000, WINDOW + 600),
    st.lists(BIG, max_size=4).map(tuple),
    st.lists(SUM, max_size=3).map(tuple),
    st.lists(GAUGE, max_size=3).map(tuple),
)
REPORT = st.builds(
    lambda sections, node: report(node=node, label_sets=3, sections=sections),
    st.lists(SECTION, max_size=3),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8),
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(REPORT, max_size=4))
def test_reads_what_the_contract_reads(reports: list[PackedReport]) -> None:
    batch, silent, refusals = read(*reports)
    assert [one.text() for one in refusals] == [""] * len(reports) and not any(silent)
    expected: Counter[Any] = Counter()
    for owner, one in enumerate(reports):
        expected += expected_rows(owner, decode(encode(one)))
    assert rows_of(batch) == expected


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_broken_body_is_a_bad_request_or_refused_row_by_row(data: st.DataObject) -> None:
    """Whatever the bytes are: what is kept is what the contract's decode says, and whole numbers fit their sums."""
    body = bytearray(encode(data.draw(REPORT)))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(body[: data.draw(st.sampled_from([len(body), len(body), len(body) - 1, len(body) // 2]))])
    try:
        one = packed.split(cut, TABLES)
    except BadRequest as error:
        assert error.message.startswith("body: ") and error.detail["field"] == "body"
        return
    refusals = Refusals()
    found = packed.read([one], [BOUNDS], [refusals])
    assert one.rows == len(found.batch.owners) + refusals.count + int(found.silent[0])
    rows = found.batch.columns.histograms
    assert (rows.low + rows.width <= AXIS_LENGTH).all() and (rows.zero <= MAX_COUNT).all()
    numbers = [rows.total, rows.minimum, rows.maximum, found.batch.columns.sums.value, found.batch.columns.gauges.value]
    assert all(all_that_fit(column).all() for column in numbers)


def bad_histogram(**changes: Any) -> Section:
    return Section(WINDOW, (GOOD, replace(GOOD, **changes)))


def bad_sum(**changes: Any) -> Section:
    return Section(WINDOW, (GOOD,), (replace(PackedNumber(SUM_PLACE, 0, 1.0), **changes),))


def bad_gauge(**changes: Any) -> Section:
    return Section(WINDOW, (GOOD,), (), (replace(PackedNumber(GAUGE_PLACE, 0, 1.0), **changes),))


TTFT = metrics.TTFT.name
NAN, INF = float("nan"), float("inf")
BEYOND = histogram([900.0])


@pytest.mark.parametrize(
    ("section", "reason", "message"),
    [
        (bad_histogram(metric=len(METRICS)), Reason.MALFORMED, "metric: place 8 of a table of 8"),
        (bad_histogram(labels=9), Reason.MALFORMED, f"{TTFT}: labels: place 9 of a table of 2"),
        (bad_histogram(metric=SUM_PLACE), Reason.METRIC, f"{metrics.OUTPUT_TOKENS.name}: is a sum in the table"),
        (bad_histogram(low=AXIS_LENGTH), Reason.COUNTS, f"{TTFT}: low: {AXIS_LENGTH} and"),
        (bad_histogram(zero=MAX_COUNT + 1, minimum=0.0), Reason.COUNTS, f"{TTFT}: count is over"),
        (bad_histogram(zero=2**64 - 1, minimum=0.0), Reason.COUNTS, f"{TTFT}: count is over"),
        (bad_histogram(counts=(2**64 - 1, 2**63)), Reason.COUNTS, f"{TTFT}: count is over"),
        (bad_histogram(counts=(2**40, 1)), Reason.COUNTS, f"{TTFT}: count is over"),
        (bad_histogram(total=NAN), Reason.VALUE, f"{TTFT}: sum nan"),
        (bad_histogram(total=2 * LARGEST), Reason.VALUE, f"{TTFT}: sum 2e+100"),
        (bad_histogram(total=INF), Reason.VALUE, f"{TTFT}: sum inf"),
        (bad_histogram(minimum=NAN), Reason.VALUE, f"{TTFT}: sum"),
        (bad_histogram(maximum=-INF), Reason.VALUE, f"{TTFT}: sum"),
        (bad_histogram(total=-0.5), Reason.VALUE, f"{TTFT}: sum -0.5"),
        (bad_histogram(minimum=-0.1), Reason.VALUE, f"{TTFT}: sum"),
        (bad_histogram(minimum=0.3, maximum=0.25), Reason.VALUE, f"{TTFT}: min 0.3 is above max 0.25"),
        (bad_histogram(minimum=0.15), Reason.COUNTS, f"{TTFT}: min is 0.15, but there are values at or below"),
        (bad_histogram(maximum=0.15, total=0.4), Reason.COUNTS, f"{TTFT}: max is 0.15, but there are values above"),
        (bad_histogram(total=0.9), Reason.COUNTS, f"{TTFT}: sum is 0.9, but 3 values lie between 0.1 and 0.25"),
        (bad_histogram(total=0.2), Reason.COUNTS, f"{TTFT}: sum is 0.2, but 3 values lie between"),
        (bad_sum(value=-1.0), Reason.VALUE, f"{metrics.OUTPUT_TOKENS.name}: value is -1.0, a monotonic sum"),
        (bad_sum(value=NAN), Reason.VALUE, f"{metrics.OUTPUT_TOKENS.name}: value is nan"),
        (bad_sum(value=2 * LARGEST), Reason.VALUE, f"{metrics.OUTPUT_TOKENS.name}: value is 2e+100, must be finite"),
        (bad_sum(metric=GAUGE_PLACE), Reason.METRIC, f"{metrics.KV_USAGE.name}: is a gauge in the table"),
        (bad_gauge(value=INF), Reason.VALUE, f"{metrics.KV_USAGE.name}: value is inf"),
        (bad_gauge(metric=0), Reason.METRIC, f"{TTFT}: is a histogram in the table"),
    ],
)
def test_a_row_that_cannot_be_kept_is_refused_alone(section: Section, reason: Reason, message: str) -> None:
    neighbour = report(node="n2", sections=[Section(WINDOW, (BEYOND,))])
    batch, silent, (refused, other) = read(report(sections=[section]), neighbour)
    assert refused.by_reason == {reason: 1} and refused.text().startswith(message), refused.text()
    assert other.count == 0 and silent == [0, 0]
    good = expected_rows(0, report(sections=[Section(WINDOW, (GOOD,))])) + expected_rows(1, neighbour)
    assert rows_of(batch) == good


def test_values_at_the_ends_of_the_axis_are_kept() -> None:
    sections = [Section(WINDOW, (histogram([5000.0]), histogram([0.0, 0.0]), histogram([1e-9, 3000.0])))]
    batch, _, (refused,) = read(report(sections=sections))
    assert refused.text() == "" and len(batch.owners) == 3


def test_a_histogram_of_nothing_is_taken_and_not_kept() -> None:
    nothing = PackedHistogram(0, 0, 0, (), 0, 0.0, INF, -INF)
    zeros = PackedHistogram(0, 0, 5, (0, 0), 0, 0.0, 0.0, 0.0)
    batch, silent, (refused,) = read(report(sections=[Section(WINDOW, (nothing, GOOD, zeros))]))
    assert (len(batch.owners), silent, refused.count) == (1, [2], 0)


@pytest.mark.parametrize(
    ("window", "message"),
    [
        (WINDOW + 10_000, "is more than 3600 s in the future"),
        (WINDOW - 10**6, "is older than what is kept"),
        (-1, "is missing"),
        (2**63 - 1, "in the future"),
        (-(2**63), "older"),
    ],
)
def test_a_window_out_of_bounds_is_refused_and_its_neighbours_are_kept(window: int, message: str) -> None:
    sections = [Section(window, (GOOD, GOOD)), Section(WINDOW, (GOOD,))]
    batch, _, (refused,) = read(report(sections=sections))
    assert refused.by_reason == {Reason.TIMESTAMP: 2} and message in refused.text()
    assert len(batch.owners) == 1


def test_a_resource_that_the_token_is_not_bound_to_is_refused_and_makes_no_names() -> None:
    batch, _, (refused, other) = read(report(node="n1"), report(node="n2"), bounds=replace(BOUNDS, sender=Sender("n2")))
    assert refused.by_reason == {Reason.NODE: 12} and other.count == 0
    assert set(batch.owners.tolist()) == {1} and batch.tables[0].labels == ()


def test_a_resource_of_another_pool_than_the_tokens_is_refused_one_without_a_pool_too() -> None:
    reports = [report(**{metrics.POOL.name: pool}) for pool in ("chat", "other", "")]
    batch, _, found = read(*reports, bounds=replace(BOUNDS, sender=Sender("n1", "chat")))
    assert [dict(refused.by_reason) for refused in found] == [{}, {Reason.POOL: 12}, {Reason.POOL: 12}]
    assert "tailwright.pool: is 'other', the node is enrolled in pool 'chat'" in found[1].text()
    assert set(batch.owners.tolist()) == {0}


def test_names_that_are_not_kept_are_refused_and_never_reach_the_store() -> None:
    names = (
        (TTFT, MetricKind.HISTOGRAM),
        ("http.server.duration", MetricKind.HISTOGRAM),
        (metrics.TPOT.name, MetricKind.GAUGE),
        ("tailwright." + "x" * 300, MetricKind.GAUGE),
        ("tailwright.\ud800", MetricKind.GAUGE),
        ("tailwright.mine", MetricKind.GAUGE),
    )
    labels = (
        {},
        {metrics.MODEL.name: "x" * 300},
        {metrics.MODEL.name: "a\0"},
        {"other": "y"},
        {metrics.TENANT.name: "\ud800"},
    )
    gauges = [PackedNumber(metric, 0, 1.0) for metric in (2, 3, 4, 5)]
    gauges += [PackedNumber(5, place, 1.0) for place in (1, 2, 3, 4)]
    section = Section(WINDOW, (replace(GOOD, metric=0), replace(GOOD, metric=1)), (), tuple(gauges))
    batch, _, (refused,) = read(replace(report(sections=[section]), metrics=names, labels=labels))
    assert refused.by_reason == {Reason.METRIC: 4, Reason.LABEL: 3}
    assert "'http.server.duration' is not kept" in "".join(refused.messages)
    assert f"{metrics.TPOT.name}: is a histogram, not a gauge" in refused.messages
    assert "tailwright.mine: attribute gen_ai.request.model: 300 characters, at most 256" in refused.messages
    table = batch.tables[0]
    assert table.metrics == (names[0], names[5])
    assert table.labels == ('{"node":"n1","pool":"chat"}',) * 2
    assert sorted(row[2][0] for row in rows_of(batch).elements()) == [TTFT, "tailwright.mine", "tailwright.mine"]


def test_a_resource_with_a_label_that_is_too_long_is_refused_whole() -> None:
    _, _, (refused,) = read(report(node="n" * 300))
    assert refused.by_reason == {Reason.LABEL: 12} and "service.instance.id" in refused.text()


@pytest.mark.parametrize(
    "refused",
    [
        report(node="n" * 300),
        replace(report(), labels=({}, {metrics.MODEL.name: "m" * 300})),
        replace(report(), metrics=(("other", MetricKind.SUM), *METRICS[1:])),
    ],
)
def test_what_is_remembered_of_a_refused_table_holds_no_exception(refused: PackedReport) -> None:
    tables, remembered = PackedTables(), []
    for _ in range(3):  # An exception that is raised again would hold the second and third report, too.
        one = packed.split(encode(refused), tables)
        found = Refusals()
        packed.read([one], [BOUNDS], [found])
        assert found.count
        remembered.append(one.table)
    assert remembered[0] is remembered[1] is remembered[2]
    assert not [one for one in held_by(tables) if isinstance(one, BaseException)]


def held_by(root: object) -> list[object]:
    """Everything that is reached from it, but not through types and functions, which all share."""
    found: dict[int, object] = {}
    wanted = [root]
    while wanted:
        one = wanted.pop()
        if id(one) not in found and not isinstance(one, type | FunctionType | ModuleType):
            found[id(one)] = one
            wanted += gc.get_referents(one)
    return list(found.values())


def test_a_report_that_would_take_the_writer_long_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, most in (("ROWS_AT_MOST", 11), ("SECTIONS_AT_MOST", 0), ("TABLE_BYTES_AT_MOST", 10)):
        with monkeypatch.context() as patched:
            patched.setattr(packed, limit, most)
            with pytest.raises(BadRequest, match="send smaller reports"):
                split(report())
    assert split(report()).rows == 12


def test_the_nearest_name_is_looked_for_a_few_times_only() -> None:
    names = tuple((f"gen_ai_server.time_to_first_token{i}", MetricKind.HISTOGRAM) for i in range(20))
    problems = split(replace(report(sections=[]), metrics=names)).table.metric_problems
    hints = [f"did you mean {TTFT!r}" in problem.message for problem in problems.values()]
    assert hints == [True] * 5 + [False] * 15


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"TTR1",
        b"TTR2" + encode(report())[4:],
        HEADER.pack(b"TTR1", b"s" * 16, 0, 2, 0) + b"{}",
        HEADER.pack(b"TTR1", b"s" * 16, 2**63, 2, 0) + b"{}",
        HEADER.pack(b"TTR1", b"s" * 16, 1, 2**32 - 1, 0),
        HEADER.pack(b"TTR1", b"s" * 16, 1, 2, 2**32 - 1) + b"{}",
        HEADER.pack(b"TTR1", b"s" * 16, 1, 2, 0) + b"{}",
        encode(report()) + b"x",
        encode(report())[:-1],
        encode(report()).replace(struct.pack("<q", WINDOW), struct.pack("<q", WINDOW)[:-1], 1),
    ],
)
def test_a_body_that_does_not_hold_together(body: bytes) -> None:
    with pytest.raises(BadRequest, match=r"^body: "):
        packed.split(body, TABLES)


def test_tables_are_parsed_once_and_held_within_a_bound() -> None:
    tables = PackedTables(cached_bytes=3 * (OBJECTS_BYTES + 3 * 1000))
    body = encode(report())
    first = packed.split(body, tables).table
    assert packed.split(body, tables).table is first
    for i in range(20):
        other = packed.split(encode(report(node=f"n{i}")), tables).table
    assert other.table.metrics is first.table.metrics
    assert packed.split(body, tables).table is not first
    assert 2 <= len(tables._cache) <= 4
