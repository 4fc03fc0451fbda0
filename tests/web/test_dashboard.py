"""The dashboard in a real Chromium over a real stack: sign-in, what it shows, and that it stays live without reload."""

import re
from datetime import datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from playwright.sync_api import Locator, Page, expect

from controlplane.contract.bodies.access import Scope, TokenCreate
from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.contract.bodies.rollouts import RolloutCreate
from web.dashboard import PAGES

pytestmark = pytest.mark.browser

VALUES = """(metric) => {
    const cursor = document.querySelector(`#part-multiple-${metric} .cursor`);
    return cursor && JSON.parse(cursor.dataset.values);
}"""
"""What a chart was drawn from; null before its first drawing."""


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def ms(text: str) -> float:
    return moment(text).timestamp() * 1000


def drag(page: Page, over: Locator, start: float, end: float) -> None:
    """From one share of the width to another, along the middle. The page's drawings stand there before its scripts
    listen."""
    expect(over.locator("xpath=ancestor::*[@data-part]")).to_have_attribute(
        "data-points", re.compile(r"\d"), timeout=60_000
    )
    over.scroll_into_view_if_needed()
    box = over.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + start * box["width"], middle)
    page.mouse.down()
    page.mouse.move(box["x"] + end * box["width"], middle, steps=4)
    page.mouse.up()


MISALIGNED = """() => [...document.querySelectorAll("table")].flatMap((table) => {
    const heads = [...table.tHead.rows[0].cells];
    const rows = [...table.tBodies[0].rows].filter((row) => row.cells.length === heads.length);
    const side = (cell) => getComputedStyle(cell).textAlign;
    return rows.flatMap((row) => heads.filter((head, place) => side(head) !== side(row.cells[place])));
}).map((head) => head.textContent)"""
"""The heads of columns that do not stand above their cells."""


def test_without_a_session_the_sign_in_page_opens(browser: Any, stack: Any) -> None:
    context = browser.new_context(base_url=stack.url)
    opened = context.new_page()
    opened.goto("/fleet")
    expect(opened).to_have_url(f"{stack.url}/login?next=/fleet")
    opened.get_by_label("Token").fill("wrong")
    opened.get_by_role("button", name="Sign in").click()
    expect(opened.get_by_role("alert")).to_contain_text("unknown or revoked")
    opened.get_by_label("Token").fill(stack.fleet.token("dashboard-token"))
    opened.get_by_role("button", name="Sign in").click()
    expect(opened).to_have_url(f"{stack.url}/fleet")
    context.close()


def test_the_session_cookie_is_out_of_reach_for_scripts(page: Page) -> None:
    page.goto("/fleet")
    assert page.evaluate("document.cookie") == ""


def test_fleet_shows_each_node_with_its_revision(page: Page) -> None:
    page.goto("/fleet")
    row = page.locator("tr[data-node='node-1']")
    expect(row).to_contain_text("healthy", timeout=60_000)
    expect(row.locator("[data-label='Revision']")).to_contain_text(re.compile(r"^\s*\d+"))
    expect(row.locator("[data-label='Pool']")).to_have_text("demo")


def test_a_node_has_a_page_with_the_source_of_each_knob(page: Page) -> None:
    page.goto("/fleet")
    page.get_by_role("link", name="node-1", exact=True).click()
    row = page.locator("tr[data-knob='max_num_batched_tokens']")
    expect(row).to_contain_text("512")
    expect(row).to_contain_text("live")
    expect(page.locator("tr[data-knob='quantization']")).to_contain_text("swap")
    expect(page.locator("main")).to_contain_text("backend embedded")


def test_figures_appear_and_grow_without_reload(page: Page, stack: Any) -> None:
    page.goto("/requests?from=now-1h")
    page.evaluate("window.notReloaded = true")
    for number in range(3):
        assert stack.complete(f"class Thing{number}:\n    def", 12).status_code == 200
    newest = page.locator("#part-requests [data-row]").first
    expect(newest).to_be_visible(timeout=60_000)
    before = newest.get_attribute("href")
    assert stack.complete("import another\n", 12).status_code == 200
    page.wait_for_function(
        "(before) => document.querySelector('#part-requests [data-row]').getAttribute('href') !== before",
        arg=before,
        timeout=60_000,
    )
    assert page.evaluate("window.notReloaded")
    expect(page.get_by_role("status").first).to_have_text("live")


def test_the_engines_steps_are_told_by_what_bound_them(page: Page, stack: Any) -> None:
    """From the engine's scheduler by way of its agent, the report and the store to the page."""
    assert stack.complete("def told():\n    return", 12).status_code == 200
    page.goto("/explore?from=now-5m")
    expect(page.locator("#part-what_binds .limits")).to_contain_text("nothing waited", timeout=60_000)


