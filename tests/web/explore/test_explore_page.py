"""Explore in a real browser over a real fleet: each part of the page has its data, each choice is in its address."""

import json
import re
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from playwright.sync_api import BrowserContext, Page, expect

from agents.agent.control.offer import ConfigOutcome
from agents.agent.control.opamp_messages import MessageBuilder, NodeSnapshot
from agents.backends.base import EngineHealth
from controlplane.contract.bodies.access import EnrolmentRequest
from controlplane.contract.bodies.nodes import NodeRole
from controlplane.contract.reports.opamp import new_instance_uid
from tests.web.conftest import checked

TITLES = ("Time to first token", "Time between tokens", "End to end", "Requests finished", "Errors", "KV cache in use")
COPIED = "navigator.clipboard.writeText = async (text) => { window.copiedText = text }"


@pytest.fixture
def explored(page: Page, stack: Any) -> Page:
    """Explore with a request or more on its charts."""
    for number in range(3):
        assert stack.complete(f"def explored_{number}():\n    return", 12).status_code == 200
    page.goto("/explore?from=now-5m")
    expect(page.locator(".heat-map")).to_have_attribute("data-cells", re.compile("[1-9]"), timeout=30_000)
    return page


@pytest.fixture
def restarted(stack: Any) -> Iterator[str]:
    """A node of the pool that is shown: its agent told of two processes of its engine, the second of a new version."""
    node = "restarted"
    with stack.client() as client:
        pool = next(one.pool for one in client.nodes() if one.role is NodeRole.SERVING)
        token = client.enrol(EnrolmentRequest(node=node, pool=pool, backend="vllm")).token
        builder = MessageBuilder(new_instance_uid(time.time_ns() // 1_000_000))
        for process, version in (("plugin:a", "vllm 0.31.0"), ("plugin:b", "vllm 0.31.0"), ("plugin:c", "vllm 0.32.0")):
            told = NodeSnapshot(
                *(node, pool, "serving", "vllm", "http://127.0.0.1:8000", "1", 0),
                *(EngineHealth(True), EngineHealth(True), ConfigOutcome()),
                engine_process=process,
                engine_version=version,
            )
            headers = {"Content-Type": "application/x-protobuf", "Authorization": f"Bearer {token}"}
            body = builder.build(told, full=True).SerializeToString()
            assert httpx.post(f"{stack.url}/v1/opamp", content=body, headers=headers).status_code == 200
        yield node
        client.remove_node(node)


def test_engines_that_were_started_again_or_anew_are_marked_on_charts_and_in_their_tables(
    restarted: str, explored: Page
) -> None:
    for figure in (explored.locator(".heat-map"), explored.get_by_role("figure", name="End to end", exact=True)):
        expect(figure.locator(".mark.engine")).to_have_count(2)
        titles = " ".join(figure.locator(".mark.engine title").all_text_contents())
        assert f"node {restarted} engine restarted: the engine of node {restarted} was started again" in titles
        assert f"the engine of node {restarted} is vllm 0.32.0, was vllm 0.31.0" in titles
        figure.get_by_role("button", name="Table").click()
        expect(figure.locator("thead th").last).to_have_text("Meanwhile")
        expect(figure.locator("tbody")).to_contain_text(f"node {restarted} engine version")
    explored.goto(f"/nodes/{restarted}")
    expect(explored.locator("#part-node")).to_contain_text("vllm 0.32.0")


def test_every_part_of_the_page_tells_of_the_fleet(explored: Page) -> None:
    expect(explored.locator("#part-latency_map")).to_contain_text("Most requests took")
    expect(explored.locator("#part-what_binds .says")).to_contain_text("nothing bound", ignore_case=True)
    expect(explored.locator("#binds-no_work")).to_contain_text("the engine kept up")
    expect(explored.locator("#part-two_stacks")).to_contain_text("above TTFT p95")
    for title in TITLES:
        figure = explored.get_by_role("figure", name=title, exact=True)
        expect(figure.locator("[data-points]")).not_to_have_attribute("data-points", "0")
    assert explored.locator(".trouble:not([hidden])").all_inner_texts() == []


def test_the_metric_the_tail_and_the_scale_are_links(explored: Page) -> None:
    explored.get_by_role("navigation", name="Metric of the heat map").get_by_role("link", name="E2E").click()
    explored.wait_for_url("**metric=e2e*")
    expect(explored.get_by_role("figure", name="End to end (e2e)")).to_contain_text("Most requests took")
    explored.get_by_role("link", name="p90").click()
    explored.wait_for_url("**tail=p90*")
    explored.get_by_role("link", name="on one scale").click()
    explored.wait_for_url("**scale=shared*")
    expect(explored.locator("main[aria-busy]")).to_have_count(0)
    tops = set()
    for title in ("Time to first token", "End to end"):
        figure = explored.get_by_role("figure", name=title, exact=True)
        expect(figure.locator("[data-points]")).to_be_visible(timeout=20_000)
        tops.add(figure.locator(".up text").last.text_content())
    assert len(tops) == 1 and "metric=e2e" in explored.url and "tail=p90" in explored.url


def test_the_other_charts_come_when_they_are_wanted_and_stay(explored: Page) -> None:
    queue = explored.get_by_role("figure", name="Queue", exact=True)
    expect(queue).to_have_count(0)
    explored.get_by_text("parts of a request, tokens, queue").click()
    explored.wait_for_url("**charts=all*")
    expect(queue.locator("[data-points]")).not_to_have_attribute("data-points", "0")
    explored.reload()
    expect(queue).to_be_visible()


def test_a_box_that_keys_draw_is_an_address(explored: Page) -> None:
    cells = explored.get_by_role("application", name=re.compile("Cells of Time to first token"))
    cells.press("ArrowLeft")
    cells.press("Enter")
    cells.press("PageUp")
    cells.press("Enter")
    explored.wait_for_url("**box=*")
    explained = explored.get_by_role("figure", name="What tells these requests apart")
    expect(explained).to_contain_text("inside")
    expect(explored.locator(".heat-map .box")).to_have_count(1)
    explored.get_by_role("link", name="Drop the box").click()
    expect(explored.locator(".heat-map")).to_be_visible(timeout=20_000)
    expect(explored.locator(".heat-map .box")).to_have_count(0)
    assert "box=" not in explored.url


def test_a_chart_is_copied_as_values_and_as_a_question(explored: Page) -> None:
    explored.evaluate(COPIED)
    figure = explored.get_by_role("figure", name="Time to first token", exact=True)
    expect(figure.locator("[data-points]")).not_to_have_attribute("data-points", "0")
    figure.get_by_text("Copy", exact=True).click()
    figure.get_by_role("button", name="CSV").click()
    expect(figure.get_by_role("status")).to_have_text("copied")
    head, *rows = explored.evaluate("window.copiedText").splitlines()
    assert head == "time,p50,p95,p99" and rows and all(len(row.split(",")) == 4 for row in rows)
    figure.get_by_role("button", name="JSON").click()
    explored.wait_for_function("window.copiedText.startsWith('[')")
    assert json.loads(explored.evaluate("window.copiedText"))[0].keys() == {"time", "p50", "p95", "p99"}
    figure.get_by_role("button", name="API call").click()
    explored.wait_for_function("window.copiedText.startsWith('curl')")
    asked = explored.evaluate("window.copiedText")
    assert 'Authorization: Bearer $TOKEN"' in asked and "/api/v1/quantiles?metric=ttft&q=0.5,0.95,0.99&" in asked


def test_every_figure_of_the_page_can_be_copied(explored: Page) -> None:
    figures = explored.locator("main figure")
    expect(explored.locator("#part-two_stacks figure")).to_be_visible(timeout=20_000)
    for at in range(figures.count()):
        expect(figures.nth(at).locator("[data-copy-as=call]")).to_have_count(1)
        expect(figures.nth(at).locator("[data-call]")).to_have_attribute("data-call", re.compile("^/api/v1/"))


def test_a_point_of_a_chart_opens_the_requests_behind_it(explored: Page) -> None:
    figure = explored.get_by_role("figure", name="Time to first token", exact=True)
    expect(figure.locator("[data-points]")).not_to_have_attribute("data-points", "0")
    cursor = figure.get_by_role("slider")
    cursor.press("End")
    expect(figure.locator(".readout")).to_contain_text("p99")
    cursor.press("Enter")
    explored.wait_for_url("**/requests?*")
    asked = parse_qs(urlsplit(explored.url).query)
    assert asked["metric"] == ["ttft"] and asked["order"] == ["slowest"] and float(asked["min"][0]) > 0
    length = datetime.fromisoformat(asked["to"][0]) - datetime.fromisoformat(asked["from"][0])
    assert length == timedelta(seconds=5)
    expect(explored.locator("tr[id^='request-']").first).to_be_visible(timeout=20_000)


def test_an_earlier_span_stands_beside_this_one_on_one_scale(page: Page, stack: Any) -> None:
    assert stack.complete("def compared():\n    return", 12).status_code == 200
    page.goto("/explore?from=now-5m&compare=earlier:1m")
    expect(page.get_by_role("row", name=re.compile("^TTFT p99 "))).to_be_visible(timeout=30_000)
    tops = set()
    for title in ("This span", "1m earlier"):
        figure = page.get_by_role("figure", name=title, exact=True)
        expect(figure.locator("[data-points]")).to_be_visible(timeout=20_000)
        tops.add(figure.locator(".up text").last.text_content())
    assert len(tops) == 1
    page.get_by_role("link", name="Do not compare").click()
    expect(page.get_by_role("heading", name="Compared with")).to_have_count(0)
    expect(page.locator(".heat-map")).to_be_visible(timeout=20_000)


def test_two_heat_maps_have_one_scale_and_a_box_on_the_other_leads_to_its_page(page: Page, stack: Any) -> None:
    assert stack.complete("def mapped():\n    return", 12).status_code == 200
    page.goto("/explore?from=now-5m&compare=earlier:5s")
    maps = page.locator(".heat-map")
    expect(maps).to_have_count(2)
    for at in range(2):
        expect(maps.nth(at)).to_have_attribute("data-cells", re.compile("[1-9]"))
    scales = {tuple(maps.nth(at).locator(part).all_inner_texts()) for part in (".up text", ".scale") for at in range(2)}
    assert len(scales) == 2, "one of the axis, one of the colours"
    own, other = (maps.nth(at).bounding_box() for at in range(2))
    assert own is not None and other is not None and own["y"] == other["y"] and own["x"] < other["x"]
    plots = [maps.nth(at).locator("canvas").bounding_box() for at in range(2)]
    assert plots[0] is not None and plots[1] is not None, "one height is one latency, across"
    assert (plots[0]["y"], plots[0]["height"]) == (plots[1]["y"], plots[1]["height"])
    other_map = maps.nth(1)
    other_map.get_by_role("button", name="Table").click()
    expect(other_map.locator("table")).to_contain_text("Time, UTC")
    cells = other_map.get_by_role("application")
    cells.press("ArrowLeft")
    cells.press("Enter")
    cells.press("PageUp")
    cells.press("Enter")
    page.wait_for_url("**box=*")
    asked = parse_qs(urlsplit(page.url).query)
    assert "compare" not in asked
    length = datetime.fromisoformat(asked["to"][0]) - datetime.fromisoformat(asked["from"][0])
    assert length == timedelta(minutes=5)
    expect(page.locator(".heat-map .box")).to_have_count(1)


def test_on_a_phone_one_heat_map_stands_above_the_other(stack_context: BrowserContext, stack: Any) -> None:
    assert stack.complete("def above():\n    return", 12).status_code == 200
    for page in checked(stack_context):
        page.set_viewport_size({"width": 390, "height": 844})
        page.goto("/explore?from=now-5m&compare=earlier:5s")
        maps = page.locator(".heat-map")
        expect(maps).to_have_count(2)
        own, other = (maps.nth(at).bounding_box() for at in range(2))
        assert own is not None and other is not None
        assert own["x"] == other["x"] and own["y"] + own["height"] <= other["y"] and own["width"] <= 390
