"""Every page in light, in dark and on a phone: no violation that axe-core finds, none wider than its screen."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, expect
from playwright.sync_api import Page as Opened

from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.contract.bodies.rollouts import RolloutCreate
from controlplane.contract.errors import Conflict
from tests.processes import wait_for
from tests.web.conftest import signed_in
from web.dashboard import PAGES

pytestmark = pytest.mark.browser

RULES = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    "resultTypes": ["violations"],  # The same are found; what of the page is well is not described at length.
}
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
ELSEWHERE = ("/gallery", "/login", "/nobody-has-this-page")
SLOW = {"metric": "ttft", "q": 0.5, "limit_s": 1e-6}
"""A limit that every request exceeds."""
CONDITION = {"kind": "absolute", "limits": [SLOW], "for_s": 0, "min_count": 1}


@dataclass(frozen=True)
class Look:
    """How a page is opened, and the colours that it is then looked at in."""

    viewport: dict[str, int]
    schemes: tuple[str, ...]


LOOKS = {"desktop": Look(DESKTOP, ("light", "dark")), "phone": Look(PHONE, ("light",))}


@pytest.fixture(scope="module")
def subjects(stack: Any) -> Iterator[dict[str, str]]:
    """Something for each variable of a page's path, by the variable's name."""
    for number in range(3):
        assert stack.complete(f"def f{number}():", 6).status_code == 200
    with stack.client() as client:
        rule = client.create_alert_rule({"name": "slow", "severity": "ticket", "condition": CONDITION})
        base = next(node.desired_revision or node.effective.revision for node in client.nodes() if node.effective)
        revision = client.create_config(RevisionCreate(knobs={"max_num_seqs": 15}, base=base, note="to look at"))
        rollout = client.create_rollout(RolloutCreate(pool="demo", revision=revision.number, start=False))
        study = client.create_study({"pool": "demo", "objective": "ttft", "max_trials": 3})

        def is_there() -> bool:
            # Traffic goes on: a window is judged once a newer one has come, and else after a minute.
            assert stack.complete("def again():", 2).status_code == 200
            return bool(client.requests().items and client.incidents())

        wait_for("a request is in the log and an alert is open", is_there)
        yield {
            "node_name": "node-1",
            "request_id": client.requests().items[0].request_id,
            "alert": str(client.alerts()[0].id),
            "incident": str(client.incidents()[0].id),
            "symptom": "acceptance_low",
            "rule": str(rule.id),
            "rollout": str(rollout.id),
            "study": str(study.id),
        }
        with suppress(Conflict):  # It has failed already: no trial node is there.
            client.cancel_study(study.id)
        client.cancel_rollout(rollout.id)
        client.delete_alert_rule(rule.id)


def paths(subjects: dict[str, str]) -> list[str]:
    """Each page's address, and those that are no page of the list."""
    found = []
    for page in PAGES.by_name.values():
        path = page.path.replace(":path", "").replace(":row", "")
        found.append(path.format(**subjects) + "?from=now-1h")
    settings = [f"/settings?tab={tab}" for tab in ("destinations", "routing&edit=inhibit-rule/new")]
    return [*found, "/explore?from=now-1h&compare=earlier:5s", *settings, *ELSEWHERE]


def opened(page: Opened, path: str) -> None:
    """The page with each of its parts drawn."""
    page.goto(path)
    expect(page.locator("h1").first).to_be_attached()
    if path.startswith(ELSEWHERE):
        return
    undrawn = page.locator("[data-part]:not([data-as-of]):not(:has(*))")
    expect(undrawn).to_have_count(0, timeout=30_000)


def violations(page: Opened) -> list[dict[str, Any]]:
    """What axe-core, which the page has, finds now. That alone is told: what is well would be most of the answer."""
    found: list[dict[str, Any]] = page.evaluate("(rules) => axe.run(rules).then((told) => told.violations)", RULES)
    return found


@pytest.mark.parametrize("name", list(LOOKS))
def test_every_page_is_without_violations_and_fits(
    browser: Browser, stack: Any, subjects: dict[str, str], name: str
) -> None:
    look, found = LOOKS[name], []
    context = signed_in(browser, stack.url, stack.fleet.token("admin-token"))
    page = context.new_page()
    page.set_viewport_size(look.viewport)  # type: ignore[arg-type]
    for path in paths(subjects):
        page.emulate_media(color_scheme=look.schemes[0], reduced_motion="reduce")  # type: ignore[arg-type]
        opened(page, path)
        page.evaluate(AXE_SCRIPT)
        for scheme in look.schemes:
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            for one in violations(page):
                found.append(f"{path}, {scheme}: {one['id']}: {one['nodes'][0]['html'][:160]}")
            wide = page.evaluate("document.documentElement.scrollWidth")
            if wide > look.viewport["width"]:
                found.append(f"{path}, {scheme}: {wide} px wide")
    context.close()
    assert found == []


def test_a_phone_has_five_at_the_thumb_and_the_others_behind_more(browser: Browser, stack: Any) -> None:
    context = signed_in(browser, stack.url, stack.fleet.token("admin-token"))
    page = context.new_page()
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    page.goto("/requests?from=now-1h")
    bar = page.get_by_role("navigation", name="Pages", exact=True)
    assert bar.locator("a, button").all_inner_texts() == ["Now", "Explore", "Requests", "Incidents", "More"]
    expect(bar.get_by_role("link", name="Requests")).to_have_attribute("aria-current", "page")
    expect(page.get_by_label("Pool")).to_be_hidden()
    page.get_by_role("button", name="last hour, every pool").click()
    page.get_by_label("Pool").select_option("demo")
    expect(page.get_by_role("button", name="last hour, pool demo")).to_be_visible()
    bar.get_by_role("button", name="More").click()
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    page.get_by_role("link", name="Fleet").click()
    expect(page.locator("h1")).to_have_text("Fleet")
    assert "pool=demo" in page.url
    context.close()
