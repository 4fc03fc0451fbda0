"""Questions to both servers as bytes over kept connections: what is timed is the answer, not how a client reads it."""

import http.client
from urllib.parse import urlencode

from benchmarks.engine_rivals.protocol import WorkerFailed
from benchmarks.engine_rivals.servers import HOST
from benchmarks.telemetry_measures.hour_queries import Q, moment
from benchmarks.telemetry_measures.loaded_hour import METRIC, LoadedHour
from benchmarks.telemetry_measures.openmetrics import NAME

_LIMIT_S = 600.0


class MetricRef:
    """One kept connection; `get` returns the body, and fails on any answer but 200."""

    def __init__(self, port: int, token: str | None = None) -> None:
        self._http = http.client.HTTPConnection(HOST, port, timeout=_LIMIT_S)
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def get(self, path: str, **parameters: object) -> bytes:
        given = {name: value for name, value in parameters.items() if value is not None}
        self._http.request("GET", f"{path}?{urlencode(given)}", headers=self._headers)
        answer = self._http.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise WorkerFailed(f"{path} answered {answer.status}: {body[:300]!r}")
        return body

    def close(self) -> None:
        self._http.close()


class Ours:
    """The questions as /api/v1/quantiles takes them; times are Unix seconds."""

    def __init__(self, hour: LoadedHour) -> None:
        self._asked = MetricRef(hour.service.port, hour.service.token)

    def quantile(self, start: float, end: float, by: str | None = None, step: str | None = None) -> bytes:
        span = {"start": moment(start).isoformat(), "end": moment(end).isoformat()}
        return self._asked.get("/api/v1/quantiles", metric=METRIC.short, q=Q, by=by, step=step, **span)

    def close(self) -> None:
        self._asked.close()


class Theirs:
    """The same as histogram_quantile over `increase`."""

    def __init__(self, hour: LoadedHour) -> None:
        assert hour.rival is not None
        self._asked = MetricRef(hour.rival.port)

    def quantile(self, start: float, end: float, by: str | None = None) -> bytes:
        labels = f"le, {by}" if by else "le"
        expression = f"histogram_quantile({Q}, sum by ({labels}) (increase({NAME}_bucket[{end - start:.0f}s])))"
        return self._asked.get("/api/v1/query", query=expression, time=end)

    def series(self, start: float, end: float, step_s: int) -> bytes:
        """Each step looks back over itself, two scrapes: the least that `increase` can work with."""
        expression = f"histogram_quantile({Q}, sum by (le) (increase({NAME}_bucket[{step_s}s])))"
        return self._asked.get("/api/v1/query_range", query=expression, start=start + step_s, end=end, step=step_s)

    def close(self) -> None:
        self._asked.close()
