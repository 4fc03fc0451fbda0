"""A node's page in a browser: GPU charts for a node that tells of one, their place left empty for one that does not."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from controlplane.client import Client
from controlplane.contract.bodies.access import EnrolmentRequest
from controlplane.contract.clock import utc_now
from tests.web.conftest import Bare, checked, signed_in

pytestmark = pytest.mark.browser

TOLD = {"clock": 1200.0, "clock_max": 1980.0, "temperature": 71.0, "power": 610.0, "power_limit": 700.0}
SHARES = {"memory": 0.82, "other_utilization": 0.05, "throttle_reason": 4.0}
TITLES = ("GPU: clock", "GPU: temperature", "GPU: power", "GPU: memory, and use by others")


def report(node: str, values: dict[str, float]) -> bytes:
    """OTLP/JSON: gauges of the node's GPU, half a minute ago, five seconds apart."""
    now_ns = int(utc_now().timestamp() * 1e9)

    def gauge(name: str, value: float) -> dict[str, Any]:
        points = [{"timeUnixNano": str(now_ns - ago * 5 * 10**9), "asDouble": value} for ago in range(3, 6)]
        return {"name": f"tailwright.gpu.{name}", "gauge": {"dataPoints": points}}

    attributes = {"service.instance.id": node, "tailwright.pool": "chat"}
    resource = {"attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()]}
    metrics = [gauge(name, value) for name, value in values.items()]
    return json.dumps({"resourceMetrics": [{"resource": resource, "scopeMetrics": [{"metrics": metrics}]}]}).encode()


@pytest.fixture(scope="module")
def nodes(bare: Bare) -> None:
    with Client(bare.url, bare.token("enrolment-token")) as enrolling:
        for name, values in (("gpu-1", TOLD | SHARES), ("gpu-2", {"temperature": 55.0}), ("cpu-1", {})):
            token = enrolling.enrol(EnrolmentRequest(node=name, pool="chat", backend="vllm")).token
            with Client(bare.url, token) as agent:
                agent.send_report("/v1/metrics", report(name, values), {"Content-Type": "application/json"})


@pytest.fixture
def looked_at(browser: Browser, bare: Bare, nodes: None) -> Iterator[Page]:
    context = signed_in(browser, bare.url, bare.token())
    yield from checked(context)
    context.close()


def test_a_node_with_a_gpu_has_its_charts(looked_at: Page) -> None:
    looked_at.goto("/nodes/gpu-1?from=now-5m")
    for title in TITLES:
        figure = looked_at.get_by_role("figure", name=title, exact=True)
        expect(figure.locator("[data-points]")).not_to_have_attribute("data-points", "0")
        expect(figure).to_be_visible()
    figure = looked_at.get_by_role("figure", name="GPU: power", exact=True)
    figure.get_by_role("slider").press("End")
    expect(figure.locator(".readout")).to_have_text(re.compile("UTC: limit 700 W, power 610 W$"))
    expect(looked_at.locator("tr[data-reason='power cap']")).to_contain_text("100 %")
    assert [one["id"] for one in Axe().run(looked_at).response["violations"]] == []


def test_only_what_a_gpu_tells_is_drawn(looked_at: Page) -> None:
    looked_at.goto("/nodes/gpu-2?from=now-5m")
    expect(looked_at.get_by_role("figure", name="GPU: temperature", exact=True)).to_be_visible()
    expect(looked_at.locator("#part-node-gpu-power")).to_contain_text("no data in this span")
    expect(looked_at.get_by_role("figure", name="GPU: power", exact=True)).to_have_count(0)


@pytest.mark.parametrize("width", [1280, 390])
def test_a_node_without_a_gpu_says_what_would_fill_its_place(looked_at: Page, width: int) -> None:
    looked_at.set_viewport_size({"width": width, "height": 800})
    looked_at.goto("/nodes/cpu-1?from=now-5m")
    expect(looked_at.locator("#part-gpu")).to_contain_text("nvidia-ml-py")
    expect(looked_at.locator("#part-node-gpu-clock")).to_contain_text("No data in this span.")
    for title in TITLES:
        expect(looked_at.get_by_role("figure", name=title, exact=True)).to_have_count(0)
    assert looked_at.evaluate("document.documentElement.scrollWidth") <= width
    assert [one["id"] for one in Axe().run(looked_at).response["violations"]] == []
