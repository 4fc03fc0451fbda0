"""The form of a new study over a real stack: looked at as one types, refused beside its field with nothing lost, then
started."""

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, cast

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, Page, Route, expect

from controlplane.api.body_examples import EXAMPLES
from controlplane.contract.bodies.access import Scope
from controlplane.contract.bodies.workload import PromptSetCreate, WorkloadCreate
from controlplane.contract.errors import Conflict
from tests.web.conftest import checked, signed_in
from tests.web.part_html import part_html
from tests.web.rollouts.test_proposal_page import Served
from tests.web.settings.test_settings_page import form_of
from tests.web.settings.test_settings_page import signed_in as http_signed_in
from web.studies.studies_page import LIST

NEW, CHECK = "/studies/new", "/parts/study_new/checked"
TYPED = "slow at noon, as typed here"
PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def admin_context(browser: Any, stack: Any) -> Iterator[BrowserContext]:
    context = signed_in(browser, stack.url, stack.fleet.token("admin-token"))
    yield context
    context.close()


@pytest.fixture
def admin_page(admin_context: BrowserContext) -> Iterator[Page]:
    yield from checked(admin_context)


@pytest.fixture
def admin(stack: Any) -> Iterator[httpx.Client]:
    yield from http_signed_in(Served(stack), stack.fleet.token("admin-token"))
    with stack.client() as client:
        for one in client.studies():
            with suppress(Conflict):  # It has ended already: no trial node is there.
                client.cancel_study(one.id)


@pytest.fixture
def said(admin: httpx.Client) -> dict[str, str]:
    """A form that is right, as the page sends it."""
    return {"form": form_of(admin), "pool": "demo", "objective": "ttft", "max_trials": "3", "reason": TYPED}


def count(stack: Any) -> int:
    with stack.client() as client:
        return len(client.studies())


def test_a_check_answers_each_field_and_does_nothing(admin: httpx.Client, stack: Any, said: dict[str, str]) -> None:
    before = count(stack)
    told = admin.post(CHECK, data={**said, "max_trials": "2"})
    assert told.status_code == 200
    assert '<span id="about-max_trials" class="bad" hx-swap-oob="true">' in told.text
    assert '<span id="about-reason" class="when" hx-swap-oob="true">' in told.text
    assert "Not yet: Trials: " in told.text
    told = admin.post(CHECK, data=said)
    assert "It can be started; no trial node can run it now" in told.text
    assert "Tries at most 3 configurations in at most 10m, for a lower TTFT p95." in told.text
    nowhere = admin.post(CHECK, data={**said, "pool": "nowhere"}).text
    assert "&#39;nowhere&#39; has no serving nodes" in nowhere and "What it does" not in nowhere
    assert count(stack) == before
    assert admin.post(CHECK, data={**said, "form": "0" * 64}).status_code == 403


def test_kept_workloads_and_profiles_are_offered_beside_what_the_pool_served(
    admin: httpx.Client, stack: Any, said: dict[str, str]
) -> None:
    with stack.client() as client:
        client.add_workload(cast(WorkloadCreate, EXAMPLES["WorkloadCreate"]["five requests that begin alike"]))
        try:
            shown = admin.get(NEW, params={"workload": "profile:rag@2.5"}).text
            offered = re.findall(
                r'<option value="([^"]*)"', shown.split('id="field-workload"')[1].split("</select>")[0]
            )
            assert offered[:4] == ["", "friday", "profile:rag@2.5", "profile:chat@1"]
            assert '<option value="profile:rag@2.5" selected>' in shown
            assert (
                "Replays workload friday, as if pool demo had"
                in admin.post(CHECK, data=said | {"workload": "friday"}).text
            )
            wrong = admin.post(CHECK, data=said | {"workload": "profile:rag@0"}).text
            assert '<span id="about-workload" class="bad"' in wrong and "Wants requests a second" in wrong
        finally:
            client.remove_workload("friday")