def test_every_part_of_the_latency_has_its_chart(page: Page, stack: Any) -> None:
    assert stack.complete("x = 1\n", 12).status_code == 200
    page.goto("/explore?from=now-5m&charts=all")
    for part in ("ttft", "itl", "e2e", "receive", "tokenize", "queue", "prefill", "decode", "send", "unaccounted"):
        plot = page.locator(f"#part-multiple-{part}")
        expect(plot.locator("svg").first).to_be_visible(timeout=60_000)
        expect(plot).to_have_attribute("data-points", re.compile("[1-9]"), timeout=60_000)


def test_a_point_of_a_chart_leads_to_the_requests_behind_it(page: Page, stack: Any) -> None:
    assert stack.complete("def area(radius):\n", 12).status_code == 200
    page.goto("/explore?from=now-5m&timezone=Europe/Berlin")
    plot = page.locator("#part-multiple-ttft")
    expect(plot).to_have_attribute("data-points", re.compile("[1-9]"), timeout=60_000)
    cursor = plot.get_by_role("slider")
    values = page.evaluate(VALUES, "ttft")
    tail = values["lines"][2]["y"]
    highest = max(range(len(tail)), key=lambda place: tail[place] or 0)
    page.evaluate("document.querySelector('[data-stream]').remove()")  # The drawing stays as it was read.
    cursor.press("End")
    for _ in range(len(tail) - 1 - highest):
        cursor.press("ArrowLeft")
    expect(cursor).to_have_attribute("aria-valuenow", str(highest))
    expect(plot.locator(".readout")).to_contain_text("p99")
    cursor.press("Enter")
    expect(page).to_have_url(re.compile("/requests"))
    asked = parse_qs(urlsplit(page.url).query)
    assert moment(asked["from"][0]) == moment(values["times"][highest])
    assert (asked["metric"], asked["order"], asked["timezone"]) == (["ttft"], ["slowest"], ["Europe/Berlin"])
    rows = page.locator("#part-requests tbody tr")
    expect(rows.first).to_be_visible(timeout=60_000)
    expect(rows.first).to_contain_text("node-1")


def test_a_zoom_is_an_address_that_can_be_gone_back_from_and_reset(page: Page, stack: Any) -> None:
    assert stack.complete("y = 2\n", 12).status_code == 200
    page.goto("/explore?from=now-5m")
    plot = page.locator("#part-multiple-ttft")
    expect(plot).to_have_attribute("data-points", re.compile("[1-9]"), timeout=60_000)
    whole = page.evaluate(VALUES, "ttft")
    drag(page, plot.get_by_role("slider"), 0.4, 0.9)
    expect(page).to_have_url(re.compile("from=2.*&to=2"))
    first = parse_qs(urlsplit(page.url).query)
    start, end = first["from"][0], first["to"][0]
    assert moment(whole["start"]) < moment(start) < moment(end) <= moment(whole["end"])
    for metric in ("ttft", "itl", "e2e"):  # One part for all charts, so that they can be compared.
        page.wait_for_function(
            f"(start) => Math.abs(Date.parse(({VALUES})('{metric}')?.start) - start) < 1", arg=ms(start), timeout=60_000
        )
    drag(page, plot.get_by_role("slider"), 0.2, 0.8)
    page.wait_for_function(f"(start) => Date.parse(({VALUES})('ttft')?.start) > start", arg=ms(start), timeout=60_000)
    inner = page.evaluate(VALUES, "ttft")["start"]
    page.reload()  # The address says it all.
    page.wait_for_function(f"(start) => ({VALUES})('ttft')?.start === start", arg=inner, timeout=60_000)
    page.go_back()
    page.wait_for_function(
        f"(start) => Math.abs(Date.parse(({VALUES})('ttft')?.start) - start) < 1", arg=ms(start), timeout=60_000
    )
    page.get_by_role("link", name="Reset").click()
    expect(page).not_to_have_url(re.compile("from="))
    expect(page.get_by_role("link", name="Reset")).to_have_count(0)


