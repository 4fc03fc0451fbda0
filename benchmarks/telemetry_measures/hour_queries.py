"""The same question to the service and to Prometheus, about the loaded hour; times are Unix seconds."""

from datetime import UTC, datetime

from benchmarks.telemetry_measures.loaded_hour import METRIC, LoadedHour
from benchmarks.telemetry_measures.openmetrics import NAME

Q = 0.99


def moment(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)


def ours(hour: LoadedHour, start: float, end: float, by: str = "", q: float = Q) -> dict[str, float]:
    """The quantile by the label's value ("" for all together)."""
    answer = hour.service.client.quantiles(
        METRIC.short, (q,), start=moment(start), end=moment(end), by=(by,) if by else ()
    )
    return {series.labels.get(by, ""): series.quantiles[f"{q:g}"] for series in answer.series}


def our_series(hour: LoadedHour, start: float, end: float, step: str = "10s") -> list[float]:
    answer = hour.service.client.quantiles(METRIC.short, (Q,), start=moment(start), end=moment(end), step=step)
    return [point.quantiles[f"{Q:g}"] for point in (answer.series[0].points or [])] if answer.series else []


def theirs(hour: LoadedHour, start: float, end: float, by: str = "", q: float = Q) -> dict[str, float]:
    assert hour.rival is not None
    labels = f"le, {by}" if by else "le"
    expression = f"histogram_quantile({q}, sum by ({labels}) (increase({NAME}_bucket[{end - start:.0f}s])))"
    return {
        one["metric"].get(by, "") if by else "": float(one["value"][1]) for one in hour.rival.query(expression, end)
    }


def their_series(hour: LoadedHour, start: float, end: float, step_s: float = 10.0) -> list[float]:
    """Each step looks back over itself, two scrapes: the least that `increase` can work with."""
    assert hour.rival is not None
    expression = f"histogram_quantile({Q}, sum by (le) (increase({NAME}_bucket[{step_s:.0f}s])))"
    found = hour.rival.query_range(expression, start + step_s, end, step_s)
    return [float(value) for _, value in found[0]["values"]] if found else []
