"""Sign-in keeps the whole address and never leads elsewhere; unknown pages and things are named, with a way back."""

from typing import Any
from urllib.parse import quote, urljoin, urlsplit

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import Page, expect

from web.dashboard import PAGES
from web.frame.format import sentence
from web.pages.refusals import local

LEDGER = "/ledger?kind=rollout&note=a%20%26%20b%2Bc"
DEEP = "/explore?pool=chat%20%26%20code&from=now-1h&to=now&at=2026-03-01T12%3A00%3A00%2B00%3A00"


@pytest.mark.browser
def test_sign_in_leads_to_the_whole_address_that_was_asked_for(browser: Any, bare: Any) -> None:
    context = browser.new_context(base_url=bare.url)
    opened = context.new_page()
    opened.goto(LEDGER)
    opened.get_by_label("Token").fill(bare.token())
    opened.get_by_role("button", name="Sign in").click()
    expect(opened).to_have_url(bare.url + LEDGER)
    # The session ends elsewhere while the page is open: its script keeps the address, too.
    elsewhere = context.new_page()
    elsewhere.goto("/fleet")
    elsewhere.get_by_role("button", name="Sign out").click()
    expect(opened).to_have_url(bare.url + "/login?next=" + quote(LEDGER, safe="!'()*"))
    expect(opened.locator("main input[name=next]")).to_have_value(LEDGER)
    context.close()


@pytest.mark.browser
def test_an_unknown_page_is_a_404_in_the_dashboards_layout(bare_page: Page) -> None:
    for path in ("/nope", "/nope/7", "/deep/down/below"):
        answer = bare_page.goto(path)
        assert answer is not None and answer.status == 404
        expect(bare_page.locator("main")).to_contain_text(f"There is no page {path}.")
        navigation = bare_page.get_by_role("navigation", name="Main")
        navigation.get_by_role("button", name="More").click()
        expect(navigation.get_by_role("link")).to_have_count(len(PAGES.navigation()))
        expect(bare_page.locator("main").get_by_role("link", name="Now", exact=True)).to_have_attribute("href", "/")


@pytest.mark.browser
def test_an_error_names_the_thing_and_links_to_its_list(bare_page: Page) -> None:
    wanted = {"/alerts/99": ("There is no alert 99.", "Alerts"), "/studies/99": ("There is no study 99.", "Studies")}
    wanted |= {"/rollouts/99": ("There is no rollout 99.", "Rollouts"), "/nodes/gpu": ("'gpu'", "Fleet")}
    for path, (words, back) in wanted.items():
        answer = bare_page.goto(path)
        assert answer is not None and answer.status == 404
        expect(bare_page.locator("main")).to_contain_text(words)
        expect(bare_page.locator("main").get_by_role("link", name=back)).to_have_attribute("href", f"/{back.lower()}")


def test_the_api_keeps_its_own_answers(bare: Any) -> None:
    html = {"Accept": "text/html"}
    with httpx.Client(base_url=bare.url, headers=html) as client:
        unknown = client.get("/api/v1/nope")
        assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "not_found")
        assert client.get("/api/v1/studies/1/cancel").status_code == 405
        assert client.get("/deep/down/below", headers={"Accept": "*/*"}).json()["error"]["code"] == "not_found"
        assert "There is no page" in client.get("/deep/down/below").text
        # A form of a session that has ended leads back to its page, not to the form's own address.
        sent = client.post("/rollouts/3/start")
        assert (sent.status_code, sent.headers["location"]) == (303, "/login?next=/rollouts/3")
        for path in ("/parts/fleet/fleet", "/live/fleet"):
            asked = client.get(path)
            assert (asked.status_code, asked.json()["error"]["code"]) == (401, "unauthenticated")


def test_a_method_that_a_page_does_not_take_is_a_405_and_counted(bare: Any) -> None:
    with httpx.Client(base_url=bare.url) as client:
        for method, path in (("PATCH", "/login"), ("POST", "/assets/x"), ("PUT", "/"), ("OPTIONS", "/fleet")):
            answer = client.request(method, path)
            assert (answer.status_code, answer.json()["error"]["code"]) == (405, "method_not_allowed"), (method, path)
            assert answer.headers["Allow"]


SITE = "https://tailwright.example"


@given(st.text(alphabet="/\\:@?#.%&= \t\n\rhtpsevilé", max_size=14))
def test_no_target_leads_to_another_site(target: str) -> None:
    # As a browser reads it: tabs and line ends left out, a backslash is a slash.
    read = local("/" + target)
    for sign in "\t\n\r":
        read = read.replace(sign, "")
    assert urlsplit(urljoin(SITE, read.replace("\\", "/"))).netloc == urlsplit(SITE).netloc


@pytest.mark.parametrize("target", ["/", "/fleet", DEEP, "/explore?metric=ttft#more-charts", "/a//b", "/x?u=http://y"])
def test_targets_on_this_site_are_kept_whole(target: str) -> None:
    assert local(target) == target


@pytest.mark.parametrize(
    "target",
    ["//evil.example", "https://evil.example", "/\\evil.example", "/\t/evil.example", "evil", "", "///e", "http://["],
)
def test_others_become_the_first_page(target: str) -> None:
    assert local(target) == "/"


def test_messages_become_sentences() -> None:
    assert sentence("no alert 99") == "There is no alert 99."
    assert sentence("span: 'x' is none of 5m") == "span: 'x' is none of 5m."
    assert sentence("Try again!") == "Try again!"
