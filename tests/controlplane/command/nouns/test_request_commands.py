"""`tailwright requests`: pages of the log, and one request with its waterfall beside what is usual."""

from datetime import timedelta

import pytest

from controlplane.contract.clock import utc_now
from tests.controlplane.command.nouns.plane import Plane
from tests.controlplane.telemetry.conftest import request_spans

PARTS = {"receive": 0.001, "queue": 1.0, "prefill": 0.5, "decode": 0.499, "e2e": 2.0, "ttft": 1.501}


@pytest.fixture(scope="module", autouse=True)
def requests(plane: Plane) -> None:
    now = utc_now()
    spans = [{"id": f"cmpl-{i}", "arrival": now - timedelta(seconds=30 + i), "parts": PARTS} for i in range(3)]
    body = request_spans("a", spans).SerializeToString()
    headers = {"Content-Type": "application/x-protobuf"}
    plane.http.post("/v1/traces", content=body, headers=headers).raise_for_status()


@pytest.mark.slow
def test_the_log_is_listed_page_by_page(plane: Plane) -> None:
    lines = plane.run("requests", "list").stdout.splitlines()
    assert [line.split()[2] for line in lines[1:]] == ["cmpl-0", "cmpl-1", "cmpl-2"]
    assert "2.00 s" in lines[1]
    first = plane.json("requests", "list", "--limit", 2, "--order", "slowest", "--window", "1h")
    assert first == plane.get("requests", limit=2, order="slowest", window="1h") and first["next"] == "2"
    rest = plane.json("requests", "list", "--limit", 2, "--order", "slowest", "--cursor", 2, "--window", "1h")
    assert len(rest["items"]) == 1 and rest["next"] is None
    assert "--cursor 2" in plane.run("requests", "list", "--limit", 2).stderr
    assert plane.json("requests", "list", "--where", "node=b") == {"items": [], "next": None}


def test_one_request_is_shown_with_its_waterfall(plane: Plane) -> None:
    assert plane.json("requests", "show", "cmpl-1") == plane.get("requests/cmpl-1")
    lines = plane.run("requests", "show", "cmpl-1").stdout.splitlines()
    queue, prefill = (next(line for line in lines if line.startswith(part)) for part in ("queue", "prefill"))
    assert "1.00 s" in queue and queue.count("█") == 20
    assert prefill.count("█") == 10 and prefill.count("·") == 20
    assert "404" in plane.run("requests", "show", "cmpl-9", status=1).stderr
