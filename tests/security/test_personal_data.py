"""What is kept of a person is given out to that person and to admins, and removed on demand."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlmodel import select

from controlplane.app import lost_secrets
from controlplane.app.service import Service, create_app
from controlplane.app.settings import ServiceSettings
from controlplane.app.tables import all_tables
from controlplane.auth import browser_sessions, known_people
from controlplane.auth.browser_address import SeenFrom
from controlplane.auth.known_people import Somebody
from controlplane.auth.tables import PersonRow
from controlplane.contract.bodies.people import Role
from controlplane.contract.bodies.workload import PromptSetCreate
from controlplane.contract.clock import utc_now
from controlplane.contract.planning.packed_prompts import Prompt, packed_prompts
from controlplane.keys import Keyring, reencryption
from controlplane.ledger.inspection import verify
from controlplane.studies.prompt_sets import prompt_set_store


@pytest.fixture
def http(tmp_path: Path) -> Iterator[TestClient]:
    with TestClient(create_app(ServiceSettings(data_dir=tmp_path, log_level="error"))) as client:
        client.headers["Authorization"] = f"Bearer {(tmp_path / 'admin-token').read_text().strip()}"
        yield client


def signed_in(http: TestClient, name: str, subject: str = "") -> tuple[int, dict[str, str]]:
    """The person's number, and the headers of a new session."""
    service = Service.of(http.app)  # type: ignore[arg-type]
    with service.database.session() as session:
        who = Somebody("https://issuer.example", subject or name, name)
        row = known_people.signed_in(session, service.keyring, who, Role.OPERATOR, utc_now())
        assert row.id is not None
        seen = SeenFrom(service.keyring, "10.0.0.9")
        secret = browser_sessions.begin(session, utc_now(), person_id=row.id, seen=seen).secret
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


GUESSES = [b"subject-8261", b'["https://issuer.example", "subject-8261"]']


def test_whom_the_issuer_knows_and_where_browsers_are_is_in_no_file_in_clear(http: TestClient, tmp_path: Path) -> None:
    number, ada = signed_in(http, "ada@example.com", "subject-8261")
    again, _ = signed_in(http, "ada@new.example", "subject-8261")
    other, _ = signed_in(http, "ada@example.com", "subject-8262")
    assert (again == number, other == number) == (True, False)
    told = everything(http, number, ada)
    assert told["person"]["subject"] == "subject-8261"
    assert {one["address"] for one in told["sessions"]} == {"10.0.0.9"}
    service = Service.of(http.app)  # type: ignore[arg-type]
    with service.database.read_session() as session:
        # By no plain hash of it either, which whoever guesses a subject could make.
        digests = {row.digest for row in session.exec(select(PersonRow))}
    assert not digests & {"hmac-sha256." + hashlib.sha256(text).hexdigest() for text in GUESSES}
    for path in tmp_path.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        assert b"subject-826" not in content and b"10.0.0.9" not in content, path


def test_a_rotation_encrypts_people_and_sessions_anew_and_they_are_the_same(http: TestClient) -> None:
    number, ada = signed_in(http, "ada@example.com", "subject-8261")
    before = everything(http, number, ada)
    service = Service.of(http.app)  # type: ignore[arg-type]
    key, count = reencryption.rotate(service.database, service.keyring, all_tables(), utc_now())
    assert count >= 3  # The subject, the address, and the key of the hash.
    assert reencryption.drop_others(service.database, service.keyring, all_tables(), key)
    after = everything(http, number, ada)
    assert (after["person"], after["sessions"][0]["address"]) == (before["person"], "10.0.0.9")
    assert signed_in(http, "ada@example.com", "subject-8261")[0] == number


def test_where_the_keys_are_lost_prompts_are_named_and_removed(http: TestClient, tmp_path: Path) -> None:
    service, lost = Service.of(http.app), Keyring(tmp_path / "another.key")  # type: ignore[arg-type]
    found = [Prompt(f"what ann@example.com asked {place}") for place in range(5)]
    wanted = PromptSetCreate(name="support", prompts=packed_prompts(found))
    with service.database.session() as session:
        prompt_set_store.add(session, wanted, found, service.keyring, actor="ann", now=utc_now())
    named = lost_secrets.forget(service.database, lost, utc_now(), only_name=True)
    assert "prompt set 'support': add it anew" in named
    with service.database.read_session() as session:
        assert prompt_set_store.text(session, "support", service.keyring).prompts == wanted.prompts, "it was only named"
    assert lost_secrets.forget(service.database, lost, utc_now(), only_name=False) == named
    with service.database.read_session() as session:
        assert prompt_set_store.listing(session, before_id=None, limit=9) == []


def test_where_the_keys_are_lost_people_are_named_and_removed(http: TestClient, tmp_path: Path) -> None:
    number, ada = signed_in(http, "ada@example.com", "subject-8261")
    service, lost = Service.of(http.app), Keyring(tmp_path / "another.key")  # type: ignore[arg-type]
    named = lost_secrets.forget(service.database, lost, utc_now(), only_name=True)
    assert "person 1: at the next sign-in somebody new" in named
    assert "person_key: whoever signs in from now on is somebody new" in named
    assert any(one.startswith("session ") for one in named)
    assert everything(http, number, ada)["person"]["subject"] == "subject-8261", "it was only named"
    assert lost_secrets.forget(service.database, lost, utc_now(), only_name=False) == named
    assert http.get("/api/v1/people/1/data", headers=ada).status_code == 401
    with service.database.session() as session:
        who = Somebody("https://issuer.example", "subject-8261", "ada@example.com")
        assert known_people.signed_in(session, lost, who, Role.VIEWER, utc_now()).id != number
