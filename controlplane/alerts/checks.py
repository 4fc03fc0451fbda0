"""Checks of what a person may write in a rule, a destination or a silence: each error names its field and the mend."""

from collections.abc import Iterable
from datetime import datetime
from urllib.parse import urlsplit

import httpx

from controlplane.contract.bodies.alerts import (
    AbsoluteCondition,
    AlertRuleCreate,
    DestinationCreate,
    RegressionCondition,
    SilenceCreate,
)
from controlplane.contract.errors import BadRequest, nearest
from controlplane.contract.metrics import METRICS, MetricKind

HISTOGRAMS = [metric.short for metric in METRICS if metric.kind is MetricKind.HISTOGRAM]


def check_rule(wanted: AlertRuleCreate) -> None:
    """Raises `BadRequest` for what the types alone cannot refuse."""
    condition = wanted.condition
    if isinstance(condition, AbsoluteCondition):
        if not condition.limits and condition.profile is None:
            raise BadRequest(
                "condition.limits: give at least one limit, or a condition.profile that has some",
                field="condition.limits",
            )
        _check_metrics(
            (f"condition.limits[{place}].metric", limit.metric) for place, limit in enumerate(condition.limits)
        )
        _check_unique("condition.limits", [f"{limit.metric} at {limit.q:g}" for limit in condition.limits])
    elif isinstance(condition, RegressionCondition):
        if not condition.metrics:
            raise BadRequest("condition.metrics: name at least one metric", field="condition.metrics")
        if not condition.q:
            raise BadRequest("condition.q: name at least one quantile, as in [0.95, 0.99]", field="condition.q")
        for place, q in enumerate(condition.q):
            if not 0.5 <= q < 1.0:
                field = f"condition.q[{place}]"
                raise BadRequest(f"{field}: {q:g} is not a tail quantile; use 0.5 to below 1", field=field)
        _check_metrics((f"condition.metrics[{place}]", metric) for place, metric in enumerate(condition.metrics))
        _check_unique("condition.metrics", condition.metrics)
        _check_unique("condition.q", [f"{q:g}" for q in condition.q])


def _check_metrics(named: Iterable[tuple[str, str]]) -> None:
    for field, metric in named:
        if metric not in HISTOGRAMS:
            raise BadRequest(f"{field}: no latency metric {metric!r}, {nearest(metric, HISTOGRAMS)}", field=field)


def _check_unique(field: str, names: list[str]) -> None:
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise BadRequest(f"{field}: {twice} is there twice; name it once", field=field)


def check_destination(wanted: DestinationCreate) -> None:
    """A URL that cannot be called is refused here; an empty secret would look signed and protect nothing."""
    try:
        host = urlsplit(wanted.url).hostname and httpx.URL(wanted.url).host
    except (httpx.InvalidURL, ValueError):
        host = ""
    if not host:
        raise BadRequest(f"url: {wanted.url!r} is not a URL with a host, as in https://example.org/hook", field="url")
    if wanted.secret is not None and len(wanted.secret) < 8:
        raise BadRequest("secret: at least 8 characters, or null for unsigned deliveries", field="secret")


def check_silence(wanted: SilenceCreate, now: datetime) -> None:
    if wanted.ends_at.tzinfo is None:
        raise BadRequest("ends_at: give a timezone, as in 2030-01-01T00:00:00Z", field="ends_at")
    if wanted.ends_at <= now:
        raise BadRequest(f"ends_at: {wanted.ends_at.isoformat()} is not in the future", field="ends_at")
