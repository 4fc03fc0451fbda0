"""Answers of the telemetry API. Absent data is absent, never zero."""

from datetime import datetime

from pydantic import BaseModel

from controlplane.contract.histogram import RELATIVE_ERROR


class QuantilePoint(BaseModel):
    """One step of a series: requests (or tokens) counted, and their quantiles, keyed as asked ("0.99")."""

    time: datetime
    count: int
    quantiles: dict[str, float]


class QuantileSeries(BaseModel):
    labels: dict[str, str]
    count: int
    mean: float | None = None
    relative_error: float = RELATIVE_ERROR  # Of its quantiles; larger where a sender's own buckets were coarser.
    quantiles: dict[str, float]
    points: list[QuantilePoint] | None = None  # With ?step= only.


class QuantilesAnswer(BaseModel):
    """`GET /api/v1/quantiles`. `relative_error` is the largest of all series."""

    metric: str
    unit: str
    start: datetime
    end: datetime
    relative_error: float
    series: list[QuantileSeries]


class ScalarPoint(BaseModel):
    time: datetime
    value: float


class ScalarSeries(BaseModel):
    """A gauge (last value) or a sum (total over the window, and per second)."""

    labels: dict[str, str]
    value: float
    per_second: float | None = None
    points: list[ScalarPoint] | None = None


class ScalarsAnswer(BaseModel):
    """`GET /api/v1/scalars`: gauges and sums."""

    metric: str
    unit: str
    kind: str
    start: datetime
    end: datetime
    series: list[ScalarSeries]
