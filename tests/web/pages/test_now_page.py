"""Now: the fleet in a sentence, a card a pool, open incidents with what is next, no trials in the ledger."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from controlplane.client import Client
from controlplane.contract.bodies.alerts import Alert
from tests.peers import send, service
from web.frame.selection import selection_of
from web.pages.now_page import healths, next_action, recent, reference

pytestmark = pytest.mark.browser

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def alert(*remedies: dict[str, Any]) -> Alert:
    told = {"id": 1, "fingerprint": "f", "rule_id": 1, "rule": "r", "state": "firing", "severity": "page"}
    told |= {"labels": {}, "summary": "s", "started_at": NOW}
    steps = [
        {"time": NOW + timedelta(seconds=at), "action": "study", "cause": "tuning", "why": "w", **step}
        for at, step in enumerate(remedies)
    ]
    return Alert.model_validate({**told, "remedies": steps})


def test_the_next_action_is_the_newest_that_was_not_declined() -> None:
    found = next_action(alert({"state": "offered"}, {"state": "started"}, {"state": "declined"}))
    assert found is not None and found.state == "started"
    only = next_action(alert({"state": "declined"}))
    assert only is not None and only.state == "declined"  # Why nothing is done is told, too.
    assert next_action(alert()) is None


def test_a_pool_is_compared_with_what_was_before(stack: Any) -> None:
    with stack.client() as client:
        assert stack.complete("def main():", 4).status_code == 200
        selection = selection_of({"from": "now-15m"}, datetime.now(UTC))
        _, when = reference(client, selection)
        assert when == "the span before"  # A day ago there was no fleet.
        assert [one.pool for one in healths(client, selection)] == ["demo"]


def test_a_pool_whose_senders_have_no_node_is_a_pool_like_another(tmp_path: Path) -> None:
    with service(tmp_path / "data") as running, Client(running.url, running.token) as client:
        send(running, "chat")
        selection = selection_of({}, datetime.now(UTC))
        assert [(one.pool, one.requests) for one in healths(client, selection)] == [("chat", 6)]
        assert healths(client, selection_of({"pool": "another"}, datetime.now(UTC))) == []


def test_the_page_says_the_fleet_in_a_sentence_and_links_each_pool(page: Page, stack: Any) -> None:
    assert stack.complete("def main():", 4).status_code == 200
    page.goto("/")
    card = page.locator("#pool-demo")
    expect(card).to_contain_text("TTFT p99", timeout=60_000)
    expect(card.get_by_role("link", name="demo")).to_have_attribute("href", "/explore?pool=demo")
    expect(page.locator(".headline")).to_contain_text("demo")
    expect(page.get_by_role("figure", name="Pool demo")).to_contain_text("all requests", timeout=60_000)


def test_an_empty_fleet_says_so(bare_page: Page, bare: Any) -> None:
    bare_page.goto("/")
    expect(bare_page.locator(".headline")).to_have_text("No pool serves yet.", timeout=60_000)
    with bare.client() as client:
        kinds = {entry.kind for entry in recent(client, selection_of({}, NOW))["entries"]}
    assert kinds and not any(kind.startswith("trial") for kind in kinds)


def test_a_new_service_says_the_next_command_with_its_own_address(bare_page: Page, bare: Any) -> None:
    bare_page.goto("/")
    steps = bare_page.get_by_role("region", name="First steps")
    following = steps.locator("[aria-current=step]")
    expect(following).to_contain_text("tailwright engine", timeout=60_000)
    expect(steps).to_contain_text(f"--server-url {bare.url}")
    expect(steps).to_contain_text(f"--enrolment-token-file {bare.data_dir / 'enrolment-token'}")
    expect(following.get_by_role("button", name="Copy the command")).to_have_attribute(
        "data-copy", following.locator("pre").inner_text()
    )


def test_a_service_that_measures_has_no_first_steps(page: Page, stack: Any) -> None:
    assert stack.complete("def main():", 4).status_code == 200
    page.goto("/")
    expect(page.locator("#pool-demo")).to_be_visible(timeout=60_000)
    expect(page.locator("#part-first_steps")).to_be_empty(timeout=60_000)
