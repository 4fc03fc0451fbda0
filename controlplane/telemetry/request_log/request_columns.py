"""Many requests of the log as columns: their labels as codes, their timings and batches as arrays.

Guarantee: at most `MOST` requests are read, each of the log with the same chance, and how many there were is said. A
request is drawn by its number alone, so that the same question has the same answer.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Connection, func, select
from sqlmodel import col

from controlplane.contract.metrics import BATCH_FIGURES, E2E, PROMPT_BUCKET_EDGES, PROMPT_BUCKETS, CacheClass
from controlplane.telemetry.question import Cost
from controlplane.telemetry.request_log.request_filter import FACETS, TIMED, RequestFilter
from controlplane.telemetry.tables import RequestRow

MOST = 50_000
OUTPUT = "output_tokens"
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

    parts (seconds, by metric's short name) and figures (output_tokens, and the batch at the first token) are
    float64[requests], NaN where nobody told; empty unless asked for.
    """

    found: int
    labels: Mapping[str, Coded]
    arrival_ns: Codes
    parts: Mapping[str, Floats]
    figures: Mapping[str, Floats]

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
    names = [*_STORED, "prompt_tokens", "cached_tokens", "arrival_ns"]
    names += ["e2e_s", OUTPUT, "parts", "batch"] if with_timings else []
    query = select(*(col(getattr(RequestRow, name)) for name in names)).where(*conditions)
    rows = connection.execute(query.limit(most + 1)).all()
    found = len(rows)
    if found > most:
        found = connection.execute(select(func.count()).select_from(RequestRow).where(*conditions)).scalar_one()
        # The number is brought within 31 bits first: the product must fit 63.
        drawn = (col(RequestRow.id) % (_WRAP // 2)) * _SPREAD % _WRAP
        # A little fewer than there is room for, so that the limit, which is of the oldest, cuts none off.
        rows = connection.execute(query.where(drawn < int(0.98 * most / found * _WRAP)).limit(most)).all()
    cost.read(found)
    columns: dict[str, Sequence[Any]] = dict(zip(names, zip(*rows, strict=True), strict=True)) if rows else {}
    labels = {label: _coded(columns.get(label, ())) for label in _STORED}
    prompt = np.array(columns.get("prompt_tokens", ()), dtype=np.int64)
    labels["prompt_bucket"] = _buckets(prompt)
    labels["cache_class"] = _classes(np.array(columns.get("cached_tokens", ()), dtype=np.int64), prompt)
    parts: dict[str, Floats] = {}
    figures: dict[str, Floats] = {}
    if with_timings:
        parts = _decoded(columns, "parts", TIMED)
        parts[E2E.short] = np.array(columns.get("e2e_s", ()), dtype=np.float64)
        figures = {OUTPUT: np.array(columns.get(OUTPUT, ()), dtype=np.float64)}
        figures |= _decoded(columns, "batch", BATCH_FIGURES)
    arrival = np.array(columns.get("arrival_ns", ()), dtype=np.int64)
    return RequestColumns(found, {label: labels[label] for label in FACETS}, arrival, parts, figures)


def joined(one: RequestColumns, other: RequestColumns) -> RequestColumns:
    """The requests of both, one's first."""
    return RequestColumns(
        one.found + other.found,
        {label: _both(coded, other.labels[label]) for label, coded in one.labels.items()},
        np.concatenate([one.arrival_ns, other.arrival_ns]),
        {name: np.concatenate([values, other.parts[name]]) for name, values in one.parts.items()},
        {name: np.concatenate([values, other.figures[name]]) for name, values in one.figures.items()},
    )


def _both(one: Coded, other: Coded) -> Coded:
    places = {name: place for place, name in enumerate(dict.fromkeys([*one.names, *other.names]))}
    moved = np.array([places[name] for name in other.names], dtype=np.int64)
    return Coded(list(places), np.concatenate([one.codes, moved[other.codes] if len(other.codes) else other.codes]))


def _coded(values: Sequence[str | int]) -> Coded:
    places: defaultdict[str | int, int] = defaultdict(count().__next__)
    codes = np.array([places[one] for one in values], dtype=np.int64)
    return Coded([str(one) for one in places], codes)


def _buckets(prompt_tokens: Codes) -> Coded:
    edges = [edge for edge, _ in PROMPT_BUCKET_EDGES]
    return Coded(PROMPT_BUCKETS, np.searchsorted(edges, prompt_tokens, side="left").astype(np.int64))


def _classes(cached_tokens: Codes, prompt_tokens: Codes) -> Coded:
    found = np.where(2 * cached_tokens >= prompt_tokens, _CLASSES.index("hit"), _CLASSES.index("partial"))
    return Coded(_CLASSES, np.where(cached_tokens <= 0, _CLASSES.index("miss"), found).astype(np.int64))


def _decoded(columns: Mapping[str, Sequence[Any]], name: str, keys: Sequence[str]) -> dict[str, Floats]:
    # One document of all is read sooner than each by itself.
    told = orjson.loads(b"[" + b",".join(columns.get(name, ())) + b"]")
    return {key: np.array([one.get(key, np.nan) for one in told], dtype=np.float64) for key in keys}
