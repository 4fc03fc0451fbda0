"""Settings over a real service: who may what, secrets shown once, ends in two steps, and no forged form counts."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from controlplane.contract.bodies.access import Scope, TokenCreate
from controlplane.contract.channels.destinations import (
    Delivery,
    DeliveryState,
    Destination,
    DestinationCreate,
    DestinationHealth,
)
from web.settings.settings_page import TABS, health_of

FORM = re.compile(r'name="form" value="([0-9a-f]+)"')
NOW = datetime(2026, 3, 1, tzinfo=UTC)


def signed_in(bare: Any, token: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=bare.url, timeout=20) as client:
        assert client.post("/login", data={"token": token}).status_code == 303
        yield client


@pytest.fixture
def admin(bare: Any) -> Iterator[httpx.Client]:
    yield from signed_in(bare, bare.token())


@pytest.fixture
def reader(bare: Any) -> Iterator[httpx.Client]:
    yield from signed_in(bare, bare.token("dashboard-token"))


def part(browser: httpx.Client, tab: str) -> str:
    answer = browser.get("/parts/settings/setting", params={"tab": tab})
    assert answer.status_code == 200
    return answer.text


def form_of(browser: httpx.Client) -> str:
    found = FORM.search(browser.get("/settings", params={"tab": "tokens"}).text)
    assert found is not None
    return found[1]


def test_a_reader_sees_no_form_of_settings_and_no_token(reader: httpx.Client, bare: Any) -> None:
    with bare.client() as client:
        made = client.create_destination(DestinationCreate(name="seen", url=f"{bare.url}/nowhere"))
    for tab in TABS:
        page = reader.get("/settings", params={"tab": tab})
        assert page.status_code == 200
        assert 'action="/settings' not in page.text + part(reader, tab)
    assert "scope admin" in part(reader, "tokens")
    assert "seen" in part(reader, "destinations")
    with bare.client() as client:
        client.delete_destination(made.id)


def test_a_reader_who_sends_a_form_anyway_is_refused(reader: httpx.Client, bare: Any) -> None:
    form = form_of(reader)
    assert reader.post("/settings/tokens/1/end", data={"form": form}).status_code == 403
    with_own = {"form": form, "name": "x", "scope": "admin", "by": bare.token("dashboard-token")}
    refused = reader.post("/settings/tokens", data=with_own)
    assert refused.status_code == 403
    assert (
        reader.post("/settings/destinations", data={"form": form, "name": "x", "url": "http://a/"}).status_code == 403
    )
    with bare.client() as client:
        assert not [one for one in client.tokens() if one.name == "x" or (one.id == 1 and one.revoked_at)]


@pytest.mark.parametrize(
    "path",
    [
        *("/settings/tokens", "/settings/tokens/1/end", "/settings/people/1/end", "/settings/destinations"),
        *("/settings/destinations/1", "/settings/destinations/1/test", "/settings/destinations/1/end"),
    ],
)
@pytest.mark.parametrize("forged", ["", "0" * 64])
def test_a_forged_form_is_a_403(admin: httpx.Client, path: str, forged: str) -> None:
    assert admin.post(path, data={"form": forged, "name": "forged", "scope": "read"}).status_code == 403


def test_a_token_is_made_by_an_admins_token_and_shown_once(admin: httpx.Client, bare: Any) -> None:
    said = {"form": form_of(admin), "name": "made here", "scope": "enrol", "nodes": "gpu-*", "uses": "2"}
    refused = admin.post("/settings/tokens", data=said | {"by": "tailwright_" + "a" * 43})
    assert refused.status_code == 401 and 'id="about-by"' in refused.text
    assert 'value="made here"' in refused.text and 'value="gpu-*"' in refused.text
    wrong = admin.post("/settings/tokens", data=said | {"uses": "many", "by": bare.token()})
    assert wrong.status_code == 400 and 'id="about-uses"' in wrong.text and bare.token() not in wrong.text
    made = admin.post("/settings/tokens", data=said | {"by": bare.token()})
    assert (made.status_code, made.headers["Cache-Control"]) == (200, "no-store")
    assert "You are signed in as" not in admin.get("/settings?tab=tokens").text, "a token is at hand"
    secret = re.search(r'<code class="secret">(tailwright_[\w-]{43})</code>', made.text)
    assert secret is not None
    assert secret[1] not in part(admin, "tokens") + admin.get("/settings?tab=tokens").text
    with bare.client() as client:
        token = next(one for one in client.tokens() if one.name == "made here")
        assert token.scope is Scope.ENROL and token.enrolment is not None and token.enrolment.uses == 2
        client.revoke_token(token.id)


def test_own_words_are_previewed_before_anything_is_made(admin: httpx.Client, bare: Any) -> None:
    said = {"form": form_of(admin), "name": "chat", "kind": "slack", "act": "preview", "text_template": "{{ rule }}?"}
    shown = admin.post("/settings/destinations", data=said)
    assert shown.status_code == 200 and "<pre>Latency regression?</pre>" in shown.text
    assert 'value="chat"' in shown.text and "{{ rule }}?" in shown.text
    wrong = admin.post("/settings/destinations", data={**said, "text_template": "{{ rul }}"})
    assert wrong.status_code == 400 and "did you mean &#39;rule&#39;?" in wrong.text
    with bare.client() as client:
        assert [one for one in client.destinations() if one.name == "chat"] == []


def test_where_a_form_was_sent_leads_to_its_tab(admin: httpx.Client) -> None:
    answer = admin.get("/settings/tokens")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/settings?tab=tokens")
    assert admin.get("/settings?tab=nothing").status_code == 400
    assert admin.get("/settings?tab=tokens&end=token/999999").status_code == 404
    assert admin.get("/settings?end=pool/1").status_code == 404


def test_a_destination_s_state_is_its_health_in_a_word() -> None:
    destination = Destination(id=1, name="a", url="https://a/***", signed=False, enabled=True, created_at=NOW)

    def sent(state: DeliveryState, attempts: int = 1, to: int = 1) -> Delivery:
        return Delivery(id=1, alert_id=1, destination_id=to, state=state, status="firing", attempts=attempts)

    def kind_with(**health: Any) -> str:
        return health_of(destination.model_copy(update={"health": DestinationHealth(**health)}), []).kind

    assert kind_with() == "unknown"
    assert kind_with(last_success_at=NOW) == "good"
    assert kind_with(last_success_at=NOW, failures_in_row=2, dead=1) == "bad"
    assert kind_with(last_success_at=NOW, dead=1) == "warn"
    assert kind_with(last_success_at=NOW, held_by_rate_until=NOW) == "warn"
    newest = sent(DeliveryState.DELIVERED)
    others = [sent(DeliveryState.WAITING, 0), sent(DeliveryState.GIVEN_UP, to=2), newest, sent(DeliveryState.GIVEN_UP)]
    assert health_of(destination, others).last is newest
    assert health_of(destination.model_copy(update={"enabled": False}), [newest]).kind == "stale"


def test_a_destination_of_any_kind_is_made_and_what_is_wrong_stands_at_its_field(
    admin: httpx.Client, bare: Any
) -> None:
    said = {"form": form_of(admin), "name": "mail", "kind": "email", "url": "smtp://mail.test:587"}
    said |= {"recipients": "a@b.test, c@d.test", "sender": "no address", "secret": "password-1", "login": "me"}
    refused = admin.post("/settings/destinations", data=said)
    assert refused.status_code == 400 and 'id="about-sender"' in refused.text and "password-1" not in refused.text
    assert admin.post("/settings/destinations", data={**said, "sender": "t@b.test"}).status_code == 303
    with bare.client() as client:
        made = client.destinations()[0]
        assert (made.kind, made.recipients, made.sender) == ("email", ["a@b.test", "c@d.test"], "t@b.test")
        form = admin.get(f"/settings?tab=destinations&edit=destination/{made.id}").text
        assert "Change destination mail" in form and 'value="a@b.test, c@d.test"' in form and "password-1" not in form
        path, plain = f"/settings/destinations/{made.id}", {**said, "sender": "t@b.test", "url": "", "secret": ""}
        assert admin.post(path, data={**plain, "only": "severity=page"}).status_code == 303
        changed = client.destinations()[0]
        assert changed.only is not None and changed.signed and not changed.enabled
        moved = admin.post(path, data={**plain, "url": "smtp://other.test:587"})
        assert moved.status_code == 400 and 'id="about-secret"' in moved.text and "give the secret anew" in moved.text
        answer = admin.post(f"/settings/destinations/{made.id}/replay", data={"form": said["form"]})
        assert answer.status_code == 200 and "0 dead letters" in answer.text
        client.delete_destination(made.id)


@pytest.mark.browser
def test_a_token_is_revoked_in_two_steps(bare_page: Page, bare: Any) -> None:
    with bare.client() as client:
        made = client.create_token(TokenCreate(name="to be revoked", scope=Scope.READ))
    bare_page.goto("/settings")
    bare_page.get_by_role("navigation", name="Settings").get_by_role("link", name="Tokens").click()
    bare_page.get_by_role("link", name="Revoke to be revoked").click()
    bare_page.get_by_role("link", name="Keep it").click()
    bare_page.get_by_role("link", name="Revoke to be revoked").click()
    bare_page.get_by_role("button", name="Revoke it").click()
    expect(bare_page).to_have_url(f"{bare.url}/settings?tab=tokens")
    expect(bare_page.locator("[data-table=tokens]")).not_to_contain_text("to be revoked")
    with bare.client() as client:
        assert next(one for one in client.tokens() if one.id == made.id).revoked_at is not None


@pytest.mark.browser
def test_a_destination_is_added_tested_and_removed(bare_page: Page, bare: Any) -> None:
    bare_page.goto("/settings?tab=destinations")
    bare_page.get_by_label("Name", exact=True).fill("a hook")
    bare_page.get_by_label("URL", exact=True).fill(f"{bare.url}/nowhere/of/secret")
    bare_page.get_by_role("button", name="Add it").click()
    row = bare_page.locator("[data-table=destinations] tr", has_text="a hook")
    expect(row).to_contain_text("/***")
    row.get_by_role("button", name="Test a hook").click()
    expect(bare_page.get_by_role("status").filter(has_text="test")).to_contain_text("404")
    row.get_by_role("link", name="Remove a hook").click()
    bare_page.get_by_role("button", name="Remove it").click()
    expect(row).to_have_count(0)
