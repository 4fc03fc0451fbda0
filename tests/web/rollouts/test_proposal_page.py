"""The editor over a real stack: checked as one types, refused beside its field with nothing lost, then proposed."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import BrowserContext, Page, expect

from controlplane.contract.bodies.rollouts import NOT_BEGUN
from controlplane.contract.on_call.rollout_policies import PinCreate
from tests.web.conftest import checked, signed_in
from tests.web.settings.test_settings_page import form_of
from tests.web.settings.test_settings_page import signed_in as http_signed_in
from web.rollouts.proposal_fields import FIELDS

NEW, CHECK = "/rollouts/new", "/parts/rollout_new/checked"
TYPED = "long queues, as typed here"


@pytest.fixture(scope="module")
def admin_context(browser: Any, stack: Any) -> Iterator[BrowserContext]:
    context = signed_in(browser, stack.url, stack.fleet.token("admin-token"))
    yield context
    context.close()


@pytest.fixture
def admin_page(admin_context: BrowserContext) -> Iterator[Page]:
    yield from checked(admin_context)


class Served:
    """The stack as `http_signed_in` wants it."""

    def __init__(self, stack: Any) -> None:
        self.url = stack.url


@pytest.fixture
def admin(stack: Any) -> Iterator[httpx.Client]:
    yield from http_signed_in(Served(stack), stack.fleet.token("admin-token"))
    with stack.client() as client:
        for one in client.rollouts():
            if one.phase in NOT_BEGUN and one.spec.reason == TYPED:
                client.cancel_rollout(one.id)


@pytest.fixture
def said(admin: httpx.Client, stack: Any) -> dict[str, str]:
    """A form that is right, as the page sends it."""
    with stack.client() as client:
        revision = client.node("node-1").desired_revision
    wanted = {"form": form_of(admin), "key": "", "pool": "demo", "revision": str(revision), "max_num_seqs": "11"}
    return {**dict.fromkeys(FIELDS, ""), **wanted, "reason": TYPED}


def counts(stack: Any) -> tuple[int, int]:
    with stack.client() as client:
        return len(client.rollouts()), len(client.configs())


def test_a_check_answers_each_field_and_does_nothing(admin: httpx.Client, stack: Any, said: dict[str, str]) -> None:
    before = counts(stack)
    told = admin.post(CHECK, data={**said, "soak": "soon"})
    assert told.status_code == 200
    assert '<span id="about-soak" class="bad" hx-swap-oob="true">' in told.text
    assert '<span id="about-max_num_seqs" class="when" hx-swap-oob="true">' in told.text
    assert 'data-knob="max_num_seqs"' in told.text and "Not yet: soak: " in told.text
    told = admin.post(CHECK, data=said)
    assert "It can be proposed: 1 node, at most 1 at once." in told.text
    assert "Whom it can hurt" in told.text and "1 of 1 nodes as the canary, then judged" in told.text
    assert counts(stack) == before
    assert admin.post(CHECK, data={**said, "form": "0" * 64}).status_code == 403


def test_labels_choose_the_canary_and_what_none_has_is_refused_at_its_field(
    admin: httpx.Client, said: dict[str, str]
) -> None:
    told = admin.post(CHECK, data={**said, "canary_selector": "node=node-1", "wave_by": "pool"}).text
    assert "1 of 1 nodes (pool demo) as the canary, then judged" in told
    told = admin.post(CHECK, data={**said, "canary_selector": "region=moon"}).text
    assert '<span id="about-canary_selector" class="bad"' in told and "No serving node of pool " in told
    told = admin.post(CHECK, data={**said, "wave_by": "pool", "wave_order": "dem"}).text
    assert '<span id="about-wave_order" class="bad"' in told


def test_what_bounds_it_is_linked_and_a_refusal_loses_nothing(
    admin: httpx.Client, stack: Any, said: dict[str, str]
) -> None:
    with stack.client() as client:
        pin = client.create_pin(PinCreate(pool="demo", reason="looked at"))
    try:
        told = admin.post(CHECK, data=said).text
        assert f'<a href="/rollouts/policies#pin-{pin.id}">Pool demo is pinned to revision {pin.revision}</a>' in told
        refused = admin.post(NEW, data={**said, "act": "begin"})
        assert refused.status_code == 409 and 'id="about-pool" class="bad"' in refused.text
        assert f"pin {pin.id}" in refused.text and f'value="{TYPED}"' in refused.text and 'value="11"' in refused.text
        proposed = admin.post(NEW, data={**said, "act": "propose"})
        assert proposed.status_code == 303
        begun = admin.post(f"{proposed.headers['location']}/start", data={"form": said["form"]})
        assert begun.status_code == 409 and "Nothing was done: " in begun.text
        assert f'href="/rollouts/policies#pin-{pin.id}"' in begun.text
    finally:
        with stack.client() as client:
            client.remove_pin(pin.id)


def test_sent_twice_it_is_proposed_once_and_a_reader_proposes_nothing(
    admin: httpx.Client, stack: Any, said: dict[str, str]
) -> None:
    once = {**said, "act": "propose", "key": "a-key-of-this-page"}
    first, again = (admin.post(NEW, data=once) for _ in range(2))
    assert (first.status_code, again.status_code) == (303, 303)
    assert first.headers["location"] == again.headers["location"]
    wrong = admin.post(NEW, data={**once, "revision": "", "soak": "soon"})
    assert wrong.status_code == 400 and 'id="about-revision" class="bad"' in wrong.text
    assert 'id="about-soak" class="bad"' in wrong.text and 'value="soon"' in wrong.text
    for reader in http_signed_in(Served(stack), stack.fleet.token("dashboard-token")):
        assert 'id="proposal"' not in reader.get(NEW).text
        refused = reader.post(NEW, data={**once, "form": form_of(reader)})
        assert refused.status_code == 403


@pytest.mark.browser
def test_it_is_checked_as_one_types_and_then_proposed(admin_page: Page, admin: httpx.Client, stack: Any) -> None:
    before = counts(stack)
    admin_page.goto("/rollouts")
    admin_page.get_by_role("link", name="New rollout").click()
    seqs = admin_page.get_by_label("max_num_seqs")
    seqs.press_sequentially("99999")
    expect(admin_page.locator("#about-max_num_seqs")).to_contain_text("99999 is outside 1 to 4096")
    expect(seqs).to_have_attribute("aria-invalid", "true")
    expect(seqs).to_be_focused()
    expect(admin_page.get_by_role("status").filter(has_text="Not yet")).to_be_visible()
    seqs.fill("11")
    admin_page.get_by_label("Why").fill(TYPED)
    expect(admin_page.locator("#checked [data-knob=max_num_seqs]")).to_contain_text("live: requests do not wait")
    expect(admin_page.locator("#checked-says")).to_contain_text("It can be proposed")
    expect(seqs).to_have_attribute("aria-invalid", "false")
    admin_page.wait_for_url("**max_num_seqs=11**reason=**")
    assert counts(stack) == before
    admin_page.reload()
    expect(admin_page.get_by_label("Why")).to_have_value(TYPED)
    expect(admin_page.locator("#checked-says")).to_contain_text("It can be proposed")
    admin_page.keyboard.press("Tab")
    admin_page.get_by_role("button", name="Propose it").press("Enter")
    expect(admin_page.locator("h1")).to_contain_text("Rollout ")
    for question in ("What changes", "Whom it can hurt", "What the evidence says", "What happens next"):
        expect(admin_page.get_by_role("region", name=question)).to_be_visible()
    expect(admin_page.get_by_role("region", name="What changes")).to_contain_text("max_num_seqs")
