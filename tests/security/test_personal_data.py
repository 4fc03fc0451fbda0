"""What is kept of a person is given out to that person and to admins, and removed on demand."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from controlplane.app.service import Service, create_app
from controlplane.app.settings import ServiceSettings
from controlplane.auth import browser_sessions, known_people
from controlplane.auth.known_people import Somebody
from controlplane.contract.bodies.people import Role
from controlplane.contract.clock import utc_now
from controlplane.ledger.inspection import verify


@pytest.fixture
def http(tmp_path: Path) -> Iterator[TestClient]:
    with TestClient(create_app(ServiceSettings(data_dir=tmp_path, log_level="error"))) as client:
        client.headers["Authorization"] = f"Bearer {(tmp_path / 'admin-token').read_text().strip()}"
        yield client


def signed_in(http: TestClient, name: str, subject: str = "") -> tuple[int, dict[str, str]]:
    """The person's number, and the headers of a new session."""
    with Service.of(http.app).database.session() as session:  # type: ignore[arg-type]
        who = Somebody("https://issuer.example", subject or name, name)
        row = known_people.signed_in(session, who, Role.OPERATOR, utc_now())
        assert row.id is not None
        secret = browser_sessions.begin(session, utc_now(), person_id=row.id, address="10.0.0.9").secret
        return row.id, {"Authorization": f"Bearer {secret}"}


def configure(http: TestClient, holder: dict[str, str], size: int) -> None:
    assert http.post("/api/v1/configs", json={"knobs": {"max_num_seqs": size}}, headers=holder).is_success


def everything(http: TestClient, number: int, holder: dict[str, str], limit: int = 2) -> dict[str, Any]:
    """Page by page."""
    path = f"/api/v1/people/{number}/data"
    whole: dict[str, Any] = http.get(path, params={"limit": limit}, headers=holder).json()
    while whole["next"] is not None:
        older = http.get(path, params={"limit": limit, "cursor": whole["next"]}, headers=holder).json()
        assert len(older["entries"]) <= limit
        whole = {**whole, "entries": whole["entries"] + older["entries"], "next": older["next"]}
    return whole


def test_a_person_gets_all_that_is_kept_and_nobody_else_does(http: TestClient) -> None:
    number, ada = signed_in(http, "ada@example.com")
    other, eve = signed_in(http, "eve@example.com")
    for size in (4, 5, 6):
        configure(http, ada, size)
    configure(http, eve, 7)
    # The name changes at the issuer; a token of that name is somebody else.
    assert signed_in(http, "ada@new.example", "ada@example.com")[0] == number
    made = http.post("/api/v1/tokens", json={"name": "ada@example.com", "scope": "operate"}).json()["token"]
    configure(http, {"Authorization": f"Bearer {made}"}, 8)
    configure(http, ada, 9)
    data = everything(http, number, ada)
    assert data["person"]["name"] == "ada@new.example" and data["person"]["subject"] == "ada@example.com"
    assert [one["address"] for one in data["sessions"]] == ["10.0.0.9"] * 2
    kinds = [entry["kind"] for entry in data["entries"]]
    assert sorted(kinds) == ["person.signed_in"] * 2 + ["revision.created"] * 4
    assert {entry["evidence"]["person_id"] for entry in data["entries"]} == {number}
    assert everything(http, number, {}, limit=100) == data, "an admin gets the same"
    nobody = {"Authorization": ""}
    weak = http.post("/api/v1/tokens", json={"name": "weak", "scope": "operate"}).json()["token"]
    for holder, status in ((eve, 404), ({"Authorization": f"Bearer {weak}"}, 404), (nobody, 401)):
        assert http.get(f"/api/v1/people/{number}/data", headers=holder).status_code == status
        assert http.delete(f"/api/v1/people/{number}", headers=holder).status_code == status
    assert len(everything(http, other, eve)["entries"]) == 2


def test_who_is_forgotten_is_gone_but_for_the_ledger(http: TestClient) -> None:
    number, ada = signed_in(http, "ada@example.com")
    other, eve = signed_in(http, "eve@example.com")
    configure(http, ada, 4)
    assert http.delete(f"/api/v1/people/{number}").status_code == 204
    assert http.get("/api/v1/nodes", headers=ada).status_code == 401
    assert [one["id"] for one in http.get("/api/v1/people").json()["items"]] == [other]
    assert http.get(f"/api/v1/people/{number}/data").status_code == 404
    assert http.delete(f"/api/v1/people/{number}").status_code == 404
    # By oneself, too.
    assert http.delete(f"/api/v1/people/{other}", headers=eve).status_code == 204
    assert http.get("/api/v1/sessions").json()["items"] == []
    told = http.get("/api/v1/ledger", params={"kind": "person.removed"}).json()["items"]
    assert [(one["actor"], one["subject"]) for one in told] == [
        ("eve@example.com", f"person/{other}"),
        ("admin", f"person/{number}"),
    ]
    assert "ada" not in told[1]["message"]
    assert verify(Service.of(http.app).database)[1] is None  # type: ignore[arg-type]
    assert signed_in(http, "ada@example.com")[0] > other, "a new number: the ledger has the one before"
