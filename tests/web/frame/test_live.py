"""A page says how fresh it is: when the service hangs, when it refuses, and while a reader is at work in it."""

import os
import random
import signal
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from controlplane.contract.bodies.alerts import AlertRuleCreate
from web.frame.assets import ASSETS

pytestmark = pytest.mark.browser

COLOUR = "(element) => getComputedStyle(element).color"


def test_a_service_that_hangs_is_told_and_not_called_live(bare_page: Page, bare: Any) -> None:
    bare_page.goto("/fleet")
    status, as_of = bare_page.get_by_role("status"), bare_page.locator("#as-of")
    expect(status).to_have_text("live")
    rendered_at = as_of.inner_text()
    expect(as_of).not_to_have_text(rendered_at, timeout=10_000)  # It grows while the service answers.
    os.kill(bare.child.process.pid, signal.SIGSTOP)
    try:
        expect(status).to_have_text("stale: the service does not answer", timeout=15_000)
        trouble = bare_page.locator(".trouble")
        expect(trouble).to_have_text(
            f"As of {as_of.inner_text()} UTC, not refreshed since: the service does not answer"
        )
        assert status.evaluate(COLOUR) == trouble.evaluate(COLOUR) != as_of.evaluate("() => 'none'")
        assert status.evaluate(COLOUR) != bare_page.locator("h1").evaluate(COLOUR)
    finally:
        os.kill(bare.child.process.pid, signal.SIGCONT)
    expect(status).to_have_text("live", timeout=15_000)
    expect(trouble).to_be_hidden()


def test_what_the_service_refuses_is_told_in_its_own_words(bare_page: Page) -> None:
    bare_page.goto("/fleet")
    part = bare_page.locator("[data-live]")
    kept = part.inner_text()
    part.evaluate("(part) => { part.dataset.live = '/fragments/exemplars?span=99m'; }")
    expect(bare_page.locator(".trouble")).to_contain_text("span: '99m' is none of 5m, 15m", timeout=10_000)
    expect(bare_page.get_by_role("status")).to_contain_text("stale: span: '99m'")
    assert part.inner_text() == kept


def test_a_page_with_a_wrong_span_is_an_error_and_no_empty_boxes(bare_page: Page) -> None:
    answer = bare_page.goto("/latency?span=99m")
    assert answer is not None and answer.status == 400
    expect(bare_page.locator("main")).to_contain_text("span: '99m' is none of 5m, 15m, 1h, 6h, 24h")
    expect(bare_page.locator(".chart")).to_have_count(0)
    expect(bare_page.locator("main").get_by_role("link", name="Latency")).to_have_attribute("href", "/latency")
    expect(bare_page.locator("#freshness")).to_have_count(0)  # Nothing on it refreshes.


def test_a_part_with_the_focus_in_it_goes_on_refreshing(bare_page: Page, bare: Any) -> None:
    bare_page.goto("/alerts")
    part = bare_page.locator("[data-live]")
    summary = part.locator("summary").first
    summary.focus()
    summary.press("Enter")
    details = part.locator("details").first
    expect(details).to_have_attribute("open", "")
    summary.evaluate("(summary) => { window.focused = summary; }")
    part.locator("th").first.evaluate("(head) => getSelection().selectAllChildren(head)")
    with bare.client() as client:
        client.create_alert_rule(AlertRuleCreate.model_validate({"name": "one more", "condition": {"kind": "drift"}}))
    expect(part).to_contain_text("one more", timeout=10_000)
    assert bare_page.evaluate("document.activeElement === window.focused")
    assert bare_page.evaluate("window.focused.parentElement.open && window.focused.isConnected")
    assert bare_page.evaluate("getSelection().toString().trim()") != ""


def test_new_markup_is_reached_whatever_it_was_before_and_what_stays_is_kept(bare_page: Page) -> None:
    rng = random.Random(5)
    states = ["".join(_item(rng, key) for key in rng.sample(range(9), rng.randint(0, 7))) for _ in range(200)]
    bare_page.goto("/fleet")
    wrong = bare_page.evaluate(
        """async ([module, states]) => {
            const { morph } = await import(module);
            const part = document.createElement("ul"), fresh = document.createElement("ul"), wrong = [];
            document.body.append(part);
            for (const html of states) {
                const before = new Map([...part.querySelectorAll("[data-key]")].map((one) => [one.dataset.key, one]));
                const held = [...before.values()][0];
                if (held) held.focus();
                morph(part, html);
                fresh.innerHTML = html;
                if (part.innerHTML !== fresh.innerHTML) wrong.push([part.innerHTML, fresh.innerHTML]);
                for (const one of part.querySelectorAll("[data-key]")) {
                    const old = before.get(one.dataset.key);
                    if (old && old.nodeName === one.nodeName && old !== one) wrong.push("made anew: " + one.outerHTML);
                }
                if (held && held.isConnected && document.activeElement !== held) wrong.push("lost its focus: " + html);
            }
            return wrong;
        }""",
        [ASSETS.address("morph.js"), states],
    )
    assert wrong == []


def _item(rng: random.Random, key: int) -> str:
    """A list item, with or without a key, whose text and class change from state to state."""
    keyed = f' data-key="{key}" tabindex="0"' if key < 6 else ""
    return f'<li{keyed} class="c{rng.randint(0, 2)}">{rng.choice(["", "a", "<b>b</b>", "a <i>b</i>"])}</li>\n'
