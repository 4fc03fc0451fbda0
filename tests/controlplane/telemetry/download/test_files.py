"""Files: what is read back from CSV and Parquet is what the API answers, in bounded memory."""

import csv
import io
import math
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pyarrow.parquet
import pytest
from fastapi import Depends, FastAPI
from hypothesis import given
from hypothesis import strategies as st

from controlplane.api.unknown_fields import refuse_unknown_fields
from controlplane.contract import metrics
from controlplane.contract.bodies.workload import RequestRecord
from controlplane.contract.errors import BadRequest
from controlplane.contract.histogram import AXIS_MIN, SCALE, bucket_index
from controlplane.telemetry import Question, Span
from controlplane.telemetry.download import csv_file, parquet_file, records_table, table
from controlplane.telemetry.download.table import Column, Kind, Table
from controlplane.telemetry.http.export_endpoints import router
from tests.controlplane.telemetry.ingesting import ingest_metrics, ingest_traces

EXPORT = "/api/v1/export"
START = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def app(app: FastAPI) -> FastAPI:
    app.include_router(router, dependencies=[Depends(refuse_unknown_fields)])
    return app


@pytest.fixture
def span(start: datetime) -> dict[str, str]:
    return {"start": start.isoformat(), "end": (start + timedelta(minutes=1)).isoformat()}


@pytest.fixture
def filled(store: Any, make_report: Any, start: datetime) -> None:
    for step in range(0, 60, 5):
        for node in ("a", 'b "quoted", with\nlines'):
            report = make_report(node=node, start=start + timedelta(seconds=step))
            report.histogram([0.1 + step / 100, 0.2, 0.9], prompt_bucket="<=128")
            report.histogram([0.3], prompt_bucket="<=2k")
            report.number(metrics.OUTPUT_TOKENS.name, step + 1)
            ingest_metrics(store, report.request)


def rows_of_csv(answer: httpx.Response) -> list[dict[str, str]]:
    assert answer.status_code == 200, answer.text
    return list(csv.DictReader(io.StringIO(answer.text, newline="")))


def rows_of_parquet(answer: httpx.Response) -> list[dict[str, Any]]:
    assert answer.status_code == 200, answer.text
    return list(pyarrow.parquet.read_table(io.BytesIO(answer.content)).to_pylist())


@pytest.mark.slow
@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("step", ["10s", None])
def test_quantiles_read_back_equal_the_api(api: httpx.Client, span: dict[str, str], step: str | None) -> None:
    asked = {"metric": "ttft", "by": "node,prompt_bucket", "q": "0.5,0.99", **span, **({"step": step} if step else {})}
    answer = api.get("/api/v1/quantiles", params=asked).json()
    expected = {}
    for one in answer["series"]:
        key = (one["labels"]["node"], one["labels"]["prompt_bucket"])
        points = one["points"] if step else [{"time": answer["start"], **one}]
        for point in points:
            time = datetime.fromisoformat(point["time"])
            expected[(time, *key)] = (point["count"], *point["quantiles"].values())
    csv_rows = rows_of_csv(api.get(EXPORT, params=asked))
    parquet_rows = rows_of_parquet(api.get(EXPORT, params=asked | {"format": "parquet"}))
    assert len(csv_rows) == len(parquet_rows) == len(expected)
    for row in csv_rows:
        key = (datetime.fromisoformat(row["time"]), row["node"], row["prompt_bucket"])
        assert (int(row["count"]), float(row["q0.5"]), float(row["q0.99"])) == expected[key]
    for row in parquet_rows:
        key = (row["time"], row["node"], row["prompt_bucket"])
        assert (row["count"], row["q0.5"], row["q0.99"]) == expected[key]
        assert row["min"] <= row["q0.5"] <= row["max"] and row["sum"] > 0
    times = [row["time"] for row in parquet_rows]
    assert times == sorted(times)


