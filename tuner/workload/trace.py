"""Workload traces as text and in memory: Mooncake JSON lines, Azure 2023 CSV, and the contract's own JSON.

Guarantee: `read_mooncake(write_mooncake(w))` gives back `w`'s requests exactly; timestamps start at or after 0 and
never decrease. The contract counts one hash id per FULL prompt block; Mooncake also gives the last, partial block an
id. Reading drops that id, writing adds one that occurs nowhere else.
"""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from controlplane.contract.bodies.workload import Workload, WorkloadRequest
from controlplane.contract.errors import BadRequest
from controlplane.contract.mistake_text import mistake_text, place_of

MOONCAKE_BLOCK_SIZE = 512
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
AZURE_COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")


def hash_id(*parts: int | str) -> int:
    """A 63-bit id of its parts: equal parts, equal id, in every process."""
    text = "/".join(map(str, parts)).encode()
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big") >> 1


def workload_of(
    requests: Iterable[WorkloadRequest],
    *,
    pool: str = "trace",
    start: datetime = EPOCH,
    block_size: int = 16,
    nodes: int = 1,
) -> Workload:
    """A workload whose end is its last arrival; the requests are put in order of arrival."""
    ordered = sorted(requests, key=lambda request: request.timestamp)
    last_ms = ordered[-1].timestamp if ordered else 0.0
    end = start + timedelta(milliseconds=last_ms)
    return Workload(pool=pool, start=start, end=end, nodes=nodes, block_size=block_size, requests=ordered)


def why(error: Exception) -> str:
    """Of a record that cannot be read, in a line: what is wrong with which field."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        return f"{'.'.join(place_of(first))}: {mistake_text(first)}"
    return f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)


def read_mooncake(lines: Iterable[str], *, pool: str = "trace") -> Workload:
    """Mooncake JSON lines: {"timestamp" ms, "input_length", "output_length", "hash_ids"[, "block_size"]}.

    Raises BadRequest, which names the line, for a malformed one or for a block size that changes on the way.
    """
    requests: list[WorkloadRequest] = []
    block_size: int | None = None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise BadRequest(f"line {number}: not a Mooncake request ({error})", field=f"line {number}") from error
        if not isinstance(record, dict):
            raise BadRequest(f"line {number}: not a Mooncake request (no JSON object)", field=f"line {number}")
        request, size = mooncake_request(record, f"line {number}")
        if block_size is not None and size != block_size:
            raise BadRequest(f"line {number}: block size {size} follows {block_size}", field=f"line {number}")
        block_size = size
        requests.append(request)
    return workload_of(requests, pool=pool, block_size=block_size or MOONCAKE_BLOCK_SIZE)


def mooncake_request(record: Mapping[str, Any], place: str) -> tuple[WorkloadRequest, int]:
    """One line's request, and its block size. Raises `BadRequest` that names the place."""
    try:
        size = record.get("block_size", MOONCAKE_BLOCK_SIZE)
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ValueError(f"block_size: wants a whole number above 0, got {size!r}")
        request = WorkloadRequest(
            timestamp=record["timestamp"],
            input_length=record["input_length"],
            output_length=record["output_length"],
            hash_ids=record.get("hash_ids") or [],
        )
    except (ValueError, KeyError) as error:
        raise BadRequest(f"{place}: not a Mooncake request ({why(error)})", field=place) from error
    del request.hash_ids[request.input_length // size :]
    return request, size


def write_mooncake(workload: Workload) -> Iterator[str]:
    """One JSON line per request, with the block size beside Mooncake's own fields."""
    for index, request in enumerate(workload.requests):
        ids = list(request.hash_ids)
        partial = request.input_length % workload.block_size
        if partial and len(ids) == request.input_length // workload.block_size:
            ids.append(hash_id("partial", index, *ids[-1:]))
        yield json.dumps(
            {
                "timestamp": request.timestamp,
                "input_length": request.input_length,
                "output_length": request.output_length,
                "hash_ids": ids,
                "block_size": workload.block_size,
            }
        )


def read_azure(lines: Iterable[str], *, pool: str = "trace") -> Workload:
    """Azure LLM inference trace 2023: TIMESTAMP, ContextTokens, GeneratedTokens; it knows no prefix sharing."""
    reader = csv.DictReader(lines)
    missing = [column for column in AZURE_COLUMNS if column not in (reader.fieldnames or [])]
    if missing:
        raise BadRequest(
            f"line 1: the column {missing[0]} is missing; wants {', '.join(AZURE_COLUMNS)}", field="line 1"
        )
    rows: list[tuple[datetime, WorkloadRequest]] = []
    try:
        rows += map(_azure_row, reader)
    except (ValueError, csv.Error) as error:
        place = f"line {reader.line_num}"
        raise BadRequest(f"{place}: not an Azure request ({why(error)})", field=place) from error
    start = min((row[0] for row in rows), default=EPOCH)
    requests = (
        request.model_copy(update={"timestamp": (arrival - start).total_seconds() * 1000}) for arrival, request in rows
    )
    return workload_of(requests, pool=pool, start=start)


def _azure_row(row: Mapping[str, str | None]) -> tuple[datetime, WorkloadRequest]:
    """When it arrived, and the request as if that were the start. Raises ValueError that names the column."""
    at, context, generated = AZURE_COLUMNS
    try:
        arrival = datetime.fromisoformat(row[at] or "")  # The trace has seven decimals; it reads six of them.
        arrival = arrival.replace(tzinfo=UTC) if arrival.tzinfo is None else arrival.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{at}: wants a time such as 2023-11-16 18:17:03.9799600, got {row[at]!r}") from error
    length = _whole(row, context) or 1
    return arrival, WorkloadRequest(timestamp=0, input_length=length, output_length=_whole(row, generated))


def _whole(row: Mapping[str, str | None], column: str) -> int:
    text = (row[column] or "").strip()
    if not text.isdecimal():
        raise ValueError(f"{column}: wants a whole number of tokens, got {row[column]!r}")
    return int(text)


def save(workload: Workload, path: Path) -> None:
    """Writes .jsonl (Mooncake) or .json (the contract's Workload)."""
    if path.suffix == ".jsonl":
        path.write_text("".join(line + "\n" for line in write_mooncake(workload)), encoding="utf-8")
    elif path.suffix == ".json":
        path.write_text(workload.model_dump_json(), encoding="utf-8")
    else:
        raise BadRequest(f"{path.name}: wants .jsonl or .json, got {path.suffix!r}", field="path")
