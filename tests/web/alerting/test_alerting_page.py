"""Rules over a real service: seen, tried before they are saved, made, changed, removed, and by whom."""

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from controlplane.alerts.conditions import KINDS
from controlplane.alerts.symptoms.symptom_catalogue import catalogue
from controlplane.contract.bodies.access import Scope, TokenCreate
from controlplane.contract.bodies.alerts import Remedy
from tests.web.settings.test_settings_page import form_of, signed_in
from web.alerting.alerting_page import NOT_TRIED
from web.alerting.rule_fields import usual_said

RULE = {**usual_said("absolute"), "name": "first token", "pool": "chat", "limits": "ttft p95 600ms"}


@pytest.fixture
def operator(bare: Any) -> Iterator[httpx.Client]:
    with bare.client() as client:
        made = client.create_token(TokenCreate(name="on call", scope=Scope.OPERATE))
        there = {rule.id for rule in client.alert_rules()}
    yield from signed_in(bare, made.token)
    with bare.client() as client:
        for rule in client.alert_rules():
            if rule.id not in there:
                client.delete_alert_rule(rule.id)


@pytest.fixture
def reader(bare: Any) -> Iterator[httpx.Client]:
    yield from signed_in(bare, bare.token("dashboard-token"))


def rules_part(browser: httpx.Client) -> str:
    answer = browser.get("/parts/alerting/rules")
    assert answer.status_code == 200
    return answer.text


def made_rule(bare: Any) -> Any:
    with bare.client() as client:
        return next(iter(rule for rule in client.alert_rules() if rule.name.startswith("first token")), None)


def test_a_rule_is_made_changed_and_removed(operator: httpx.Client, bare: Any) -> None:
    form = {"form": form_of(operator)}
    assert operator.post("/alerting/rules/new", data={**RULE, **form, "act": "save"}).status_code == 303
    made = made_rule(bare)
    assert (made.pool, made.condition.limits[0].limit_s, made.remedy) == ("chat", 0.6, None)
    assert "ttft p95 600ms" in rules_part(operator)
    page = operator.get(f"/alerting/rules/{made.id}").text
    assert ">ttft p95 600ms</textarea>" in page and "Remove the rule" in page
    changed = {**RULE, **form, "act": "save", "severity": "ticket", "enabled": "no", "remedy": "propose"}
    assert operator.post(f"/alerting/rules/{made.id}", data=changed).status_code == 303
    after = made_rule(bare)
    assert (after.id, after.severity.value, after.enabled, after.remedy) == (made.id, "ticket", False, Remedy())
    assert operator.post(f"/alerting/rules/{made.id}", data={**RULE, **form, "act": "remove"}).status_code == 303
    assert made_rule(bare) is None
    assert operator.get(f"/alerting/rules/{made.id}").status_code == 404
    assert operator.post(f"/alerting/rules/{made.id}", data={**RULE, **form, "act": "save"}).status_code == 404


def test_what_is_wrong_stands_at_its_field_and_nothing_is_lost(operator: httpx.Client, bare: Any) -> None:
    form = {"form": form_of(operator), "act": "save"}
    refused = operator.post("/alerting/rules/new", data={**RULE, **form, "limits": "tftt p95 1s"})
    assert refused.status_code == 400 and 'id="about-limits" class="bad"' in refused.text
    assert "tftt p95 1s</textarea>" in refused.text and 'value="first token"' in refused.text
    refused = operator.post("/alerting/rules/new", data={**RULE, **form, "window_s": "soon"})
    assert refused.status_code == 400 and 'id="about-window_s" class="bad"' in refused.text
    assert operator.post("/alerting/rules/new", data={**RULE, **form, "kind": "magic"}).status_code == 400
    assert made_rule(bare) is None


