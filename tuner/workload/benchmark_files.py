"""Traffic out of the files of two benchmark tools: what holds arrivals and lengths; what holds none is refused by name.

GuideLLM (0.8.1): `GenerativeBenchmarksReport`, saved as benchmarks.json (guidellm/benchmark/schemas/report.py), has a
benchmark for each strategy; its `requests.successful` tell `request_start_time` (epoch seconds), `prompt_tokens` and
`output_tokens` (guidellm/schemas/base/request_stats.py). Its traces (guidellm/data/deserializers/trace_common.py) have
Mooncake's columns, but `timestamp` in seconds.

AIPerf (0.13.0): profile_export.jsonl has a line a request (`MetricRecordInfo`, aiperf/common/models/record_models.py):
`metadata.request_start_ns` beside `metrics.input_sequence_length` and `metrics.output_sequence_length`.
Its traces (`MooncakeTrace`, aiperf/dataset/loader/models.py) are Mooncake's lines, of which the later ones of a
`session_id` may tell a `delay` in milliseconds in place of a `timestamp`. AIPerf counts it from the end of the answer
before, which no file knows; here it counts from that request's arrival, so that such turns come sooner.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from controlplane.contract.bodies.workload import Workload, WorkloadRequest
from controlplane.contract.errors import BadRequest
from tuner.workload.trace import MOONCAKE_BLOCK_SIZE, mooncake_request, why, workload_of

_TEXTS = ("text", "texts", "text_input", "messages", "payload", "turns", "image", "images", "audio", "audios")
"""AIPerf's fields that are content, of which no length is told."""


def read_guidellm_report(document: Mapping[str, Any], *, pool: str = "trace", part: int | None = None) -> Workload:
    """`part`: which benchmark of a report that has several, from 1. Raises `BadRequest`."""
    benchmarks = document.get("benchmarks")
    if not isinstance(benchmarks, list) or not benchmarks:
        raise BadRequest("benchmarks: a GuideLLM report without one holds no requests", field="benchmarks")
    if part is None and len(benchmarks) > 1:
        raise BadRequest(
            f"benchmarks: the report has {len(benchmarks)}, each of other traffic; say which, --part 1 to "
            f"{len(benchmarks)}",
            field="part",
        )
    if not 1 <= (part or 1) <= len(benchmarks):
        raise BadRequest(f"part: the report has benchmarks 1 to {len(benchmarks)}, got {part}", field="part")
    field = f"benchmarks[{(part or 1) - 1}].requests.successful"
    rows = []
    try:
        for number, one in enumerate(benchmarks[(part or 1) - 1]["requests"]["successful"] or []):
            tokens = one["prompt_tokens"], one["output_tokens"]
            rows.append((f"{field}[{number}]", float(one["request_start_time"]), *tokens))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise BadRequest(
            f"{field}: no GuideLLM requests with request_start_time, prompt_tokens and output_tokens ({why(error)})",
            field=field,
        ) from error
    return _from_seconds(rows, pool)


def read_guidellm_trace(lines: Iterable[str], *, pool: str = "trace") -> Workload:
    """JSON lines with Mooncake's fields and `timestamp` in seconds. Raises `BadRequest` that names the line."""
    requests, sizes = [], set()
    for place, record in _records(lines):
        if "timestamp" not in record:
            raise BadRequest(
                f"{place}: no timestamp; a dataset of prompts has no arrivals, and a run's benchmarks.json has them",
                field=place,
            )
        request, size = mooncake_request(record, place)
        sizes.add(size)
        requests.append(request.model_copy(update={"timestamp": request.timestamp * 1000.0}))
    return _from_first(requests, sizes, pool)


def read_aiperf(lines: Iterable[str], *, pool: str = "trace") -> Workload:
    """The records of a run, or a trace with sessions. Raises `BadRequest` that names the line."""
    records = list(_records(lines))
    if records and "metadata" in records[0][1]:
        return _aiperf_run(records, pool)
    requests, sizes = [], set()
    last: dict[str | int, float] = {}
    for place, record in records:
        if content := next((name for name in _TEXTS if record.get(name) is not None), None):
            raise BadRequest(
                f"{place}: {content} tells no length in tokens; a run's profile_export.jsonl has them", field=place
            )
        session, delay = record.get("session_id"), record.get("delay")
        if session is not None and not isinstance(session, str | int):
            raise BadRequest(f"{place}: session_id: wants a name, got {session!r}", field=place)
        if record.get("timestamp") is None and delay is not None and session in last:
            if not isinstance(delay, int | float):
                raise BadRequest(f"{place}: delay: wants milliseconds, got {delay!r}", field=place)
            record = {**record, "timestamp": last[session] + delay}
        elif record.get("timestamp") is None:
            raise BadRequest(f"{place}: no timestamp, and no delay after a request of its session", field=place)
        request, size = mooncake_request(record, place)
        sizes.add(size)
        if session is not None:
            last[session] = request.timestamp
        requests.append(request)
    return _from_first(requests, sizes, pool)


def _aiperf_run(records: list[tuple[str, Mapping[str, Any]]], pool: str) -> Workload:
    """Warm-up, and what failed or was cancelled, is left out."""
    rows = []
    for place, record in records:
        try:
            about, metrics = record["metadata"], record["metrics"]
            if about.get("benchmark_phase") == "warmup" or about.get("was_cancelled") or record.get("error"):
                continue
            prompt, output = (metrics[f"{side}_sequence_length"]["value"] for side in ("input", "output"))
            rows.append((place, float(about["request_start_ns"]) / 1e9, prompt, output))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise BadRequest(
                f"{place}: no AIPerf record with request_start_ns, input_sequence_length and output_sequence_length "
                f"({why(error)})",
                field=place,
            ) from error
    return _from_seconds(rows, pool)


def _records(lines: Iterable[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise BadRequest(f"line {number}: no JSON ({error})", field=f"line {number}") from error
        if not isinstance(record, dict):
            raise BadRequest(f"line {number}: no JSON object", field=f"line {number}")
        yield f"line {number}", record


def _from_seconds(rows: list[tuple[str, float, Any, Any]], pool: str) -> Workload:
    """rows: their places, seconds, prompt tokens, output tokens."""
    requests = []
    for place, at, prompt, output in rows:
        try:
            requests.append(WorkloadRequest(timestamp=at * 1000.0, input_length=prompt, output_length=output))
        except ValueError as error:
            raise BadRequest(f"{place}: wants a time and whole tokens ({why(error)})", field=place) from error
    return _from_first(requests, set(), pool)


def _from_first(requests: list[WorkloadRequest], sizes: set[int], pool: str) -> Workload:
    """The clock set to 0 at the first arrival."""
    if len(sizes) > 1:
        raise BadRequest(f"block_size: wants one for all lines, got {sorted(sizes)}", field="block_size")
    if not requests:
        raise BadRequest("no request with an arrival and lengths", field="requests")
    first = min(one.timestamp for one in requests)
    moved = [one.model_copy(update={"timestamp": round(one.timestamp - first, 3)}) for one in requests]
    return workload_of(moved, pool=pool, block_size=next(iter(sizes), MOONCAKE_BLOCK_SIZE))
