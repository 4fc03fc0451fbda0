"""The switch between light and dark in a real browser: where one is, remembered, taken back when it was not kept."""

import pytest
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.browser


def test_the_switch_changes_the_page_where_it_is_and_is_remembered(bare_page: Page) -> None:
    bare_page.goto("/studies?refresh=off")
    root = bare_page.locator("html")
    switch = bare_page.locator("header > form [data-action=theme]")
    expect(switch).to_have_text("Theme: auto")
    bare_page.evaluate("window.stayed = true")
    for theme in ("light", "dark"):
        with bare_page.expect_response("**/theme"):
            switch.click()
        expect(root).to_have_attribute("data-theme", theme)
        expect(switch).to_have_text(f"Theme: {theme}")
    assert bare_page.evaluate("window.stayed") is True
    bare_page.goto("/ledger?refresh=off")
    expect(root).to_have_attribute("data-theme", "dark")
    with bare_page.expect_response("**/theme"):
        switch.click()
    assert bare_page.evaluate("'theme' in document.documentElement.dataset") is False


def test_a_choice_that_is_not_kept_is_taken_back(bare_page: Page) -> None:
    bare_page.goto("/studies?refresh=off")
    bare_page.route("**/theme", lambda route: route.abort())
    with bare_page.expect_navigation():
        bare_page.locator("header > form [data-action=theme]").click()
    expect(bare_page.locator("header > form [data-action=theme]")).to_have_text("Theme: auto")