def test_kept_prompts_are_offered_beside_the_bundled_text(
    admin: httpx.Client, stack: Any, said: dict[str, str]
) -> None:
    with stack.client() as client:
        client.add_prompt_set(cast(PromptSetCreate, EXAMPLES["PromptSetCreate"]["five prompts that begin alike"]))
        try:
            shown = admin.get(NEW, params={"prompts": "support"}).text
            assert '<option value="support" selected>prompt set support</option>' in shown
            looked = admin.post(CHECK, data=said | {"prompts": "support"}).text
            assert "traffic with the text of prompt set support" in looked
            refused = admin.post(CHECK, data=said | {"prompts": "support", "where": "online"}).text
            assert '<span id="about-prompts" class="bad"' in refused
        finally:
            client.remove_prompt_set("support")


def test_a_refusal_loses_nothing(admin: httpx.Client, stack: Any, said: dict[str, str]) -> None:
    before = count(stack)
    wrong = {**said, "pool": "nowhere", "act": "start", "constraints": "ttft p95 1s\nitl p99 200ms", "finalists": "2"}
    refused = admin.post(NEW, data=wrong)
    assert refused.status_code == 400 and 'id="about-pool" class="bad"' in refused.text
    assert f'value="{TYPED}"' in refused.text and "ttft p95 1s\nitl p99 200ms</textarea>" in refused.text
    assert '<details data-key="finish" open>' in refused.text and '<details data-key="space">' in refused.text
    refused = admin.post(NEW, data={**said, "act": "start", "max_num_seqs": "9 to 1"})
    assert refused.status_code == 400 and 'id="about-max_num_seqs" class="bad"' in refused.text
    assert 'value="9 to 1"' in refused.text and '<details data-key="space" open>' in refused.text
    looked = admin.post(NEW, data={**said, "act": "check"})
    assert looked.status_code == 200 and "What it does" in looked.text
    assert count(stack) == before


def test_it_is_started_as_it_was_said_and_a_reader_starts_nothing(
    admin: httpx.Client, stack: Any, said: dict[str, str]
) -> None:
    own = {"act": "start", "profile": "chat", "max_num_seqs": "8, 16", "winner": "told", "tolerance": "20 %"}
    started = admin.post(NEW, data={**said, **own})
    assert started.status_code == 303
    with stack.client() as client:
        study = client.study(int(started.headers["location"].removeprefix("/studies/")))
    assert (study.spec.pool, study.spec.objective, study.spec.max_trials) == ("demo", "ttft", 3)
    assert study.spec.space["max_num_seqs"].choices == [8, 16] and not study.spec.propose_rollout
    assert [limit.metric for limit in study.spec.constraints] == ["ttft", "itl"]
    assert study.spec.rollout == {"tolerance": 0.2} and study.spec.reason == TYPED
    before = count(stack)
    for reader in http_signed_in(Served(stack), stack.fleet.token("dashboard-token")):
        text = reader.get(NEW).text
        assert 'id="proposal"' not in text and "scope operate" in text
        assert reader.post(NEW, data={**said, "act": "start", "form": form_of(reader)}).status_code == 403
    assert count(stack) == before


def test_sent_twice_it_is_started_once(admin: httpx.Client, stack: Any, said: dict[str, str]) -> None:
    before, page = count(stack), admin.get(NEW).text
    (key,) = re.findall(r'name="key" value="([\w-]+)"', page)
    assert key not in admin.get(NEW).text, "each time that it is opened it is another form"
    once = {**said, "act": "start", "key": key}
    first, again = (admin.post(NEW, data=once) for _ in range(2))
    assert (first.status_code, again.status_code) == (303, 303)
    assert first.headers["location"] == again.headers["location"] and count(stack) == before + 1
    other = admin.post(NEW, data={**once, "max_trials": "4"})
    assert other.status_code == 409 and "his page has started another study already" in other.text
    (new,) = re.findall(r'name="key" value="([\w-]+)"', other.text)
    assert new != key and admin.post(NEW, data={**once, "max_trials": "4", "key": new}).status_code == 303
    assert count(stack) == before + 2


