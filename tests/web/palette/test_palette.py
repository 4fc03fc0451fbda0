"""The palette over a real service: its answer for what was typed, and by keyboard in a real Chromium."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from controlplane.contract.clock import utc_now
from web.dashboard import PAGES
from web.frame.selection import selection_of
from web.palette.entries import offered

QUERY = {"from": "now-1h", "q": "own"}


def found(stack: Any, typed: str) -> list[tuple[str, str, str]]:
    with stack.client() as client:
        hits = offered(client, selection_of(QUERY, utc_now()), PAGES.navigation(), typed)
    return [(hit.kind, hit.name, hit.address) for hit in hits]


def test_nodes_and_requests_are_found_with_the_pages_own_span(stack: Any) -> None:
    assert found(stack, "NODE-1")[0] == ("node", "node-1", "/nodes/node-1?from=now-1h&to=now")
    assert found(stack, "cmpl-1234567")[0] == ("request", "cmpl-1234567", "/requests/cmpl-1234567?from=now-1h&to=now")
    assert found(stack, "requests")[0] == ("page", "Requests", "/requests?from=now-1h&to=now")
    assert found(stack, "of-nobody") == []
    assert found(stack, "sign out") == [("action", "Sign out", "")]


def test_nothing_typed_asks_nobody_and_offers_each_page() -> None:
    nobody: Any = None
    hits = offered(nobody, selection_of({}, utc_now()), PAGES.navigation(), " ")
    assert {page.title for page in PAGES.navigation()} <= {hit.name for hit in hits}


@pytest.mark.browser
def test_the_palette_leads_to_a_node_by_keyboard(page: Page) -> None:
    page.goto("/alerts?from=now-1h&to=now")
    page.keyboard.press("Control+k")
    field = page.get_by_role("combobox", name="Page, node")
    expect(field).to_be_focused()
    expect(page.locator("#hits li").first).to_contain_text("Now")
    field.press_sequentially("node-1")
    option = page.locator("#hits [aria-selected=true]")
    expect(option).to_contain_text("pool demo")
    assert field.get_attribute("aria-activedescendant") == option.get_attribute("id")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/nodes/node-1\?from=now-1h&to=now$"))


@pytest.mark.browser
def test_arrows_move_the_choice_and_an_action_is_the_pages_own(page: Page) -> None:
    page.goto("/gallery")
    page.get_by_role("button", name="Find").click()
    options = page.locator("#hits [role=option]")
    expect(options.first).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowUp")
    expect(options.last).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowDown")
    expect(options.first).to_have_attribute("aria-selected", "true")
    # The gallery is not live: there is nothing to pause.
    page.keyboard.type("pause")
    expect(options).to_have_count(0)
    expect(page.locator("#palette-note")).to_have_text("Nothing of that name.")
    page.keyboard.press("Control+a")
    page.keyboard.type("theme")
    expect(options).to_have_count(1)
    with page.expect_response("**/theme"):
        page.keyboard.press("Enter")
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    page.context.clear_cookies(name="tailwright_theme")


@pytest.mark.browser
def test_a_service_that_does_not_answer_is_told_in_words(page: Page) -> None:
    page.goto("/gallery")
    page.route("**/palette?*", lambda route: route.abort())
    page.keyboard.press("Control+k")
    expect(page.locator("#palette-note")).to_have_text("Not looked for: the service does not answer")
