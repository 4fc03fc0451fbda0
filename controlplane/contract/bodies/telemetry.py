"""Answers of the telemetry API. Absent data is absent, never zero."""

from datetime import datetime

from pydantic import BaseModel, Field

from controlplane.contract.histogram import RELATIVE_ERROR


class SeriesLeftOut(BaseModel):
    """An answer has at most so many series (`--query-max-series`, and `top` of the query): the others are not in it."""

    series: int = Field(description="how many are not in the answer")
    mend: str = Field(description="which were kept, and how to get at the others")


_LEFT_OUT = "series beyond the most that an answer has; null: all are here"


class QuantilePoint(BaseModel):
    """One step of a series: requests (or tokens) counted, and their quantiles, keyed as asked ("0.99")."""

    time: datetime = Field(description="the step's start")
    count: int = Field(description="values in the step")
    quantiles: dict[str, float] = Field(description='by quantile as asked, e.g. "0.99"; in the answer\'s unit')


class QuantileSeries(BaseModel):
    """Quantiles of one set of labels over the whole span, and by step."""

    labels: dict[str, str] = Field(description="the labels asked for with `by`")
    count: int = Field(description="values in the span")
    mean: float | None = Field(default=None, description="their mean, in the answer's unit")
    relative_error: float = Field(
        default=RELATIVE_ERROR, description="of its quantiles; larger where a sender's own buckets were coarser"
    )
    quantiles: dict[str, float] = Field(description='by quantile as asked, e.g. "0.99"; in the answer\'s unit')
    points: list[QuantilePoint] | None = Field(
        default=None, description="one for each step that has data; null without `step`"
    )


class QuantilesAnswer(BaseModel):
    """`GET /api/v1/quantiles`. `relative_error` is the largest of all series."""

    metric: str = Field(description="short name")
    unit: str = Field(description="of its values, as UCUM: `s`, `{token}` ...")
    start: datetime = Field(description="the span's start")
    end: datetime = Field(description="the span's end")
    relative_error: float = Field(description="the largest of all series")
    series: list[QuantileSeries] = Field(description="one for each set of labels that has data")
    left_out: SeriesLeftOut | None = Field(default=None, description=_LEFT_OUT)


class ScalarPoint(BaseModel):
    """One step of a gauge or a sum."""

    time: datetime = Field(description="the step's start")
    value: float = Field(description="the last value of a gauge, the total of a sum")


class ScalarSeries(BaseModel):
    """A gauge (last value) or a sum (total over the window, and per second)."""

    labels: dict[str, str] = Field(description="the labels asked for with `by`")
    value: float = Field(description="the last value of a gauge, the total of a sum")
    per_second: float | None = Field(
        default=None, description="of a sum: its total by the span's seconds; null for a gauge"
    )
    points: list[ScalarPoint] | None = Field(
        default=None, description="one for each step that has data; null without `step`"
    )


class ScalarsAnswer(BaseModel):
    """`GET /api/v1/scalars`: gauges and sums."""

    metric: str = Field(description="short name")
    unit: str = Field(description="of its values, as UCUM")
    kind: str = Field(description="`sum` or `gauge`")
    start: datetime = Field(description="the span's start")
    end: datetime = Field(description="the span's end")
    series: list[ScalarSeries] = Field(description="one for each set of labels that has data")
    left_out: SeriesLeftOut | None = Field(default=None, description=_LEFT_OUT)


class RatePoint(BaseModel):
    """One step of a rate. `seconds` of it hold complete windows of data: what `per_second` was divided by."""

    time: datetime = Field(description="the step's start")
    total: float = Field(description="what it grew by in the step")
    seconds: float = Field(description="seconds of the step that hold complete windows of data")
    per_second: float = Field(description="total / seconds")
    requests: int | None = Field(
        default=None, description="finished requests of the step; null where no node counted them"
    )


