"""The ledger's page and files over a real service: what the address asks for is found, shown, and in the file."""

import csv
import io
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from controlplane.contract.bodies.access import EnrolmentRequest, Scope, TokenCreate
from controlplane.contract.bodies.ledger import LedgerEntry
from controlplane.contract.bodies.nodes import TrialConfig
from controlplane.contract.errors import BadRequest
from tests.web.part_html import part_html
from web.frame.selection import selection_of
from web.ledger.ledger_files import csv_chunks
from web.ledger.ledger_page import PAGE, wanted_of

NOW = datetime(2026, 3, 1, 12, 5, 7, tzinfo=UTC)
NODE, NAME = "ledger-trial", "HYPERLINK"


@pytest.fixture(scope="module")
def deeds(bare: Any) -> None:
    """A trial node with three trials, and a token that was revoked."""
    with bare.client() as client:
        enrolment = bare.token("enrolment-token")
        with type(client)(bare.url, enrolment) as enroller:
            enroller.enrol(EnrolmentRequest(node=NODE, pool="ledger", backend="vllm", role="trial"))
        for seqs in (17, 18, 19):
            client.set_trial_config(NODE, TrialConfig(knobs={"max_num_seqs": seqs}))
        made = client.create_token(TokenCreate(name=NAME, scope=Scope.READ))
        client.revoke_token(made.id)


@pytest.fixture
def browsing(bare: Any, deeds: None) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=bare.url, timeout=20) as client:
        assert client.post("/login", data={"token": bare.token("dashboard-token")}).status_code == 303
        yield client


def test_what_the_address_says_is_asked_for() -> None:
    assert wanted_of(selection_of({}, NOW)) == {}
    live = wanted_of(selection_of({"from": "now-1h", "kind": "rollout", "node": "gpu-1", "cursor": "4"}, NOW))
    assert live == {"kind": "rollout", "subject": "node/gpu-1", "start": datetime(2026, 3, 1, 11, 5, tzinfo=UTC)}
    fixed = {"from": "2026-03-01T10:00:01Z", "to": "2026-03-01T11:00:00Z", "revision": "3", "subject": "rollout/3"}
    asked = wanted_of(selection_of(fixed, NOW))
    assert (asked["subject"], asked["start"].second, asked["end"].hour) == ("rollout/3", 1, 11)


def test_trials_are_folded_with_their_node_and_shown_each_when_asked(bare: Any, deeds: None) -> None:
    with bare.client() as client:
        folded = part_html(PAGE, "ledger", client, subject=f"node/{NODE}")
        each = part_html(PAGE, "ledger", client, subject=f"node/{NODE}", fold="off")
    assert "3 trials since" in folded and "node.trial_config" not in folded
    assert each.count("node.trial_config</a>") == 3 and "3 trials since" not in each
    assert f'href="/nodes/{NODE}"' in folded


def test_the_newest_entries_are_verified(bare: Any, deeds: None) -> None:
    with bare.client() as client:
        told = part_html(PAGE, "chain", client)
    assert "verified" in told and re.search(r"<code>\d+:sha256\.[0-9a-f]{64}</code>", told)


def test_a_cursor_that_is_none_is_refused_by_name(bare: Any) -> None:
    with bare.client() as client, pytest.raises(BadRequest, match="cursor"):
        part_html(PAGE, "ledger", client, cursor="x")


def test_files_hold_what_the_filters_find_and_no_formula(browsing: httpx.Client) -> None:
    answer = browsing.get("/ledger.csv", params={"kind": "token", "text": "HYPERLINK"})
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [row["kind"] for row in rows] == ["token.revoked", "token.created"]
    assert "attachment" in answer.headers["Content-Disposition"]
    entries = browsing.get("/ledger.json", params={"subject": f"node/{NODE}", "kind": "node.trial_config"}).json()
    assert len(entries) == 3 and all(one["subject"] == f"node/{NODE}" for one in entries)
    assert browsing.get("/ledger.json", params={"actor": "nobody"}).json() == []
    assert browsing.get("/ledger.csv", params={"from": "never"}).status_code == 400


@pytest.mark.parametrize("said", ["=1+1", "+1", "-1", "@SUM(A1)"])
def test_a_cell_never_begins_as_a_formula(said: str) -> None:
    entry = LedgerEntry(id=1, time=NOW, actor=said, kind="a.b", subject="a/1", message=said)
    (row,) = csv.DictReader(io.StringIO(b"".join(csv_chunks(iter([entry]))).decode()))
    assert (row["actor"], row["message"], row["kind"]) == (f"'{said}", f"'{said}", "a.b")


def test_the_files_want_a_session(bare: Any) -> None:
    answer = httpx.get(f"{bare.url}/ledger.csv")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/login?next=/ledger.csv")


@pytest.mark.browser
def test_entries_are_found_by_form_and_a_fold_opens_and_stays_open(bare_page: Page, deeds: None) -> None:
    bare_page.goto("/ledger")
    search = bare_page.get_by_role("search", name="Find entries")
    search.get_by_label("Subject").fill(f"node/{NODE}")
    search.get_by_label("About").select_option("node")
    search.get_by_role("button", name="Find").click()
    expect(bare_page).to_have_url(re.compile(f"kind=node&.*subject=node%2F{NODE}"))
    rows = bare_page.locator("#part-ledger tbody tr")
    expect(rows).to_have_count(2)
    fold = rows.first.locator("summary").first
    fold.click()
    expect(rows.first).to_contain_text("is given revision")
    bare_page.get_by_role("link", name="node.enrolled").click()
    expect(rows).to_have_count(1)
