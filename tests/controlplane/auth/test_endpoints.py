"""Tokens over HTTP: made, listed and revoked by an admin alone; each is written into the ledger."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from controlplane.app.service import Service, create_app
from controlplane.app.settings import ServiceSettings
from controlplane.auth import store
from controlplane.contract.bodies.access import Scope

TOKENS = "/api/v1/tokens"
NEXT_YEAR = f"{datetime.now(UTC).year + 1}-12-31T00:00:00Z"


@pytest.fixture
def http(tmp_path: Path) -> Iterator[TestClient]:
    app = create_app(ServiceSettings(data_dir=tmp_path, log_level="error"))
    # Without the lifespan: nothing works in the background.
    yield TestClient(app, headers=bearer((tmp_path / "admin-token").read_text().strip()))
    service = Service.of(app)
    service.telemetry.close()
    service.database.close()


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def make(http: TestClient, scope: str, name: str = "ci") -> dict[str, str]:
    answer = http.post(TOKENS, json={"name": name, "scope": scope})
    assert answer.status_code == 201
    made: dict[str, str] = answer.json()
    return made


def test_a_made_token_works_and_says_what_it_is(http: TestClient) -> None:
    made = make(http, "operate")
    self = http.get(f"{TOKENS}/self", headers=bearer(made["token"]))
    assert self.status_code == 200
    assert self.json() == {name: value for name, value in made.items() if name != "token"}
    assert (made["name"], made["scope"], made["node"], made["revoked_at"]) == ("ci", "operate", None, None)


def test_a_revoked_token_is_refused_at_once_and_still_listed(http: TestClient) -> None:
    made = make(http, "admin")
    assert http.get(TOKENS, headers=bearer(made["token"])).status_code == 200
    ended = http.delete(f"{TOKENS}/{made['id']}")
    assert (ended.status_code, ended.content) == (204, b"")
    assert http.get(TOKENS, headers=bearer(made["token"])).status_code == 401
    listed = http.get(TOKENS).json()["items"][0]
    assert listed["id"] == made["id"] and listed["revoked_at"] is not None
    assert http.delete(f"{TOKENS}/4711").status_code == 404


@pytest.mark.parametrize("scope", ["read", "operate", "agent", "enrol"])
def test_who_is_no_admin_can_neither_list_nor_make_nor_revoke(http: TestClient, scope: str) -> None:
    mine = make(http, scope)
    headers = bearer(mine["token"])
    assert http.get(TOKENS, headers=headers).status_code == 403
    assert http.post(TOKENS, headers=headers, json={"name": "x", "scope": "admin"}).status_code == 403
    assert http.delete(f"{TOKENS}/{mine['id']}", headers=headers).status_code == 403
    assert http.get(f"{TOKENS}/self", headers=headers).json()["revoked_at"] is None


def test_the_listing_comes_a_page_at_a_time_without_secrets(http: TestClient) -> None:
    made = [make(http, "read", f"t{number}") for number in range(3)]
    first = http.get(TOKENS, params={"limit": 2}).json()
    assert [item["name"] for item in first["items"]] == ["t2", "t1"]
    rest = http.get(TOKENS, params={"cursor": first["next"]}).json()
    assert rest["items"][0]["name"] == "t0" and rest["next"] is None
    assert not any(one["token"] in str([first, rest]) for one in made)
    assert "token" not in first["items"][0]


def test_the_ledger_says_who_made_and_who_ended_a_token(http: TestClient) -> None:
    made = make(http, "read")
    http.delete(f"{TOKENS}/{made['id']}")
    notes = [note for note in http.get("/api/v1/ledger").json()["items"] if note["subject"] == f"token/{made['id']}"]
    assert [(note["kind"], note["actor"], note["message"]) for note in notes] == [
        ("token.revoked", "admin", "token 'ci' revoked"),
        ("token.created", "admin", "token 'ci' with scope read"),
    ]


@pytest.mark.parametrize(
    ("wanted", "ends"),
    [
        ({"scope": "read"}, 90),
        ({"scope": "admin", "expires_at": NEXT_YEAR}, NEXT_YEAR),
        ({"scope": "operate", "never_expires": True}, None),
        ({"scope": "agent"}, None),
        ({"scope": "enrol"}, None),
        ({"scope": "enrol", "expires_at": NEXT_YEAR}, NEXT_YEAR),
    ],
)
def test_a_token_ends_by_itself_unless_somebody_asks_for_one_that_does_not(
    http: TestClient, wanted: dict[str, object], ends: int | str | None
) -> None:
    made = http.post(TOKENS, json={"name": "ci", **wanted}).json()
    assert (made["owner"], made["last_used_at"]) == ("admin", None)
    if isinstance(ends, int):
        lasts = datetime.fromisoformat(made["expires_at"]) - datetime.fromisoformat(made["created_at"])
        assert lasts == timedelta(days=ends)
    else:
        assert made["expires_at"] == ends


def test_two_ends_at_once_are_refused(http: TestClient) -> None:
    body = {"name": "ci", "scope": "read", "expires_at": NEXT_YEAR, "never_expires": True}
    answer = http.post(TOKENS, json=body)
    assert answer.status_code == 400 and "exclude each other" in answer.json()["error"]["message"]


def test_an_owner_is_kept_and_shown(http: TestClient) -> None:
    made = http.post(TOKENS, json={"name": "ci", "scope": "read", "owner": "team-search"}).json()
    assert http.get(TOKENS).json()["items"][0]["owner"] == made["owner"] == "team-search"
    entry = http.get("/api/v1/ledger", params={"subject": f"token/{made['id']}"}).json()["items"][0]
    assert entry["evidence"]["owner"] == "team-search"


def test_a_page_is_a_hundred_tokens_where_nobody_says(http: TestClient) -> None:
    with Service.of(http.app).database.session() as session:  # type: ignore[arg-type]
        for number in range(101):
            store.issue(session, name=f"t{number}", scope=Scope.READ, now=datetime(2026, 1, 1, tzinfo=UTC))
    assert len(http.get(TOKENS).json()["items"]) == 100
