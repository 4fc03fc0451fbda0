"""Policies and freeze windows over a real service: seen, made, changed, ended in two steps, and by whom."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from controlplane.contract.bodies.access import Scope, TokenCreate
from tests.web.settings.test_settings_page import form_of, signed_in

PATH = "/rollouts/policies"
POLICY = {"pool": "chat", "approval": "yes", "approvers": "ben, on call", "step": "25 %", "opens": "09:00"}
POLICY |= {"canary_selector": "gpu in (H100,H200)", "wave_by": "region", "wave_order": "eu-1, us-2"}
POLICY |= {"wave_soak": "1h", "wave_pause": "yes"}
POLICY |= {"closes": "16:30", "days": "mon to fri", "zone": "Europe/London"}


@pytest.fixture
def admin(bare: Any) -> Iterator[httpx.Client]:
    yield from signed_in(bare, bare.token())
    with bare.client() as client:
        for policy in client.rollout_policies():
            client.remove_rollout_policy(policy.id)
        for freeze in client.freezes():
            client.lift_freeze(freeze.id)


@pytest.fixture
def operator(bare: Any) -> Iterator[httpx.Client]:
    with bare.client() as client:
        made = client.create_token(TokenCreate(name="on call", scope=Scope.OPERATE))
    yield from signed_in(bare, made.token)


def part(browser: httpx.Client) -> str:
    answer = browser.get("/parts/guards/guards")
    assert answer.status_code == 200
    return answer.text


def test_a_policy_is_made_changed_and_removed(admin: httpx.Client, bare: Any) -> None:
    form = {"form": form_of(admin)}
    assert admin.post(f"{PATH}/policy", data={**POLICY, **form}).status_code == 303
    with bare.client() as client:
        (made,) = client.rollout_policies()
    assert (made.pool, made.approvers, made.max_step_share) == ("chat", ["ben", "on call"], 0.25)
    text = part(admin)
    assert "mon to fri, 09:00 to 16:30 (Europe/London)" in text and f'id="policy-{made.id}"' in text
    assert "The canary is one of gpu in (H100, H200); Waves go by region, one after another: eu-1, us-2" in text
    open_form = admin.get(PATH, params={"edit": f"policy/{made.id}"}).text
    assert 'value="gpu in (H100, H200)"' in open_form and 'value="eu-1, us-2"' in open_form
    assert 'value="25 %"' in open_form and 'value="mon, tue, wed, thu, fri"' in open_form
    assert admin.post(f"{PATH}/policy", data={**POLICY, **form, "step": "0.5"}).status_code == 303
    with bare.client() as client:
        (changed,) = client.rollout_policies()
    assert (changed.id, changed.max_step_share) == (made.id, 0.5)
    asked = admin.get(PATH, params={"end": f"policy/{made.id}"}).text
    assert "Remove the policy of pool chat?" in asked
    assert admin.post(f"{PATH}/policy/{made.id}/end", data=form).status_code == 303
    assert "No policy: scopes alone hold." in part(admin)
    assert admin.get(PATH, params={"end": f"policy/{made.id}"}).status_code == 404


def test_what_is_wrong_stands_at_its_field_and_nothing_is_lost(admin: httpx.Client, bare: Any) -> None:
    form = {"form": form_of(admin)}
    refused = admin.post(f"{PATH}/policy", data={**POLICY, **form, "days": "someday"})
    assert refused.status_code == 400 and 'id="about-days" class="bad"' in refused.text
    assert 'value="ben, on call"' in refused.text and 'value="someday"' in refused.text
    refused = admin.post(
        f"{PATH}/freeze", data={**form, "ends": "2026-01-01", "starts": "2025-12-31", "reason": "late"}
    )
    assert refused.status_code == 400 and 'id="about-ends" class="bad"' in refused.text
    refused = admin.post(f"{PATH}/pin", data={**form, "pool": "chat", "node": "nobody", "reason": "x"})
    assert refused.status_code == 400 and 'id="about-node" class="bad"' in refused.text
    with bare.client() as client:
        assert (client.rollout_policies(), client.freezes(), client.pins()) == ([], [], [])


def test_an_operator_freezes_and_an_admin_lifts(admin: httpx.Client, operator: httpx.Client, bare: Any) -> None:
    form = {"form": form_of(operator)}
    assert operator.post(f"{PATH}/policy", data={**POLICY, **form}).status_code == 403
    assert operator.post(f"{PATH}/freeze", data={**form, "ends": "2d", "reason": "holiday"}).status_code == 303
    text = part(operator)
    assert "every pool" in text and "holiday" in text and "holds" in text
    assert "New freeze window" in text and "New policy" not in text and "Lift" not in text
    with bare.client() as client:
        (window,) = client.freezes()
    assert operator.post(f"{PATH}/freeze/{window.id}/end", data=form).status_code == 403
    assert f"end=freeze%2F{window.id}" in part(admin)
    assert admin.post(f"{PATH}/freeze/{window.id}/end", data={"form": form_of(admin)}).status_code == 303
    assert "None holds or is to come." in part(admin)


def test_who_only_reads_sees_no_door_and_a_forged_form_does_nothing(admin: httpx.Client, bare: Any) -> None:
    for reader in signed_in(bare, bare.token("dashboard-token")):
        assert "edit=" not in part(reader) and "<form class" not in reader.get(PATH, params={"edit": "pin/new"}).text
    for path in ("/policy", "/freeze", "/pin", "/freeze/1/end"):
        assert admin.post(PATH + path, data={**POLICY, "form": "0" * 64}).status_code == 403
    assert admin.post(f"{PATH}/magic", data={"form": form_of(admin)}).status_code == 404
    assert admin.get(PATH, params={"edit": "freeze/9"}).status_code == 404


@pytest.mark.browser
def test_a_window_is_made_and_lifted_by_hand(bare_page: Page, bare: Any) -> None:
    bare_page.goto("/rollouts")
    bare_page.get_by_role("link", name="Policies, freezes and pins").click()
    bare_page.get_by_role("link", name="New freeze window").click()
    bare_page.get_by_label("Until").fill("2d")
    bare_page.get_by_role("button", name="Freeze").click()
    expect(bare_page.get_by_role("alert")).to_contain_text("Say why".lower())
    bare_page.get_by_label("Why").fill("by hand")
    bare_page.get_by_role("button", name="Freeze").click()
    row = bare_page.locator("[data-table=freezes] tr", has_text="by hand")
    expect(row).to_contain_text("holds")
    row.get_by_role("link", name="Lift").click()
    bare_page.get_by_role("button", name="Lift it").click()
    expect(bare_page.locator("main")).to_contain_text("None holds or is to come.")
