"""The pages by keyboard: the skip link, the list of shortcuts, and each shortcut's page."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from web.dashboard import PAGES

KEYS = [page.key for page in PAGES.navigation()]


def test_every_page_has_a_key_of_its_own() -> None:
    assert len(set(KEYS)) == len(KEYS) > 4 and "g" not in KEYS
    assert all(len(key) == 1 for key in KEYS)
    assert {page.section for page in PAGES.by_name.values()} - {""} <= {page.name for page in PAGES.navigation()}


@pytest.mark.browser
def test_pages_are_reached_by_keys_and_typing_is_none(bare_page: Page) -> None:
    bare_page.goto("/gallery")
    bare_page.keyboard.press("Tab")
    expect(bare_page.get_by_role("link", name="Skip to the content")).to_be_focused()
    bare_page.keyboard.press("Enter")
    expect(bare_page.locator("main")).to_be_focused()
    bare_page.keyboard.press("?")
    shown = bare_page.get_by_role("dialog", name="Keyboard")
    expect(shown.locator("dt")).to_have_count(len(KEYS) + 5)
    bare_page.keyboard.press("Escape")
    expect(shown).to_be_hidden()
    bare_page.get_by_label("Text").press_sequentially("gl?")
    expect(bare_page.get_by_label("Text")).to_have_value("gl?typed")
    expect(shown).to_be_hidden()
    bare_page.locator("main").focus()
    bare_page.keyboard.press("g")
    bare_page.keyboard.press("l")
    expect(bare_page).to_have_url(re.compile("/ledger$"))


@pytest.mark.browser
def test_a_page_is_walked_through_by_keys(page: Page, stack: Any) -> None:
    for _ in range(2):
        assert stack.complete("def main():", 4).status_code == 200
    page.goto("/requests?pool=demo&from=now-1h")
    rows = page.locator("[data-row]")
    expect(rows.nth(1)).to_be_visible(timeout=60_000)
    page.keyboard.press("/")
    expect(page.get_by_label("Request id")).to_be_focused()
    page.keyboard.type("jk")
    expect(page.get_by_label("Request id")).to_have_value("jk")
    page.locator("main").focus()
    for key, place in (("j", 0), ("j", 1), ("k", 0), ("k", 0)):
        page.keyboard.press(key)
        expect(rows.nth(place)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/requests/.+"))
    page.goto("/?from=now-1h")
    page.keyboard.press("/")
    expect(page.locator("select[name=from]")).to_be_focused()
