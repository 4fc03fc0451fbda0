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
            record: dict[str, Any] = json.loads(line)
        except ValueError as error:
            raise BadRequest(f"line {number}: not a Mooncake request ({error})", field=f"line {number}") from error
        request, size = mooncake_request(record, f"line {number}")
        if block_size is not None and size != block_size:
            raise BadRequest(f"line {number}: block size {size} follows {block_size}", field=f"line {number}")
        block_size = size
        requests.append(request)
    return workload_of(requests, pool=pool, block_size=block_size or MOONCAKE_BLOCK_SIZE)


def mooncake_request(record: Mapping[str, Any], place: str) -> tuple[WorkloadRequest, int]:
    """One line's request, and its block size. Raises `BadRequest` that names the place."""
    try:
        size = int(record.get("block_size", MOONCAKE_BLOCK_SIZE))
        length = int(record["input_length"])
        ids = list(record.get("hash_ids") or [])[: length // size]
        request = WorkloadRequest(
            timestamp=record["timestamp"], input_length=length, output_length=record["output_length"], hash_ids=ids
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, ZeroDivisionError) as error:
        raise BadRequest(f"{place}: not a Mooncake request ({reason_of(error)})", field=place) from error
    return request, size


def reason_of(error: Exception) -> str:
    """What is wrong with a record, in a line: of several fields the first."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        return ": ".join([*map(str, first["loc"]), f"{first['msg']}, got {str(first['input'])[:40]!r}"])
    return f"no {error.args[0]}" if isinstance(error, KeyError) else str(error)


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
    for row in reader:
        try:
            arrival = datetime.fromisoformat(
                row["TIMESTAMP"]
            )  # Of seven decimals, as the trace has them, it reads six.
            arrival = arrival.replace(tzinfo=UTC) if arrival.tzinfo is None else arrival.astimezone(UTC)
            context, generated = int(row["ContextTokens"]), int(row["GeneratedTokens"])
            request = WorkloadRequest(timestamp=0, input_length=max(1, context), output_length=generated)
        except (ValueError, TypeError, OverflowError) as error:
            place = f"line {reader.line_num}"
            raise BadRequest(f"{place}: not an Azure request ({reason_of(error)})", field=place) from error
        rows.append((arrival, request))
    start = min((arrival for arrival, _ in rows), default=EPOCH)
    requests = (
        request.model_copy(update={"timestamp": (arrival - start).total_seconds() * 1000}) for arrival, request in rows
    )
    return workload_of(requests, pool=pool, start=start)


def save(workload: Workload, path: Path) -> None:
    """Writes .jsonl (Mooncake) or .json (the contract's Workload)."""
    if path.suffix == ".jsonl":
        path.write_text("".join(line + "\n" for line in write_mooncake(workload)), encoding="utf-8")
    elif path.suffix == ".json":
        path.write_text(workload.model_dump_json(), encoding="utf-8")
    else:
        raise BadRequest(f"{path.name}: wants .jsonl or .json, got {path.suffix!r}", field="path")