def test_a_rule_is_tried_before_it_is_saved_and_its_address_shows_it_again(operator: httpx.Client, bare: Any) -> None:
    form = {"form": form_of(operator), "act": "try", "over": "1h"}
    sent = operator.post("/alerting/rules/new", data={**RULE, **form})
    assert sent.status_code == 303
    address = sent.headers["Location"]
    assert form["form"] not in address, "the form's token is nobody's to copy"
    tried = operator.get(address).text
    assert "Would have fired 0 times in the last hour" in tried and ">ttft p95 600ms</textarea>" in tried
    assert 'value="chat" maxlength' in tried and made_rule(bare) is None
    wrong = operator.get(address.replace("600ms", "soon")).text
    assert 'id="about-limits" class="bad"' in wrong and "Would have fired" not in wrong
    long = operator.post("/alerting/rules/new", data={**RULE, **form, "limits": "ttft p95 600ms\n" * 20})
    assert long.status_code == 400 and "at most 200 characters" in long.text


def test_every_default_rule_that_can_be_tried_is(operator: httpx.Client, bare: Any) -> None:
    with bare.client() as client:
        rules = client.alert_rules()
    for rule in rules:
        tried = operator.get(f"/alerting/rules/{rule.id}?over=1h").text
        assert ("Would have fired 0 times" in tried) is (rule.condition.kind not in NOT_TRIED), rule.name


def test_the_door_stands_at_those_kinds_that_can_be_tried() -> None:
    cannot = {condition.model_fields["kind"].default for condition, kind in KINDS.items() if not kind.dry_run_step_s}
    assert cannot == NOT_TRIED


def test_a_reader_sees_the_rules_and_changes_none(reader: httpx.Client, bare: Any) -> None:
    assert "Latency regression" in rules_part(reader) and "New rule" not in rules_part(reader)
    assert 'name="act"' not in reader.get("/alerting/rules/1").text
    assert "scope" in reader.get("/alerting/rules/1?over=1h").text
    form = {"form": form_of(reader), "act": "save"}
    assert reader.post("/alerting/rules/new", data={**RULE, **form}).status_code == 403
    assert reader.post("/alerting/rules/new", data={**RULE, "form": "0" * 64, "act": "save"}).status_code == 403
    assert made_rule(bare) is None


def test_a_new_symptom_is_chosen_by_what_it_means_when_it_fires_and_how_urgent_it_is(operator: httpx.Client) -> None:
    text = operator.get("/alerting/rules/new?kind=symptom").text
    for one in catalogue().values():
        assert (f'<a href="/runbooks/{one.id}">' in text) is (one.limit is not None)
        assert (one.id in re.findall(r'<option value="(\w*)"', text)) is (one.limit is not None)
    assert '<option value="" selected>as the catalogue has the symptom</option>' in text
    assert "What each symptom means" not in operator.get("/alerting/rules/new?kind=absolute").text


@pytest.mark.browser
def test_a_rule_is_filled_in_tried_and_saved(bare_page: Page, bare: Any) -> None:
    bare_page.goto("/alerts")
    bare_page.get_by_role("link", name="Rules: what is watched").click()
    bare_page.get_by_role("link", name="New rule").click()
    bare_page.get_by_role("link", name="Symptom").click()
    bare_page.get_by_role("link", name="Absolute").click()
    bare_page.get_by_label("Name", exact=True).fill("first token by hand")
    bare_page.get_by_label("Limits", exact=True).fill("ttft p95")
    bare_page.get_by_role("button", name="When would it have fired?").click()
    expect(bare_page.get_by_role("alert")).to_contain_text("ttft p95 600ms")
    bare_page.get_by_label("Limits", exact=True).fill("ttft p95 600ms")
    bare_page.get_by_role("button", name="When would it have fired?").click()
    expect(bare_page.get_by_role("heading", name="Would have fired 0 times in a day")).to_be_visible()
    bare_page.get_by_role("button", name="Save it").click()
    row = bare_page.locator("[data-table=rules] tr", has_text="first token by hand")
    expect(row).to_contain_text("every pool")
    row.get_by_role("link", name="first token by hand", exact=True).click()
    bare_page.get_by_text("Remove it", exact=True).click()
    bare_page.get_by_role("button", name="Remove the rule").click()
    expect(bare_page.locator("[data-table=rules]")).not_to_contain_text("by hand")
    assert made_rule(bare) is None
