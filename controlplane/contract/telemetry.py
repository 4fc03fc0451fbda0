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


class RatePoint(BaseModel):
    """One step of a rate. `seconds` of it hold complete windows of data: what `per_second` was divided by."""

    time: datetime
    total: float
    seconds: float
    per_second: float
    requests: int | None = None


class RateSeries(BaseModel):
    """`requests`: finished requests of the same group and span; None where no node counted them."""

    labels: dict[str, str]
    total: float
    seconds: float
    per_second: float
    requests: int | None = None
    points: list[RatePoint] | None = None


class RatesAnswer(BaseModel):
    """`GET /api/v1/rates`: what a sum (or a histogram's count) grew by in a second.

    Totals are exact. `start` and `end` are those of the windows that were divided by: whole ones, up to the newest with
    data.
    """

    metric: str
    unit: str
    start: datetime
    end: datetime
    relative_error: float = 0.0
    series: list[RateSeries]


class Above(BaseModel):
    """Of `count` values, those above the answer's threshold. `error`: at most so far off (0: exact)."""

    count: int
    above: int
    share: float
    error: float = 0.0


class Threshold(BaseModel):
    """Shares above are exact at edges of buckets: `edge` is the nearest to what was asked, and the one used."""

    metric: str
    asked: float
    edge: float


class SharePoint(BaseModel):
    time: datetime
    requests: int
    e2e_s: float
    shares: dict[str, float]
    error: float
    above: Above | None = None


class ShareSeries(BaseModel):
    """Each component's share of the time that requests took: its sum / the sum of e2e.

    A component that nobody told is left out. `counts` are the values behind each; where they differ from `requests`,
    some nodes do not tell that component. `error` is what the shares miss 1 by, all together.
    """

    labels: dict[str, str]
    requests: int
    e2e_s: float
    shares: dict[str, float]
    counts: dict[str, int]
    error: float
    above: Above | None = None
    points: list[SharePoint] | None = None


class SharesAnswer(BaseModel):
    """`GET /api/v1/shares`. `error` is the largest of all series; `threshold` with ?above= only."""

    start: datetime
    end: datetime
    error: float
    threshold: Threshold | None = None
    series: list[ShareSeries]


class HeatmapColumn(BaseModel):
    """One step that has data: how many values lie in each row."""

    time: datetime
    count: int
    counts: list[int]


class HeatmapSeries(BaseModel):
    labels: dict[str, str]
    count: int
    relative_error: float = RELATIVE_ERROR
    columns: list[HeatmapColumn]


class HeatmapAnswer(BaseModel):
    """`GET /api/v1/heatmap`: row i of every column counts the values in (edges[i], edges[i + 1]]. Counts are exact.

    `rows_per_doubling` is the resolution: each row is 2 ** (1 / rows_per_doubling) times as high as the one below it. A
    first row from 0 holds what is too small for the axis. A `relative_error` above the axis's own says that some
    sender's buckets were wider than these rows, and by how much a value may be in another one.
    """

    metric: str
    unit: str
    start: datetime
    end: datetime
    step_s: float
    rows_per_doubling: int
    relative_error: float
    edges: list[float]
    series: list[HeatmapSeries]


class Exemplar(BaseModel):
    """One of the slowest requests of its pool, prompt bucket and minute, with its whole waterfall.

    `parts` is empty, and what the sender did not tell is empty or None, for an exemplar that came on another sender's
    histogram. `batch` is what the engine ran when the first token came, and its peaks while the request was there.
    """

    metric: str
    value: float
    time: datetime
    pool: str
    prompt_bucket: str
    node: str
    model: str
    revision: int
    trace_id: str
    request_id: str
    arrival: datetime | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    finish_reason: str = ""
    parts: dict[str, float] = {}
    batch: dict[str, float] = {}