@pytest.mark.usefixtures("filled")
def test_buckets_add_up_to_the_histogram(api: httpx.Client, store: Any, start: datetime, span: dict[str, str]) -> None:
    asked = {"metric": "ttft", "buckets": "true", **span}
    rows = rows_of_parquet(api.get(EXPORT, params=asked | {"format": "parquet"}))
    (whole,) = store.histograms(Question("ttft", Span(start, start + timedelta(minutes=1))))
    assert {row["bucket"] - AXIS_MIN: row["count"] for row in rows} == {
        position: count for position, count in enumerate(whole.total.counts.tolist()) if count
    }
    for row in rows:
        assert row["upper"] / row["lower"] == pytest.approx(2 ** (2**-SCALE))
        assert bucket_index(math.sqrt(row["lower"] * row["upper"])) == row["bucket"]
    assert len(rows_of_csv(api.get(EXPORT, params=asked))) == len(rows)


@pytest.mark.usefixtures("filled")
def test_sums_and_filters(api: httpx.Client, span: dict[str, str]) -> None:
    asked = {"metric": "output_tokens", "step": "5s", "node": "a", **span}
    rows = rows_of_csv(api.get(EXPORT, params=asked))
    assert [float(row["value"]) for row in rows] == [float(step + 1) for step in range(0, 60, 5)]
    assert rows[0]["time"] == span["start"].replace("+00:00", "Z")
    assert rows_of_csv(api.get(EXPORT, params=asked | {"node": "nobody"})) == []
    assert rows_of_parquet(api.get(EXPORT, params=asked | {"node": "nobody", "format": "parquet"})) == []


def test_request_records_read_back(
    api: httpx.Client, store: Any, make_spans: Callable[..., Any], start: datetime
) -> None:
    spans = [
        {"id": f"r{number}", "arrival": start + timedelta(seconds=number), "parts": {"e2e": 1.0 + number, "ttft": 0.5}}
        for number in range(5)
    ]
    ingest_traces(store, make_spans("n1", spans))
    asked = {"requests": "true", "pool": "chat", "start": start.isoformat()}
    rows = rows_of_parquet(api.get(EXPORT, params=asked | {"format": "parquet"}))
    expected = api.get("/api/v1/requests", params={"pool": "chat", "start": start.isoformat()}).json()["items"]
    assert [row["request_id"] for row in rows] == [one["request_id"] for one in expected]
    assert [(row["e2e"], row["ttft"], row["queue"]) for row in rows] == [
        (one["parts"]["e2e"], one["parts"]["ttft"], None) for one in expected
    ]
    csv_rows = rows_of_csv(api.get(EXPORT, params=asked))
    assert [row["prompt_tokens"] for row in csv_rows] == [str(one["prompt_tokens"]) for one in expected]
    assert csv_rows[0]["queue"] == ""


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("", "metric"),
        ("metric=ttfx", "metric"),
        ("metric=ttft&by=bucket", "by"),
        ("metric=ttft&step=7s", "step"),
        ("metric=ttft&q=2", "q"),
        ("metric=ttft&fromat=csv", "fromat"),
        ("requests=true&metric=ttft", "metric"),
        ("requests=true&model=a", "model"),
        ("requests=true&node=a&node=b", "node"),
    ],
)
def test_bad_questions_are_refused_before_the_first_byte(api: httpx.Client, query: str, field: str) -> None:
    answer = api.get(f"{EXPORT}?{query}")
    assert answer.status_code == 400 and answer.json()["error"]["detail"]["field"] == field
    assert api.get(EXPORT, headers={"Authorization": ""}).status_code == 401


def test_without_pyarrow_there_is_a_kind_message(api: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_file, "find_spec", lambda _: None)
    answer = api.get(EXPORT, params={"metric": "ttft", "format": "parquet"})
    assert answer.status_code == 400 and "deploy/locks/parquet.txt" in answer.json()["error"]["message"]
    assert api.get(EXPORT, params={"metric": "ttft"}).status_code == 200


