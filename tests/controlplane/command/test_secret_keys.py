"""`tailwright secrets` for programs: one document each; what it does to secrets is tests/security/test_secrets.py's."""

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from controlplane.app.service import create_app
from controlplane.app.settings import ServiceSettings
from controlplane.command.main import app
from controlplane.db.database import Database
from controlplane.keys import reencryption


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data directory whose database holds three secrets: two URLs, and what signs the letters to one of them."""
    found = tmp_path / "data"
    with TestClient(create_app(ServiceSettings(data_dir=found, log_level="error"))) as client:
        client.headers["Authorization"] = f"Bearer {(found / 'admin-token').read_text().strip()}"
        wanted = {"name": "on-call", "url": "https://hooks.example/secret-path", "secret": "a long secret"}
        assert client.post("/api/v1/destinations", json=wanted).status_code == 201
        hook = {"pool": "chat", "name": "load test", "kind": "event", "url": "https://ci.example/secret-path"}
        assert client.put("/api/v1/rollout-hooks", json=hook).status_code == 200
    return found


def told(folder: Path, *words: str, status: int = 0) -> Any:
    done = CliRunner().invoke(app, ["secrets", *words, "--data-dir", str(folder), "--json"])
    assert done.exit_code == status, done.output
    return json.loads(done.stdout)


def test_a_key_is_made_taken_into_use_and_alone(folder: Path) -> None:
    before = told(folder, "check")
    assert before["fine"] and before["unreadable"] == []
    (key,) = before["keys"]
    assert key["secrets"] == 3 and key["known"]
    made = told(folder, "new-key")
    assert made["file"] == str(folder / "secrets.key") and made["key"] != key["key"]
    assert told(folder, "rotate") == {**made, "secrets": 3, "alone": True}
    assert told(folder, "check")["keys"] == [{"key": made["key"], "secrets": 3, "known": True}]


def test_what_a_lost_key_takes_along(folder: Path) -> None:
    (folder / "secrets.key").write_text("00" * 32 + "\n")
    found = told(folder, "check", status=1)
    assert not found["fine"] and len(found["unreadable"]) == 3 and not found["keys"][0]["known"]
    assert found["unreadable"][0]["place"].startswith("destination.")
    lost = told(folder, "forget")
    assert not lost["removed"] and "on-call" in lost["lost"][0] and "load test" in lost["lost"][1]
    assert told(folder, "forget", "--yes") == {"lost": lost["lost"], "removed": True}
    assert told(folder, "forget", "--yes")["lost"] == []


def test_who_rotated_and_was_overtaken_is_told_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another rotation commits between this one's own and the dropping of old keys."""
    rotate = reencryption.rotate

    def overtaken(database: Database, keyring: Any, metadata: Any, now: Any) -> tuple[str, int]:
        mine = rotate(database, keyring, metadata, now)
        rotate(database, keyring, metadata, now)
        return mine

    monkeypatch.setattr(reencryption, "rotate", overtaken)
    assert not told(folder, "rotate")["alone"]
    said = CliRunner().invoke(app, ["secrets", "rotate", "--data-dir", str(folder)]).stdout
    assert "Somebody has rotated again since" in said and "holds it alone" not in said
