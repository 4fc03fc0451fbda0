"""The algorithm of hashes at rest is exchanged on a database that is in use: what was hashed before stays valid."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import text

from controlplane.app.service import Service, create_app
from controlplane.app.settings import ServiceSettings
from controlplane.contract.bodies.ledger import LedgerHead
from controlplane.db import marked_hash
from controlplane.ledger import archiving, inspection, signing
from controlplane.ledger.chain import Head

ADMIN = "admin-token"


def started(folder: Path) -> TestClient:
    http = TestClient(create_app(ServiceSettings(data_dir=folder, log_level="error")))
    http.headers["Authorization"] = f"Bearer {(folder / ADMIN).read_text().strip()}"
    return http


def made(http: TestClient, name: str) -> dict[str, str]:
    answer = http.post("/api/v1/tokens", json={"name": name, "scope": "read"})
    assert answer.status_code == 201, answer.text
    return {"Authorization": f"Bearer {answer.json()['token']}"}


def begun(http: TestClient, token: dict[str, str], code: str = "") -> dict[str, str]:
    code = code or http.post("/api/v1/sign-in-codes", headers=token).json()["code"]
    answer = http.post("/api/v1/sessions", json={"code": code})
    assert answer.status_code == 201, answer.text
    return {"Authorization": f"Bearer {answer.json()['secret']}"}


def marks(http: TestClient, query: str) -> list[str]:
    with Service.of(http.app).database.read_session() as session:  # type: ignore[arg-type]
        return [str(kept).partition(".")[0] for kept in session.execute(text(query)).scalars()]


@pytest.mark.slow
def test_tokens_sessions_codes_and_the_ledger_outlive_the_algorithm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "d"
    with started(folder) as http:
        old = made(http, "old")
        session, waiting = begun(http, old), http.post("/api/v1/sign-in-codes", headers=old).json()["code"]
        revoked = made(http, "revoked")
        number = http.get("/api/v1/tokens/self", headers=revoked).json()["id"]
        assert http.delete(f"/api/v1/tokens/{number}").status_code == 204
        head = LedgerHead.model_validate(http.get("/api/v1/ledger/head").json())
    monkeypatch.setattr(marked_hash, "NEW", "sha3-256")
    with started(folder) as http:
        for holder in (old, session, begun(http, old, waiting), made(http, "new"), begun(http, old)):
            assert http.get("/api/v1/nodes", headers=holder).status_code == 200
        assert http.get("/api/v1/nodes", headers=revoked).status_code == 401
        service = Service.of(http.app)  # type: ignore[arg-type]
        told = [Head(head.id, head.hash)]
        found, wrong = inspection.verify(service.database, told, key=service.ledger_key)
        assert wrong is None and found.id > head.id
        assert signing.is_signed(head, service.ledger_key)
        assert set(marks(http, "SELECT hash FROM ledger")) == {"sha256", "sha3-256"}
        assert set(marks(http, "SELECT digest FROM token")) == {"sha256", "sha3-256"}
        assert set(marks(http, "SELECT digest FROM browser_session")) == {"sha256", "sha3-256"}
        # An archive, too, of entries by both.
        now = datetime.now(UTC) + timedelta(days=100)
        archived = archiving.archive(
            service.database, now - timedelta(days=40), tmp_path / "a", service.ledger_key, now
        )
        assert archived is not None
        assert inspection.verify(service.database, told, [tmp_path / "a"], service.ledger_key)[1] is None
        assert inspection.verify(service.database, key=service.ledger_key)[1] is None


def test_what_was_hashed_before_cannot_be_changed_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with started(tmp_path) as http:
        made(http, "one")
        monkeypatch.setattr(marked_hash, "NEW", "sha3-256")
        made(http, "two")
        database = Service.of(http.app).database  # type: ignore[arg-type]
        first = marks(http, "SELECT hash FROM ledger ORDER BY id").index("sha3-256") + 1
        with database.session() as session:
            session.execute(text("DROP TRIGGER ledger_no_update"))
            session.execute(text(f"UPDATE ledger SET actor = 'nobody' WHERE id = {first - 1}"))
        _, wrong = inspection.verify(database)
        assert wrong is not None and wrong.id == first - 1 and wrong.what == "was changed"