def test_a_piece_that_is_too_large_is_cut_and_nothing_is_lost(make_reader: Callable[..., Any]) -> None:
    reader = make_reader(most_rows=20)
    for step in range(200):
        for node in range(3):
            reader.add("ttft", START + timedelta(seconds=5 * step + 2), 0.25, node=f"n{node}")
    span = Span(START, START + timedelta(seconds=998))
    asked = Question("ttft", span, ("node",), {}, 10.0)
    parts = list(table.of_quantiles(reader, asked, "s", {"0.5": 0.5}).parts)
    rows = [row for part in parts for row in part]
    assert rows == sorted(rows, key=lambda row: row[:2]), "by time, then labels, across the pieces"
    assert sum(row[2] for row in rows) == 600
    assert max(len(part) for part in parts) <= 20
    assert len({row[:2] for row in rows}) == len(rows) == 300, "no step is cut in two"
    assert len(reader.asked) < 70, "the pieces grow to what a reader gives"
    with pytest.raises(BadRequest):
        list(table.of_quantiles(make_reader(reader.points, most_rows=0), asked, "s", {}).parts)


def record(number: int, arrival: datetime) -> RequestRecord:
    return RequestRecord(
        node="n", pool="p", model="m", revision=1, request_id=f"{number:05d}", arrival=arrival, prompt_tokens=1,
        cached_tokens=0, output_tokens=1, finish_reason="stop", parts={"e2e": 1.0},
    )  # fmt: skip


@given(st.lists(st.integers(0, 6), max_size=60), st.integers(1, 7))
def test_every_request_is_there_once_however_many_share_an_instant(
    make_reader: Callable[..., Any], instants: list[int], at_once: int
) -> None:
    reader = make_reader(
        finished=[record(number, START + timedelta(microseconds=at)) for number, at in enumerate(instants)]
    )
    found = records_table.of_requests(
        reader, Span(START, START + timedelta(seconds=1)), pool=None, node=None, at_once=at_once
    )
    rows = [row for part in found.parts for row in part]
    expected = reader.requests(start=START, end=START + timedelta(seconds=1), limit=100)
    assert [row[5] for row in rows] == [one.request_id for one in expected]


cells = st.tuples(
    st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    st.integers(-(2**63), 2**63 - 1) | st.none(),
    st.floats(allow_nan=False, allow_infinity=False) | st.none(),
)


@given(st.lists(st.lists(cells, max_size=5), max_size=5))
def test_any_table_reads_back_equal(parts: list[list[tuple[Any, ...]]]) -> None:
    columns = (Column("t", Kind.TIME), Column("s", Kind.TEXT), Column("n", Kind.WHOLE), Column("x", Kind.REAL))

    def found() -> Table:
        return Table(columns, iter(parts), {"unit": "s"})

    rows = [row for part in parts for row in part]
    whole = pyarrow.parquet.read_table(io.BytesIO(b"".join(parquet_file.chunks(found()))))
    assert [tuple(row.values()) for row in whole.to_pylist()] == rows
    assert whole.schema.metadata[b"unit"] == b"s"
    text = b"".join(csv_file.chunks(found())).decode()
    read = list(csv.reader(io.StringIO(text, newline="")))[1:]
    assert [tuple(_cell(kind.kind, cell) for kind, cell in zip(columns, row, strict=True)) for row in read] == rows


def _cell(kind: Kind, text: str) -> Any:
    if kind is Kind.TEXT:
        return text
    if text == "":
        return None
    read: dict[Kind, Callable[[str], Any]] = {Kind.TIME: datetime.fromisoformat, Kind.WHOLE: int, Kind.REAL: float}
    return read[kind](text)


def test_a_long_file_is_given_away_while_it_is_made() -> None:
    rows = [(START, "x" * 100, number, 0.5) for number in range(parquet_file.LEAST_ROWS)]
    taken = 0

    def parts() -> Iterator[list[tuple[Any, ...]]]:
        nonlocal taken
        for _ in range(5):
            taken += 1
            yield rows

    columns = (Column("t", Kind.TIME), Column("s", Kind.TEXT), Column("n", Kind.WHOLE), Column("x", Kind.REAL))
    for encoder in (csv_file, parquet_file):
        taken = 0
        chunks = encoder.chunks(Table(columns, parts(), {}))
        assert next(chunks)
        assert taken <= 1, f"{encoder.__name__} reads ahead"
        for _ in chunks:
            pass
