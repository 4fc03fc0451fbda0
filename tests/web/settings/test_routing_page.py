"""Routes, inhibit rules and silences in settings, over a real service: seen, made, changed, removed, and by whom."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from controlplane.contract.bodies.access import Scope, TokenCreate
from controlplane.contract.bodies.alerts import SilenceCreate
from controlplane.contract.clock import utc_now
from tests.web.settings.test_settings_page import form_of, part, signed_in

ROUTE = {"name": "chat", "owner": "team-chat", "matchers": "pool=chat", "group_by": "pool", "position": "10"}
RULE = {"name": "pages first", "source": "severity=page", "target": "severity=ticket", "equal": "pool"}


@pytest.fixture
def operator(bare: Any) -> Iterator[httpx.Client]:
    with bare.client() as client:
        made = client.create_token(TokenCreate(name="on call", scope=Scope.OPERATE))
    yield from signed_in(bare, made.token)
    with bare.client() as client:
        for route in client.routes():
            client.delete_route(route.id)
        for rule in client.inhibit_rules():
            client.delete_inhibit_rule(rule.id)


@pytest.fixture
def reader(bare: Any) -> Iterator[httpx.Client]:
    yield from signed_in(bare, bare.token("dashboard-token"))


def page_of(browser: httpx.Client, edit: str) -> httpx.Response:
    return browser.get("/settings", params={"tab": "routing", "edit": edit})


def test_a_route_is_made_changed_and_removed(operator: httpx.Client, bare: Any) -> None:
    form = {"form": form_of(operator)}
    assert "No route" in part(operator, "routing")
    assert 'action="/settings/routes"' in page_of(operator, "route/new").text
    assert operator.post("/settings/routes", data={**ROUTE, **form}).status_code == 303
    with bare.client() as client:
        made = client.routes()[0]
        assert (made.matchers, made.group_by, made.position) == ({"pool": "chat"}, ["pool"], 10)
        changing = page_of(operator, f"route/{made.id}").text
        assert f'action="/settings/routes/{made.id}"' in changing and ">pool=chat</textarea>" in changing
        path = f"/settings/routes/{made.id}"
        assert operator.post(path, data={**ROUTE, **form, "owner": "team-bot"}).status_code == 303
        assert client.routes()[0].owner == "team-bot"
        ended = operator.post(f"{path}/end", data=form)
        assert (ended.status_code, ended.headers["Location"]) == (303, "/settings?tab=routing")
        assert client.routes() == []
        assert operator.post(path, data={**ROUTE, **form}).status_code == 404, "it is gone, and said to be"


def test_what_is_wrong_stands_at_its_field_and_nothing_is_lost(operator: httpx.Client, bare: Any) -> None:
    form = {"form": form_of(operator)}
    refused = operator.post("/settings/routes", data={**ROUTE, **form, "group_by": "pool, pool"})
    assert refused.status_code == 400 and 'id="about-group_by"' in refused.text
    assert 'value="team-chat"' in refused.text and ">pool=chat</textarea>" in refused.text
    refused = operator.post("/settings/inhibit-rules", data={**RULE, **form, "target": "pool=~(a"})
    assert refused.status_code == 400 and 'id="about-target"' in refused.text
    with bare.client() as client:
        assert client.routes() == [] and client.inhibit_rules() == []


def test_an_inhibit_rule_is_made_and_changed(operator: httpx.Client, bare: Any) -> None:
    form = {"form": form_of(operator)}
    assert operator.post("/settings/inhibit-rules", data={**RULE, **form}).status_code == 303
    with bare.client() as client:
        number = client.inhibit_rules()[0].id
        changed = {**RULE, **form, "target": "severity=ticket\nkind=~symptom|drift"}
        assert operator.post(f"/settings/inhibit-rules/{number}", data=changed).status_code == 303
        assert client.inhibit_rules()[0].target.patterns == {"kind": "symptom|drift"}
    assert "kind=~symptom|drift" in part(operator, "routing")


def test_a_silence_by_pattern_is_tried_and_made(operator: httpx.Client, bare: Any) -> None:
    form = {"form": form_of(operator)}
    said = {"alerts_with": "severity=ticket\npool=~night-.*", "lasts": "8h", "reason": "the batch <jobs>"}
    assert 'href="/settings?tab=routing&amp;edit=silence%2Fnew"' in part(operator, "routing")
    assert 'action="/settings/silences"' in page_of(operator, "silence/new").text
    tried = operator.post("/settings/silences", data={**said, **form, "act": "preview"})
    assert tried.status_code == 200 and "No alert that is open now." in tried.text
    assert 'value="the batch &lt;jobs&gt;"' in tried.text and "pool=~night-.*</textarea>" in tried.text
    for wrong, field in (
        ({"reason": " "}, "reason"),
        ({"lasts": "9y"}, "lasts"),
        ({"alerts_with": "a=~(b"}, "alerts_with"),
    ):
        refused = operator.post("/settings/silences", data={**said, **form, **wrong})
        assert refused.status_code == 400 and f'id="about-{field}" class="bad"' in refused.text
    with bare.client() as client:
        assert client.silences() == []
        assert operator.post("/settings/silences", data={**said, **form}).status_code == 303
        (made,) = client.silences()
        assert (made.matchers, made.patterns) == ({"severity": "ticket"}, {"pool": "night-.*"})
        assert (made.comment, made.created_by) == ("the batch <jobs>", "on call")
        assert timedelta(hours=7) < made.ends_at - utc_now() < timedelta(hours=9)
        client.end_silence(made.id)


def test_what_a_file_made_says_so(operator: httpx.Client, bare: Any) -> None:
    route = {"name": "filed", "owner": "ada", "origin": "alerting/chat.toml"}
    rule = {"name": "filed rule", "condition": {"kind": "drift"}, "origin": "alerting/chat.toml"}
    pager = {"name": "filed pager", "url": f"{bare.url}/nowhere", "origin": "alerting/chat.toml"}
    with bare.client() as client:
        client.apply_alerting({"routes": [route], "alert_rules": [rule], "destinations": [pager]})
        number = client.routes()[0].id
    said = "from the file alerting/chat.toml"
    assert said in part(operator, "routing") and said in part(operator, "destinations")
    assert said in operator.get("/parts/alerting/rules").text
    assert "which changes it back" in page_of(operator, f"route/{number}").text
    ending = operator.get("/settings", params={"tab": "routing", "end": f"route/{number}"}).text
    assert "which makes it again when it is applied" in ending
    with bare.client() as client:
        client.apply_alerting({"origins": ["alerting/"], "prune": True})
        assert client.routes() == []


def test_a_reader_changes_nothing(reader: httpx.Client, bare: Any) -> None:
    form = {"form": form_of(reader)}
    assert 'action="/settings' not in page_of(reader, "route/new").text + part(reader, "routing")
    assert reader.post("/settings/routes", data={**ROUTE, **form}).status_code == 403
    assert reader.post("/settings/inhibit-rules", data={**RULE, **form}).status_code == 403
    for path in ("routes", "routes/1", "inhibit-rules", "inhibit-rules/1", "silences/1/end"):
        assert reader.post(f"/settings/{path}", data={**ROUTE, "form": "0" * 64}).status_code == 403
    with bare.client() as client:
        assert client.routes() == [] and client.inhibit_rules() == []


@pytest.mark.browser
def test_a_route_is_added_and_a_silence_ended(bare_page: Page, bare: Any) -> None:
    with bare.client() as client:
        wanted = SilenceCreate(matchers={"pool": "chat"}, ends_at=utc_now() + timedelta(hours=1), comment="a move")
        silence = client.create_silence(wanted)
    bare_page.goto("/settings?tab=routing")
    bare_page.get_by_role("link", name="New route").click()
    bare_page.get_by_label("Name", exact=True).fill("by hand")
    bare_page.get_by_label("Owner", exact=True).fill("ada")
    bare_page.get_by_label("Alerts with", exact=True).fill("pool")
    bare_page.get_by_role("button", name="Save it").click()
    expect(bare_page.get_by_role("alert")).to_contain_text("label=value")
    bare_page.get_by_label("Alerts with", exact=True).fill("pool=chat\nseverity=page")
    bare_page.get_by_role("button", name="Save it").click()
    expect(bare_page.locator("[data-table=routes]")).to_contain_text("severity=page")
    bare_page.get_by_role("link", name=f"End silence {silence.id}").click()
    bare_page.get_by_role("button", name="End it").click()
    expect(bare_page.locator("[data-table=silences]")).to_have_count(0)
    with bare.client() as client:
        assert client.routes()[0].matchers == {"pool": "chat", "severity": "page"}
        client.delete_route(client.routes()[0].id)