class RateSeries(BaseModel):
    """`requests`: finished requests of the same group and span; None where no node counted them."""

    labels: dict[str, str] = Field(description="the labels asked for with `by`")
    total: float = Field(description="what it grew by in the span")
    seconds: float = Field(description="seconds of the span that hold complete windows of data")
    per_second: float = Field(description="total / seconds")
    requests: int | None = Field(
        default=None, description="finished requests of the span; null where no node counted them"
    )
    points: list[RatePoint] | None = Field(
        default=None, description="one for each step that has data; null without `step`"
    )


class RatesAnswer(BaseModel):
    """`GET /api/v1/rates`: what a sum (or a histogram's count) grew by in a second.

    Totals are exact. `start` and `end` are those of the windows that were divided by: whole ones, up to the newest with
    data.
    """

    metric: str = Field(description="short name")
    unit: str = Field(description="of its values, as UCUM")
    start: datetime = Field(description="start of the first window that was divided by")
    end: datetime = Field(description="end of the last window that was divided by")
    relative_error: float = Field(default=0.0, description="0: totals are exact")
    series: list[RateSeries] = Field(description="one for each set of labels that has data")
    left_out: SeriesLeftOut | None = Field(default=None, description=_LEFT_OUT)


class Above(BaseModel):
    """Of `count` values, those above the answer's threshold. `error`: at most so far off (0: exact)."""

    count: int = Field(description="values looked at")
    above: int = Field(description="those above the threshold")
    share: float = Field(description="above / count")
    error: float = Field(default=0.0, description="how far off the share is at most; 0: exact")


class Threshold(BaseModel):
    """Shares above are exact at edges of buckets: `edge` is the nearest to what was asked, and the one used."""

    metric: str = Field(description="short name of the histogram it lies in")
    asked: float = Field(description="as asked, seconds")
    edge: float = Field(description="the nearest bucket edge, seconds: the one that was used")


class SharePoint(BaseModel):
    """One step of the shares."""

    time: datetime = Field(description="the step's start")
    requests: int = Field(description="finished requests of the step")
    e2e_s: float = Field(description="seconds that they took together")
    shares: dict[str, float] = Field(description="by component; with `unaccounted` they add up to 1 but for `error`")
    error: float = Field(description="what the shares miss 1 by, all together")
    above: Above | None = Field(
        default=None, description="the share of values above the threshold; null without `above`"
    )


class ShareSeries(BaseModel):
    """Each component's share of the time that requests took: its sum / the sum of e2e.

    A component that nobody told is left out. `counts` are the values behind each; where they differ from `requests`,
    some nodes do not tell that component. `error` is what the shares miss 1 by, all together.
    """

    labels: dict[str, str] = Field(description="the labels asked for with `by`")
    requests: int = Field(description="finished requests of the span")
    e2e_s: float = Field(description="seconds that they took together")
    shares: dict[str, float] = Field(description="by component; with `unaccounted` they add up to 1 but for `error`")
    counts: dict[str, int] = Field(description="values behind each component")
    error: float = Field(description="what the shares miss 1 by, all together")
    above: Above | None = Field(
        default=None, description="the share of values above the threshold; null without `above`"
    )
    points: list[SharePoint] | None = Field(
        default=None, description="one for each step that has data; null without `step`"
    )


class SharesAnswer(BaseModel):
    """`GET /api/v1/shares`. `error` is the largest of all series; `threshold` with ?above= only."""

    start: datetime = Field(description="the span's start")
    end: datetime = Field(description="the span's end")
    error: float = Field(description="the largest of all series")
    threshold: Threshold | None = Field(default=None, description="where `above` was moved to; null without `above`")
    series: list[ShareSeries] = Field(description="one for each set of labels that has data")
    left_out: SeriesLeftOut | None = Field(default=None, description=_LEFT_OUT)


class HeatmapColumn(BaseModel):
    """One step that has data: how many values lie in each row."""

    time: datetime = Field(description="the step's start")
    count: int = Field(description="values in the step")
    counts: list[int] = Field(description="values in each row, from the lowest row up")