@pytest.mark.browser
def test_a_double_click_starts_one(admin_page: Page, admin: httpx.Client, stack: Any) -> None:
    before = count(stack)
    admin_page.goto(f"{NEW}?max_trials=3&reason=clicked")
    admin_page.get_by_role("button", name="Start it").dblclick(no_wait_after=True)
    admin_page.wait_for_url("**/studies/*")
    expect(admin_page.locator("h1")).to_contain_text("Study ")
    assert count(stack) == before + 1


def test_who_may_start_one_is_led_to_it() -> None:
    class Service:
        def __init__(self, scope: Scope) -> None:
            self.scope = scope

        def studies(self) -> list[Any]:
            return []

        def own_session(self) -> Any:
            return self

    assert NEW not in part_html(LIST, "studies", Service(Scope.READ))
    assert 'href="/studies/new?pool=chat"' in part_html(LIST, "studies", Service(Scope.OPERATE), pool="chat")


@pytest.mark.browser
def test_it_is_looked_at_as_one_types_and_then_started(admin_page: Page, admin: httpx.Client, stack: Any) -> None:
    before = count(stack)
    admin_page.goto("/studies")
    admin_page.get_by_role("link", name="New study").click()
    trials = admin_page.get_by_label("Trials")
    trials.press_sequentially("2")
    expect(admin_page.locator("#about-max_trials")).to_contain_text("greater than or equal to 3")
    expect(trials).to_have_attribute("aria-invalid", "true")
    expect(trials).to_be_focused()
    expect(admin_page.get_by_role("status").filter(has_text="Not yet")).to_be_visible()
    trials.fill("3")
    admin_page.get_by_label("Limits").fill("ttft p95 1s\nitl p99 200ms")
    admin_page.get_by_text("What is searched").press("Enter")
    admin_page.get_by_label("max_num_seqs").fill("8 to 32 log")
    admin_page.get_by_label("Why").fill(TYPED)
    expect(admin_page.locator("#checked")).to_contain_text("max_num_seqs 8 to 32 on a logarithmic scale")
    expect(admin_page.locator("#checked-says")).to_contain_text("It can be started")
    expect(trials).to_have_attribute("aria-invalid", "false")
    admin_page.wait_for_url("**reason=**max_num_seqs=8**")
    assert count(stack) == before
    admin_page.reload()
    expect(admin_page.get_by_label("Why")).to_have_value(TYPED)
    expect(admin_page.get_by_label("Limits")).to_have_value("ttft p95 1s\nitl p99 200ms")
    expect(admin_page.get_by_label("max_num_seqs")).to_be_visible()
    admin_page.get_by_role("button", name="Start it").press("Enter")
    expect(admin_page.locator("h1")).to_contain_text("Study ")
    assert count(stack) == before + 1


@pytest.mark.browser
def test_what_is_typed_before_the_page_listens_is_looked_at_too(admin_page: Page) -> None:
    held: list[Route] = []
    admin_page.route("**/htmx.min*.js", lambda route: held.append(route))
    admin_page.goto(NEW, wait_until="commit")
    admin_page.get_by_label("Trials").fill("2")
    assert len(held) == 1
    held[0].continue_()
    expect(admin_page.locator("#about-max_trials")).to_contain_text("greater than or equal to 3")
    admin_page.unroute("**/htmx.min*.js")


@pytest.mark.browser
def test_unfolded_and_wrong_it_has_no_violation_and_fits_a_phone(admin_page: Page) -> None:
    admin_page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    admin_page.goto(f"{NEW}?max_trials=2&constraints=fast&max_num_seqs=9+to+1&workload_s=x&finalists=9&soak=soon")
    expect(admin_page.locator("details[open]")).to_have_count(4)
    expect(admin_page.locator(".wrong")).to_have_count(6)
    found = Axe().run(admin_page, options={"resultTypes": ["violations"]}).response["violations"]
    assert [one["id"] for one in found] == []
    assert admin_page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
