"""What each query asks of the service: its path, what was given, the span, `by` and labels, and nothing unset."""

from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from controlplane.client import Client

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
EMPTY = {
    **{"metric": "m", "unit": "s", "start": START.isoformat(), "end": START.isoformat(), "series": []},
    **{"relative_error": 0.01, "kind": "gauge", "error": 0.0, "edges": [], "step_s": 60.0, "rows_per_doubling": 4},
}
"""An answer of any of the queries."""


@pytest.mark.parametrize(
    ("name", "given", "asked"),
    [
        ("quantiles", {"metric": "ttft"}, {"metric": "ttft", "q": "0.5,0.95,0.99"}),
        ("quantiles", {"metric": "ttft", "q": (0.9,), "step": "5s"}, {"metric": "ttft", "q": "0.9", "step": "5s"}),
        ("scalars", {"metric": "running", "window": "1m"}, {"metric": "running", "window": "1m"}),
        ("rates", {"metric": "requests", "start": START}, {"metric": "requests", "start": "2026-03-01T12:00:00+00:00"}),
        ("shares", {"above": 0.5}, {"above": "0.5"}),
        ("heatmap", {"metric": "e2e", "step": "1m", "rows": 9}, {"metric": "e2e", "step": "1m", "rows": "9"}),
    ],
)
def test_a_query_asks_for_what_was_given(name: str, given: dict[str, Any], asked: dict[str, str]) -> None:
    seen: list[httpx.URL] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.url)
        return httpx.Response(200, json=EMPTY)

    with Client("http://service", "t", transport=httpx.MockTransport(answer)) as client:
        getattr(client, name)(**given, by=("node", "revision"), pool="chat", node=None)
    (url,) = seen
    assert url.path == f"/api/v1/{name}"
    assert dict(url.params) == {**asked, "by": "node,revision", "pool": "chat"}
