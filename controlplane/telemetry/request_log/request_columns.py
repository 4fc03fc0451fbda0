"""Many requests of the log as columns: their labels as codes, their timings and batches as arrays.

Guarantee: at most `MOST` requests are read, each of the log with the same chance, and how many there were is said. A
request is drawn by its number alone, so that the same question has the same answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Connection, func, select
from sqlmodel import col

from controlplane.contract.metrics import BATCH_FIGURES, PROMPT_BUCKET_EDGES, PROMPT_BUCKETS, CacheClass
from controlplane.telemetry.question import Cost
from controlplane.telemetry.request_log.request_filter import FACETS, TIMED, RequestFilter
from controlplane.telemetry.tables import RequestRow

MOST = 50_000
_SPREAD, _WRAP = 2_654_435_761, 1 << 32
"""Knuth's multiplicative hash (The Art of Computer Programming 3, 6.4): numbers one after the other land far apart."""
_STORED = ("pool", "node", "revision", "model", "tenant", "region", "finish_reason")
_CLASSES = tuple(str(one) for one in CacheClass)

Codes = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Coded:
    """codes: int64[requests], places in `names`."""

    names: Sequence[str]
    codes: Codes

    def among(self, values: Sequence[str]) -> Mask:
        """Which requests have one of these values."""
        return np.isin(self.codes, [place for place, name in enumerate(self.names) if name in values])


@dataclass(frozen=True)
class RequestColumns:
    """found: requests of the log that were asked for; what is here is `len(self)` of them.

    parts (seconds, by metric's short name) and batch are float64[requests], NaN where nobody told; empty unless asked.
    """

    found: int
    labels: Mapping[str, Coded]
    arrival_ns: Codes
    parts: Mapping[str, Floats]
    batch: Mapping[str, Floats]

    def __len__(self) -> int:
        return len(self.arrival_ns)

    def fitting(self, wanted: RequestFilter, but: str | None = None) -> Mask:
        """The requests that the filter's labels let in, that of `but` aside."""
        found = np.ones(len(self), dtype=np.bool_)
        for label, values in wanted.labels.items():
            if label != but:
                found &= self.labels[label].among(values)
        return found


def read_columns(
    connection: Connection,
    conditions: Sequence[ColumnElement[bool]],
    cost: Cost,
    *,
    with_timings: bool = False,
    most: int = MOST,
) -> RequestColumns:
    """The requests that fulfil the conditions. `cost`: each that was found counts as a row."""
    found = connection.execute(select(func.count()).select_from(RequestRow).where(*conditions)).scalar_one()
    cost.read(found)
    names = [*_STORED, "prompt_tokens", "cached_tokens", "arrival_ns"]
    names += ["e2e_s", "parts", "batch"] if with_timings else []
    query = select(*(col(getattr(RequestRow, name)) for name in names)).where(*conditions)
    if found > most:
        # The number is brought within 32 bits first: the product must fit 64.
        drawn = (col(RequestRow.id) % _WRAP) * _SPREAD % _WRAP
        query = query.where(drawn < int(most / found * _WRAP))
    rows = connection.execute(query.limit(most)).all()
    columns: dict[str, Sequence[Any]] = dict(zip(names, zip(*rows, strict=True), strict=True)) if rows else {}
    labels = {label: _coded([str(one) for one in columns.get(label, ())]) for label in _STORED}
    prompt = np.array(columns.get("prompt_tokens", ()), dtype=np.int64)
    labels["prompt_bucket"] = _buckets(prompt)
    labels["cache_class"] = _classes(np.array(columns.get("cached_tokens", ()), dtype=np.int64), prompt)
    parts, batch = ({}, {}) if not with_timings else (_decoded(columns, "parts", TIMED), _decoded(columns, "batch"))
    if with_timings:
        parts["e2e"] = np.array(columns.get("e2e_s", ()), dtype=np.float64)
    arrival = np.array(columns.get("arrival_ns", ()), dtype=np.int64)
    return RequestColumns(found, {label: labels[label] for label in FACETS}, arrival, parts, batch)


def _coded(values: Sequence[str]) -> Coded:
    places: dict[str, int] = {}
    codes = np.fromiter((places.setdefault(one, len(places)) for one in values), dtype=np.int64, count=len(values))
    return Coded(list(places), codes)


def _buckets(prompt_tokens: Codes) -> Coded:
    edges = [edge for edge, _ in PROMPT_BUCKET_EDGES]
    return Coded(PROMPT_BUCKETS, np.searchsorted(edges, prompt_tokens, side="left").astype(np.int64))


def _classes(cached_tokens: Codes, prompt_tokens: Codes) -> Coded:
    found = np.where(2 * cached_tokens >= prompt_tokens, _CLASSES.index("hit"), _CLASSES.index("partial"))
    return Coded(_CLASSES, np.where(cached_tokens <= 0, _CLASSES.index("miss"), found).astype(np.int64))


def _decoded(columns: Mapping[str, Sequence[Any]], name: str, keys: Sequence[str] = BATCH_FIGURES) -> dict[str, Floats]:
    told = [orjson.loads(one) for one in columns.get(name, ())]
    return {key: np.array([one.get(key, np.nan) for one in told], dtype=np.float64) for key in keys}