def test_a_chart_is_a_named_figure_with_a_sentence_a_table_and_a_cursor(page: Page, stack: Any) -> None:
    assert stack.complete("z = 3\n", 12).status_code == 200
    page.goto("/explore?from=now-5m")
    figure = page.get_by_role("figure", name="Time to first token", exact=True)
    plot = figure.locator(".plot")
    expect(plot).to_have_attribute("data-points", re.compile("[1-9]"), timeout=60_000)
    expect(figure.locator(".says")).to_have_text(re.compile("^p99 (rose|fell|held|was) "))
    expect(figure.get_by_role("img")).to_have_attribute("aria-label", re.compile("Time to first token: p99"))
    button = figure.get_by_role("button", name="Table")
    button.click()
    table = figure.get_by_role("table")
    # What happened meanwhile is a column more, where there was something.
    expect(table.locator("thead th:nth-child(-n+4)")).to_have_text(["Time, UTC", "p50", "p95", "p99"])
    expect(table.locator("tbody tr")).not_to_have_count(0)
    cursor = figure.get_by_role("slider")
    cursor.focus()
    cursor.press("End")
    expect(cursor).to_have_attribute("aria-valuetext", re.compile(r"UTC: p50 .*, p95 .*, p99 "))
    # The cursor is one moment for all charts, and a new drawing takes neither it nor the focus away.
    other = page.get_by_role("figure", name="End to end", exact=True).locator(".readout")
    expect(other).to_have_text(re.compile("UTC: p50"))
    before = plot.get_attribute("data-refreshed") or ""
    page.wait_for_function(
        "([plot, before]) => (plot.dataset.refreshed || '') !== before",
        arg=[plot.element_handle(), before],
        timeout=60_000,
    )
    assert cursor.evaluate("(cursor) => document.activeElement === cursor")
    expect(cursor).to_have_attribute("aria-valuetext", re.compile("UTC: p50"))
    expect(button).to_have_attribute("aria-expanded", "true")


def test_numbers_stand_to_the_right_under_their_heads_and_words_to_the_left(page: Page) -> None:
    page.goto("/nodes/node-1")
    aligned = "(cell) => getComputedStyle(cell).textAlign"
    for head, wanted in (("Runs", "left"), ("A change is", "left"), ("At most", "right"), ("Read from", "left")):
        column = page.locator("th", has_text=re.compile(f"^{head}$"))
        cell = page.locator("tr[data-knob='max_num_seqs'] td").nth(column.evaluate("(head) => head.cellIndex"))
        assert (column.evaluate(aligned), cell.evaluate(aligned)) == (wanted, wanted)
    page.goto("/fleet")
    for head, wanted in (("Revision", "right"), ("Node", "left"), ("Pool", "left")):
        column = page.locator("th", has_text=re.compile(f"^{head}$"))
        cell = page.locator("tr[data-node='node-1'] td").nth(column.evaluate("(head) => head.cellIndex"))
        assert (column.evaluate(aligned), cell.evaluate(aligned)) == (wanted, wanted)


def test_a_rollout_appears_in_its_page_and_in_the_ledger(page: Page, stack: Any) -> None:
    with stack.client() as client:
        base = next(node.desired_revision or node.effective.revision for node in client.nodes() if node.effective)
        revision = client.create_config(RevisionCreate(knobs={"max_num_seqs": 15}, base=base, note="browser test"))
        rollout = client.create_rollout(
            RolloutCreate(pool="demo", revision=revision.number, start=False, reason="seen in the browser")
        )
        page.goto("/rollouts")
        expect(page.get_by_role("link", name=str(rollout.id), exact=True)).to_be_visible()
        page.get_by_role("link", name=str(rollout.id), exact=True).click()
        expect(page.locator("main")).to_contain_text("seen in the browser")
        client.cancel_rollout(rollout.id)
        expect(page.locator("main")).to_contain_text("cancelled")
    page.goto("/ledger")
    expect(page.locator("main")).to_contain_text("rollout.cancelled")


@pytest.mark.parametrize("name", [found.name for found in PAGES.navigation()])
def test_every_page_is_whole(page: Page, name: str) -> None:
    answer = page.goto(PAGES[name].path)
    assert answer is not None and answer.status == 200
    expect(page.locator("nav a[aria-current]").first).to_have_text(PAGES[name].title)
    assert page.evaluate(MISALIGNED) == []


def test_unknown_things_are_404_and_agent_tokens_do_not_open_it(stack: Any) -> None:
    token = stack.fleet.token("dashboard-token")
    with httpx.Client(base_url=stack.url) as browser_like:
        assert browser_like.post("/login", data={"token": token}).status_code == 303
        assert browser_like.get("/rollouts/99999").status_code == 404
        assert browser_like.get("/runbooks/kv_full").status_code == 404
        assert "KV cache nearly full" in browser_like.get("/runbooks/kv_near_full").text
        assert "`" not in browser_like.get("/runbooks/prefix_hits_low").text
        for path in ("/parts/fleet/nothing", "/parts/nothing/fleet", "/live/nothing"):
            assert browser_like.get(path).status_code == 404
    with stack.client() as client:
        agent = client.create_token(TokenCreate(name="an agent", scope=Scope.AGENT))
    assert httpx.post(f"{stack.url}/login", data={"token": agent.token}).status_code == 403


def test_sign_in_never_leads_to_another_site(stack: Any) -> None:
    token = stack.fleet.token("dashboard-token")
    for target in ("//evil.example", "https://evil.example", "/\\evil.example"):
        answer = httpx.post(f"{stack.url}/login", data={"token": token, "next": target}, follow_redirects=False)
        assert answer.headers["location"] == "/"
