"""A person signs in at a real issuer with a real browser, works under a name, and signs out here and there."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Error, Page, expect

from agents.demo.engines import TAILWRIGHT
from tests.forked_commands import ForkedProcesses, Nursery
from tests.oidc_issuer import CLIENT_ID, CLIENT_SECRET, Issuer, issuing
from tests.processes import answers, free_port, wait_for

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with issuing() as found:
        found.asks_first = True
        yield found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("people")


@pytest.fixture(scope="module")
def url(folder: Path, issuer: Issuer, nursery: Nursery) -> Iterator[str]:
    port = free_port()
    (folder / "secret").touch(mode=0o600)
    (folder / "secret").write_text(CLIENT_SECRET)
    processes = ForkedProcesses(folder / "logs", nursery)
    options = ["--data-dir", str(folder / "data"), "--port", str(port), "--no-tuner", "--no-token-sign-in"]
    options += ["--oidc-issuer", issuer.url, "--oidc-client-id", CLIENT_ID, "--oidc-operator-groups", "ops"]
    options += ["--oidc-admin-groups", "platform"]
    options += ["--oidc-client-secret-file", str(folder / "secret")]
    processes.start("service", [*TAILWRIGHT, "up", *options])
    try:
        wait_for("the service is ready", lambda: answers(f"http://127.0.0.1:{port}/readyz"))
        yield f"http://127.0.0.1:{port}"
    finally:
        processes.stop()


@pytest.fixture
def page(browser: Any, url: str) -> Iterator[Page]:
    context = browser.new_context(base_url=url)
    yield context.new_page()
    context.close()


def to_issuer(page: Page, wanted: str) -> None:
    """By the button of the sign-in page, where whoever is not signed in ends."""
    page.goto(wanted)
    expect(page.locator("input[name=token]")).to_have_count(0)  # Tokens sign nobody in here.
    page.get_by_text("Sign in at").click()
    expect(page.locator("h1")).to_have_text("Issuer")


def test_a_person_signs_in_works_under_a_name_and_signs_out(page: Page, url: str, issuer: Issuer) -> None:
    to_issuer(page, "/ledger?kind=person")
    assert all(cookie["name"] != "tailwright_session" for cookie in page.context.cookies(url))
    page.locator("#yes").click()
    expect(page).to_have_url(f"{url}/ledger?kind=person")  # Where the person wanted to be.
    expect(page.get_by_text("ada@example.com signed in as operator").first).to_be_visible()
    names = {cookie["name"] for cookie in page.context.cookies(url)}
    assert names == {"tailwright_session"}  # The attempt's own is gone.
    page.get_by_role("button", name="More").click()
    page.get_by_role("link", name="Settings").click()
    page.get_by_role("link", name="People and sessions").click()
    row = page.locator("table[data-table=sessions] tbody tr")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("ada@example.com")
    expect(row).to_contain_text("127.0.0.1")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("status")).to_contain_text("You are signed out here")
    assert page.context.cookies(url) == []
    page.get_by_text("too", exact=False).and_(page.locator("a")).click()
    expect(page.locator("body")).to_contain_text(f"Gone{url}/login")
    page.goto("/ledger")
    expect(page).to_have_url(f"{url}/login?next=/ledger")


def test_who_is_in_no_group_reads_which_groups_count(page: Page, issuer: Issuer) -> None:
    issuer.says = {"groups": ["sales"]}
    to_issuer(page, "/fleet")
    with page.expect_response(lambda answer: "/login/callback" in answer.url) as answered:
        page.locator("#yes").click()
    assert answered.value.status == 403
    expect(page.get_by_role("alert")).to_contain_text("Groups that count are admin: platform; operator: ops")
    issuer.says = {}


def test_another_browser_s_answer_signs_nobody_in(browser: Any, page: Page, url: str) -> None:
    """Login CSRF: a victim's browser is led to an answer that an attacker got for himself."""
    to_issuer(page, "/fleet")
    stolen = page.locator("#yes").get_attribute("href")
    victim = browser.new_context(base_url=url)
    opened = victim.new_page()
    opened.goto(stolen)
    expect(opened.get_by_role("alert")).to_contain_text("has not begun to sign in here")
    assert victim.cookies(url) == []
    victim.close()


def test_a_person_ends_the_session_of_another_browser(browser: Any, page: Page, url: str) -> None:
    to_issuer(page, "/settings?tab=people")
    page.locator("#yes").click()
    other = browser.new_context(base_url=url)
    forgotten = other.new_page()
    to_issuer(forgotten, "/fleet")
    forgotten.locator("#yes").click()
    expect(forgotten.locator("h1")).to_have_text("Fleet")
    page.reload()
    theirs = page.locator("table[data-table=sessions] tbody tr").filter(has_not_text="this browser")
    theirs.first.get_by_role("link", name="End").click()
    page.get_by_role("button", name="End it").click()
    expect(page.locator("table[data-table=sessions] tbody tr")).to_have_count(1)
    # Led there by the answer, or before that by the page's own script, which escapes the slash and cuts a reload off.
    with suppress(Error):
        forgotten.reload()
    expect(forgotten).to_have_url(re.compile(re.escape(f"{url}/login?next=") + "(/|%2F)fleet"))
    other.close()


def test_a_person_downloads_what_is_kept(page: Page) -> None:
    to_issuer(page, "/settings?tab=people")
    page.locator("#yes").click()
    with page.expect_download() as got:
        page.get_by_role("link", name="Download what is kept of you").click()
    kept = json.loads(Path(got.value.path()).read_text())
    assert kept["person"]["name"] == "ada@example.com" and len(kept["sessions"]) >= 1
    assert {entry["actor"] for entry in kept["entries"] if entry["kind"] == "person.signed_in"} == {"ada@example.com"}


def test_a_person_is_told_how_tokens_are_made_and_answers_for_them(
    page: Page, url: str, folder: Path, issuer: Issuer
) -> None:
    """An admin's session does not do: it stays a 403 at the API. An admin's token does, and the person is its owner."""
    issuer.says = {"groups": ["platform"]}
    to_issuer(page, "/settings?tab=tokens")
    page.locator("#yes").click()
    told = page.locator("section[aria-labelledby=new-token-title]")
    expect(told).to_contain_text("You are signed in as ada@example.com, by a session.")
    issuer.says = {}
    expect(told.locator("pre")).to_contain_text("tailwright tokens create NAME --scope operate --owner ada@example.com")
    page.locator("#field-name").fill("for ci")
    page.locator("#field-by").fill(page.context.cookies()[0]["value"])
    page.get_by_role("button", name="Make the token").click()
    expect(page.locator("#about-by")).to_contain_text("tailwright_ and 43 characters")
    token = (folder / "data/admin-token").read_text().strip()
    page.locator("#field-by").fill(token)
    page.get_by_role("button", name="Make the token").click()
    expect(page.get_by_role("status").filter(has_text="is made")).to_contain_text("for ci")
    expect(page.locator("table[data-table=tokens] tr", has_text="for ci")).to_contain_text("ada@example.com")
    asked = {"kind": "token.created", "limit": 1}
    entry = httpx.get(f"{url}/api/v1/ledger", params=asked, headers={"Authorization": f"Bearer {token}"}).json()
    assert entry["items"][0]["evidence"]["owner"] == "ada@example.com"
