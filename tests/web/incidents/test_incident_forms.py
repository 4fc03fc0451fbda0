"""The incident's page in a real Chromium, over a real service: read, acknowledged, noted, silenced, closed."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.processes import wait_for
from tests.web.conftest import signed_in

pytestmark = pytest.mark.browser

RULES = [
    {
        "name": name,
        "severity": "ticket",
        "condition": {
            "kind": "absolute",
            "limits": [{"metric": "ttft", "q": q, "limit_s": 1e-6}],
            "for_s": 0,
            "min_count": 1,
        },
    }
    for name, q in (("slow tail", 0.99), ("slow middle", 0.5))
]


@pytest.fixture(scope="module")
def incident(stack: Any) -> Iterator[int]:
    """One of two alerts."""
    for number in range(3):
        assert stack.complete(f"def f{number}():", 6).status_code == 200
    with stack.client() as client:
        rules = [client.create_alert_rule(rule) for rule in RULES]
        names = {rule["name"] for rule in RULES}

        def of_both() -> list[int]:
            """What else fires in a service that others use, too, may be of the same cause.

            Traffic goes on meanwhile: a window is judged once a newer one has come, and else after a minute.
            """
            assert stack.complete("def again():", 2).status_code == 200
            found = [client.incident(one.id) for one in client.incidents(open=True)]
            return [one.id for one in found if names <= {one_of.alert.rule for one_of in one.members}]

        yield wait_for("both are one", of_both)[0]
        for rule in rules:
            client.delete_alert_rule(rule.id)


def test_an_incident_is_read_acted_on_and_closed(browser: Browser, stack: Any, incident: int) -> None:
    context = signed_in(browser, stack.url, stack.fleet.token("admin-token"))
    page = context.new_page()
    page.goto("/")
    open_ones = page.get_by_role("region", name="Open incidents")
    open_ones.get_by_role("link", name=f"Incident {incident}", exact=True).click()
    expect(page.locator("h1")).to_have_text(f"Incident {incident}")
    expect(page.locator("#part-incident")).to_contain_text("it is the first")
    expect(page.locator("#part-incident_chart")).to_contain_text("judged against")
    expect(page.locator("#part-timeline")).to_contain_text("fired")
    expect(page.locator("#part-incident_requests [data-row]").first).to_be_visible()
    key = page.locator("form[action$='/study'] input[name=key]").input_value()
    assert re.fullmatch(r"[\w-]{16,}", key), "pressed twice, it is one study"
    page.get_by_role("button", name="Acknowledge").click()
    expect(page.locator("#part-incident")).to_contain_text("acknowledged")
    page.get_by_label("Note").fill("looking <b>")
    page.get_by_role("button", name="Write it down").click()
    expect(page.locator("#part-timeline")).to_contain_text("looking <b>")
    page.get_by_text("Silence by pattern").click()
    alerts_with = page.get_by_label("Alerts with")
    assert "pool=demo" in alerts_with.input_value().splitlines()
    alerts_with.fill("pool=demo\nrule=~slow (tail|middle)")
    page.get_by_role("button", name="What would it hold back now?").click()
    expect(page.get_by_role("status").filter(has_text="hold back")).to_contain_text("2 open alerts")
    page.get_by_text("Silence its alerts").click()
    page.get_by_label("Why").first.fill("a test")
    page.get_by_role("button", name="Silence them").click()
    expect(page.locator("#part-timeline")).to_contain_text("Silenced for 2h: a test")
    page.get_by_text("Say what the cause was").click()
    page.get_by_role("combobox", name="Cause").select_option("load")
    page.get_by_role("textbox", name="Comment").fill("a batch job")
    page.get_by_role("button", name="This was it").click()
    expect(page.locator("#part-incident")).to_contain_text("load a batch job")
    page.get_by_text("Close it", exact=True).click()
    page.get_by_label("Why").last.fill("seen enough")
    page.get_by_role("button", name="Close it, although").click()
    expect(page.locator("#part-incident")).to_contain_text("resolved")
    expect(page.get_by_role("button", name="Close it, although")).to_have_count(0)
    with page.expect_download() as started:
        page.get_by_role("link", name=re.compile("^Post-mortem")).click()
    assert started.value.suggested_filename == f"incident-{incident}.md"
    assert started.value.path().read_text().startswith(f"# Post-mortem: incident {incident}")
    with stack.client() as client:
        assert client.incident(incident).resolved_by is not None
        for silence in client.silences():
            client.end_silence(silence.id)
    context.close()
