"""Telemetry: reports sent; quantiles, rates, shares, scalars and heat maps, once or as a stream; requests and files."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any

import httpx

from controlplane.client import stream
from controlplane.client.connection import Connection, M, query_of, segment
from controlplane.client.raised_errors import raise_for_error
from controlplane.client.stream import Streamed
from controlplane.contract.bodies.explanation import CompareAnswer, ExplainAnswer
from controlplane.contract.bodies.pages import Page
from controlplane.contract.bodies.request_log import RequestDetail, RequestFacets
from controlplane.contract.bodies.telemetry import (
    Exemplar,
    HeatmapAnswer,
    NodeFigures,
    QuantilesAnswer,
    RatesAnswer,
    ScalarsAnswer,
    SharesAnswer,
)
from controlplane.contract.bodies.workload import RequestRecord, Workload

CONNECT_TIMEOUT_S = 10.0
Wanted = str | Sequence[str] | None
"""A label's value, or several of which any will do; None: whatever it is."""


class TelemetryCalls(Connection):
    """What is measured, summed up, one by one, and in whole files.

    Sums take a span (`window` or `start` and `end`), `by` to split the answer, `top` for at most so many series, and
    labels to filter it. An answer's `left_out` says what is not in it.
    """

    def send_report(self, path: str, body: bytes, headers: Mapping[str, str]) -> httpx.Response:
        """POST telemetry (`/v1/metrics`, `/v1/traces`) as it is; the answer when it has been kept."""
        answer = self._http.post(path, content=body, headers=dict(headers))
        raise_for_error(answer)
        return answer

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
        top: int | None = None,
        **labels: Wanted,
    ) -> QuantilesAnswer:
        """Quantiles of a histogram metric by its short name; labels filter (node="a", revision="3")."""
        given = {"metric": metric, "q": q, "window": window, "start": start, "end": end, "step": step, "top": top}
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
        top: int | None = None,
        **labels: Wanted,
    ) -> ScalarsAnswer:
        """Gauges and sums by their short name."""
        given = {"metric": metric, "window": window, "start": start, "end": end, "step": step, "top": top}
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
        top: int | None = None,
        **labels: Wanted,
    ) -> RatesAnswer:
        """What a sum, or the count of a histogram, grew by in a second."""
        given = {"metric": metric, "window": window, "start": start, "end": end, "step": step, "top": top}
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
        top: int | None = None,
        **labels: Wanted,
    ) -> SharesAnswer:
        """Each component's share of e2e; with `above`, the share of `metric`'s values (e2e's) above so many seconds."""
        given = {
            "metric": metric,
            "above": above,
            "window": window,
            "start": start,
            "end": end,
            "step": step,
            "top": top,
        }
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
        top: int | None = None,
        **labels: Wanted,
    ) -> HeatmapAnswer:
        """How many values lie in each row of the axis at each step."""
        given = {"metric": metric, "rows": rows, "window": window, "start": start, "end": end, "step": step, "top": top}
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

    def node_figures(
        self,
        *,
        window: str | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
        **labels: str | None,
    ) -> NodeFigures:
        """What each node measured over a span, as columns."""
        return self._one(
            NodeFigures, "GET", "/api/v1/node-figures", params={"window": window, "start": start, "end": end, **labels}
        )

    def exemplars(self, metric: str = "ttft", **params: Any) -> Page[Exemplar]:
        """The slowest requests with their waterfalls; params: pool, node, prompt_bucket, window, start, end, above."""
        return self._page(Exemplar, "/api/v1/exemplars", metric=metric, **params)

    def workload(self, pool: str, *, start: datetime, end: datetime) -> Workload:
        return self._one(Workload, "GET", "/api/v1/workload", params={"pool": pool, "start": start, "end": end})

    def requests(self, **params: Any) -> Page[RequestRecord]:
        """Finished requests with waterfalls.

        params: window, start, end, timed_by (arrival, completion), request_id, limit, order (slowest, newest), labels
        (a list: any of several), metric with low and high (seconds).
        """
        return self._page(RequestRecord, "/api/v1/requests", **params)

    def request(self, request_id: str, *, node: str | None = None, arrival: datetime | None = None) -> RequestDetail:
        """One request, who shared the engine with it, and what is usual; of several of one id the newest.

        Raises `NotFound` when neither the log nor the exemplars have it.
        """
        path = f"/api/v1/requests/{segment(request_id)}"
        return self._one(RequestDetail, "GET", path, params={"node": node, "arrival": arrival})

    def request_facets(self, **params: Any) -> RequestFacets:
        """How many requests each value of each label has; params as those of `requests`, but for pages and order."""
        return self._one(RequestFacets, "GET", "/api/v1/request-facets", params=params)

    def explain(self, metric: str = "ttft", **params: Any) -> ExplainAnswer:
        """What tells the requests in a box from others; params: low, high (seconds), window, start, end, against (span,
        before), labels (a list: any of several)."""
        return self._one(ExplainAnswer, "GET", "/api/v1/explain", params={"metric": metric, **params})

    def compare(self, metric: str = "ttft", **params: Any) -> CompareAnswer:
        """Quantiles of two sides with their difference; params: q, level, window, start, end, labels, and of side b,
        which is side a but for these, b_start, b_end and b_ with a label (b_revision=3)."""
        return self._one(CompareAnswer, "GET", "/api/v1/compare", params={"metric": metric, **params})

    def export(self, *, read_timeout_s: float = 120.0, **params: Any) -> Iterator[bytes]:
        """A CSV or Parquet file as it comes; params as GET /api/v1/export takes them. A broken transfer raises."""
        timeout = httpx.Timeout(CONNECT_TIMEOUT_S, read=read_timeout_s)
        with self._http.stream("GET", "/api/v1/export", params=query_of(params), timeout=timeout) as response:
            if not response.is_success:
                response.read()
            raise_for_error(response)
            yield from response.iter_bytes()

    def _answer(
        self, model: type[M], name: str, given: Mapping[str, Any], by: Sequence[str], labels: Mapping[str, Wanted]
    ) -> M:
        return self._one(model, "GET", f"/api/v1/{name}", params={**given, "by": by or None, **labels})
