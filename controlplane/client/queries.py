"""Questions about what the fleet measured: quantiles, rates, shares, scalars, heat maps; once, or as a stream."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any

import httpx

from controlplane.client import stream
from controlplane.client.connection import Connection, M, query_of
from controlplane.client.raised_errors import raise_for_error
from controlplane.client.stream import Streamed
from controlplane.contract.bodies.telemetry import (
    HeatmapAnswer,
    QuantilesAnswer,
    RatesAnswer,
    ScalarsAnswer,
    SharesAnswer,
)


class QueryCalls(Connection):
    """All take a span (`window` or `start` and `end`), `by` to split the answer, and labels to filter it."""

    def quantiles(
        self,
        metric: str,
        q: Sequence[float] = (0.5, 0.95, 0.99),
        *,
        window: str | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
        step: str | None = None,
        by: Sequence[str] = (),
        **labels: str | None,
    ) -> QuantilesAnswer:
        """Quantiles of a histogram metric by its short name; labels filter (node="a", revision="3")."""
        given = {"metric": metric, "q": q, "window": window, "start": start, "end": end, "step": step}
        return self._answer(QuantilesAnswer, "quantiles", given, by, labels)

    def scalars(
        self,
        metric: str,
        *,
        window: str | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
        step: str | None = None,
        by: Sequence[str] = (),
        **labels: str | None,
    ) -> ScalarsAnswer:
        """Gauges and sums by their short name."""
        given = {"metric": metric, "window": window, "start": start, "end": end, "step": step}
        return self._answer(ScalarsAnswer, "scalars", given, by, labels)

    def rates(
        self,
        metric: str,
        *,
        window: str | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
        step: str | None = None,
        by: Sequence[str] = (),
        **labels: str | None,
    ) -> RatesAnswer:
        """What a sum, or the count of a histogram, grew by in a second."""
        given = {"metric": metric, "window": window, "start": start, "end": end, "step": step}
        return self._answer(RatesAnswer, "rates", given, by, labels)

    def shares(
        self,
        *,
        above: float | None = None,
        metric: str | None = None,
        window: str | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
        step: str | None = None,
        by: Sequence[str] = (),
        **labels: str | None,
    ) -> SharesAnswer:
        """Each component's share of e2e; with `above`, the share of `metric`'s values (e2e's) above so many seconds."""
        given = {"metric": metric, "above": above, "window": window, "start": start, "end": end, "step": step}
        return self._answer(SharesAnswer, "shares", given, by, labels)

    def heatmap(
        self,
        metric: str,
        step: str,
        *,
        rows: int | None = None,
        window: str | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
        by: Sequence[str] = (),
        **labels: str | None,
    ) -> HeatmapAnswer:
        """How many values lie in each row of the axis at each step."""
        given = {"metric": metric, "rows": rows, "window": window, "start": start, "end": end, "step": step}
        return self._answer(HeatmapAnswer, "heatmap", given, by, labels)

    def stream(
        self,
        query: str,
        metric: str | None = None,
        *,
        window: str | None = None,
        step: str | None = None,
        by: Sequence[str] = (),
        last_id: str = "",
        **more: Any,
    ) -> Iterator[Streamed]:
        """The answer of a query ("quantiles", "rates", "shares") anew for each complete window.

        `more`: q, above, labels. It goes on for ever, across lost connections: leave it with `break`, or close it.
        """
        given = {"query": query, "metric": metric, "window": window, "step": step, "by": by or None, **more}
        params = query_of(given)
        timeout = httpx.Timeout(self._http.timeout.connect, read=stream.SILENCE_S)

        def open_stream(headers: Mapping[str, str]) -> AbstractContextManager[httpx.Response]:
            return self._http.stream("GET", "/api/v1/stream", params=params, headers=dict(headers), timeout=timeout)

        return stream.follow(open_stream, raise_for_error, last_id=last_id)

    def _answer(
        self, model: type[M], name: str, given: Mapping[str, Any], by: Sequence[str], labels: Mapping[str, str | None]
    ) -> M:
        return self._one(model, "GET", f"/api/v1/{name}", params={**given, "by": by or None, **labels})
