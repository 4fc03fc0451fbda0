"""Telemetry itself: reports sent, and requests, exemplars, workloads and exports read."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import httpx

from controlplane.client.connection import Connection, query_text
from controlplane.client.raised_errors import raise_for_error
from controlplane.contract.bodies.pages import Page
from controlplane.contract.bodies.telemetry import Exemplar
from controlplane.contract.bodies.workload import RequestRecord, Workload
from controlplane.contract.metrics import LABELS

CONNECT_TIMEOUT_S = 10.0


class TelemetryCalls(Connection):
    """What is measured, one by one and in whole files."""

    def send_report(self, path: str, body: bytes, headers: Mapping[str, str]) -> httpx.Response:
        """POST telemetry (`/v1/metrics`, `/v1/traces`) as it is; the answer when it has been kept."""
        answer = self._http.post(path, content=body, headers=dict(headers))
        raise_for_error(answer)
        return answer

    def exemplars(self, metric: str = "ttft", **params: Any) -> Page[Exemplar]:
        """The slowest requests with their waterfalls; params: pool, node, prompt_bucket, window, start, end, above."""
        return self._page(Exemplar, "/api/v1/exemplars", metric=metric, **params)

    def workload(self, pool: str, *, start: datetime, end: datetime) -> Workload:
        return self._one(Workload, "GET", "/api/v1/workload", params={"pool": pool, "start": start, "end": end})

    def requests(self, **params: Any) -> Page[RequestRecord]:
        """Finished requests with waterfalls.

        params: pool, node, request_id, window, start, end, limit, order (slowest, newest).
        """
        return self._page(RequestRecord, "/api/v1/requests", **params)

    def export(self, *, read_timeout_s: float = 120.0, **params: Any) -> Iterator[bytes]:
        """A CSV or Parquet file as it comes; params as GET /api/v1/export takes them. A broken transfer raises."""
        given = {name: value for name, value in params.items() if value is not None}
        # A label's list is any of its values, and repeated; other lists are one parameter.
        query = {name: value if name in LABELS else query_text(value) for name, value in given.items()}
        timeout = httpx.Timeout(CONNECT_TIMEOUT_S, read=read_timeout_s)
        with self._http.stream("GET", "/api/v1/export", params=query, timeout=timeout) as response:
            if not response.is_success:
                response.read()
            raise_for_error(response)
            yield from response.iter_bytes()