class HeatmapSeries(BaseModel):
    """The columns of one set of labels."""

    labels: dict[str, str] = Field(description="the labels asked for with `by`")
    count: int = Field(description="values in the span")
    relative_error: float = Field(
        default=RELATIVE_ERROR,
        description="how far off a value's row may be; larger where a sender's own buckets were coarser",
    )
    columns: list[HeatmapColumn] = Field(description="one for each step that has data")


class HeatmapAnswer(BaseModel):
    """`GET /api/v1/heatmap`: row i of every column counts the values in (edges[i], edges[i + 1]]. Counts are exact.

    `rows_per_doubling` is the resolution: each row is 2 ** (1 / rows_per_doubling) times as high as the one below it. A
    first row from 0 holds what is too small for the axis. A `relative_error` above the axis's own says that some
    sender's buckets were wider than these rows, and by how much a value may be in another one.
    """

    metric: str = Field(description="short name")
    unit: str = Field(description="of its values, as UCUM")
    start: datetime = Field(description="the span's start")
    end: datetime = Field(description="the span's end")
    step_s: float = Field(description="seconds of a column")
    rows_per_doubling: int = Field(description="rows that a doubling of the value is cut into")
    relative_error: float = Field(description="the largest of all series")
    edges: list[float] = Field(description="the rows' edges, one more than there are rows, in the answer's unit")
    series: list[HeatmapSeries] = Field(description="one for each set of labels that has data")
    left_out: SeriesLeftOut | None = Field(default=None, description=_LEFT_OUT)


class Exemplar(BaseModel):
    """One of the slowest requests of its pool, prompt bucket and minute, with its whole waterfall.

    `parts` is empty, and what the sender did not tell is empty or None, for an exemplar that came on another sender's
    histogram. `batch` is what the engine ran when the first token came, and its peaks while the request was there.
    """

    metric: str = Field(description="short name of the histogram it stands in")
    value: float = Field(description="its value there, seconds")
    time: datetime = Field(description="when it finished")
    pool: str = Field(description="the pool that served it")
    prompt_bucket: str = Field(description="its bucket of prompt lengths")
    node: str = Field(description="the node that served it")
    model: str = Field(description="the model that served it")
    revision: int = Field(description="the configuration revision that served it")
    trace_id: str = Field(description="its trace, hexadecimal; empty: not told")
    request_id: str = Field(description="its id; empty: not told")
    arrival: datetime | None = Field(default=None, description="when it arrived")
    prompt_tokens: int | None = Field(default=None, description="tokens of its prompt")
    cached_tokens: int | None = Field(default=None, description="tokens of its prompt found in the prefix cache")
    output_tokens: int | None = Field(default=None, description="tokens generated")
    finish_reason: str = Field(default="", description="why it ended; empty: not told")
    parts: dict[str, float] = Field(default={}, description="its waterfall: seconds by component")
    batch: dict[str, float] = Field(
        default={}, description="what the engine ran when its first token came, and `peak_*` while it was there"
    )


class NodeFigures(BaseModel):
    """`GET /api/v1/node-figures`: what nodes measured over a span, as columns of equal length. null: told nothing."""

    start: datetime = Field(description="the span's start")
    end: datetime = Field(description="the span's end")
    node: list[str] = Field(description="every node with data in the span, by name, rising")
    region: list[str] = Field(description="the region that most of its requests tell; empty: not told")
    requests: list[int] = Field(description="requests with a first token in the span")
    ttft_p99: list[float | None] = Field(description="99 of 100 first tokens came within so many seconds")
    kv_usage: list[float | None] = Field(description="share of its KV-cache blocks in use, newest")
    running: list[float | None] = Field(description="requests running, newest")
    waiting: list[float | None] = Field(description="requests waiting, newest")
    host_pressure: list[float | None] = Field(
        description="share of time in which something waited for CPU, memory or I/O: the largest of the three, newest"
    )
