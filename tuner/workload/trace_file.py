"""A file of traffic, read as what it is: by the format that is said, or by its first line."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from controlplane.contract.bodies.workload import Workload, WorkloadFormat
from controlplane.contract.errors import BadRequest
from controlplane.contract.mistake_text import place_of
from tuner.workload.benchmark_files import read_aiperf, read_guidellm_report, read_guidellm_trace
from tuner.workload.trace import AZURE_COLUMNS, read_azure, read_mooncake, why

_AIPERF = {"session_id", "delay", "text", "texts", "text_input", "messages", "payload", "turns", "image", "images"}


def load(path: Path, kind: WorkloadFormat | None = None, part: int | None = None) -> Workload:
    """Raises `BadRequest` for what is no traffic. `kind`: None: recognised. `part`: of a report with several."""
    return load_as(path, kind, part)[0]


def load_as(path: Path, kind: WorkloadFormat | None = None, part: int | None = None) -> tuple[Workload, WorkloadFormat]:
    """What is read, and as what."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadRequest(f"{path.name}: no text in UTF-8; save it as that", field="file") from error
    if not text.strip():
        raise BadRequest(f"{path.name}: is empty", field="file")
    kind = kind or recognised(text, path.name)
    lines, pool = text.split("\n"), path.stem
    match kind:
        case WorkloadFormat.MOONCAKE:
            found = read_mooncake(lines, pool=pool)
        case WorkloadFormat.AZURE:
            found = read_azure(lines, pool=pool)
        case WorkloadFormat.AIPERF:
            found = read_aiperf(lines, pool=pool)
        case WorkloadFormat.GUIDELLM:
            document = _document(text)
            if document is not None and "benchmarks" in document:
                found = read_guidellm_report(document, pool=pool, part=part)
            else:
                found = read_guidellm_trace(lines, pool=pool)
        case WorkloadFormat.OWN:
            found = _own(text, path.name)
    return found, kind


def recognised(text: str, name: str) -> WorkloadFormat:
    """By the first line that is not empty; a trace of GuideLLM looks as Mooncake's does and has to be said. Raises
    `BadRequest`."""
    first = next((line for line in text.split("\n") if line.strip()), "")
    if AZURE_COLUMNS[0] in first.replace('"', "").split(","):
        return WorkloadFormat.AZURE
    try:
        record = json.loads(first)
    except (ValueError, RecursionError):  # A document of several lines.
        record = _document(text)
    if isinstance(record, dict):
        if "benchmarks" in record:
            return WorkloadFormat.GUIDELLM
        if isinstance(record.get("requests"), list):
            return WorkloadFormat.OWN
        if {"metadata", "metrics"} <= record.keys() or _AIPERF & record.keys():
            return WorkloadFormat.AIPERF
        if {"timestamp", "input_length"} <= record.keys():
            return WorkloadFormat.MOONCAKE
    raise BadRequest(
        f"{name}: not recognised as traffic; say --format {', '.join(WorkloadFormat)}. Aggregates and datasets of "
        "prompts hold no arrivals",
        field="file",
    )


def _own(text: str, name: str) -> Workload:
    try:
        found = Workload.model_validate_json(text)
    except ValidationError as error:
        field = ".".join(place_of(error.errors()[0]))
        raise BadRequest(f"{name}: {why(error).removeprefix(': ')}", field=field or "file") from error
    ordered = sorted(found.requests, key=lambda request: request.timestamp)
    return found.model_copy(update={"requests": ordered})


def _document(text: str) -> Mapping[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
