"""The token files: made once, private, kept, and never a way back for a revoked token."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlmodel import select

from controlplane.app import secrets_files
from controlplane.auth import store
from controlplane.auth.tables import TokenRow
from controlplane.contract.bodies.access import Scope
from controlplane.db.database import Database
from tests.made_tables import migrate

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ["admin-token", "dashboard-token", "enrolment-token", "tuner-token"]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = Database(f"sqlite:///{tmp_path / 'tokens.db'}")
    migrate(made)
    yield made
    made.close()


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


def start(database: Database, data_dir: Path) -> dict[str, str]:
    """One start of the service; returns the files' content."""
    with database.session() as session:
        secrets_files.ensure(session, data_dir, NOW)
    return {path.name: path.read_text() for path in sorted(data_dir.iterdir())}


def live(database: Database, token: str) -> bool:
    with database.read_session() as session:
        return store.find(session, token.strip()) is not None


def test_the_first_start_writes_private_files(database: Database, data_dir: Path) -> None:
    files = start(database, data_dir)
    assert list(files) == NAMES
    assert data_dir.stat().st_mode & 0o777 == 0o700
    for name in NAMES:
        assert (data_dir / name).stat().st_mode & 0o777 == 0o600
    with database.read_session() as session:
        scopes = {}
        for name, token in files.items():
            view = store.find(session, token.strip())
            assert view is not None
            scopes[name] = view.scope
        digests = [row.digest for row in session.exec(select(TokenRow))]
    assert scopes == dict(zip(NAMES, [Scope.ADMIN, Scope.READ, Scope.ENROL, Scope.OPERATE], strict=True))
    assert not any(token.strip() in digest for token in files.values() for digest in digests)
    assert secrets_files.read(data_dir, secrets_files.ADMIN) == files["admin-token"].strip()


def test_later_starts_keep_them(database: Database, data_dir: Path) -> None:
    first = start(database, data_dir)
    (data_dir / "admin-token").chmod(0o644)
    assert start(database, data_dir) == first
    assert (data_dir / "admin-token").stat().st_mode & 0o777 == 0o600
    with database.read_session() as session:
        assert len(session.exec(select(TokenRow)).all()) == 4


def test_an_admin_token_kept_elsewhere_is_not_made_again(database: Database, data_dir: Path) -> None:
    first = start(database, data_dir)
    for name in NAMES:
        (data_dir / name).unlink()
    second = start(database, data_dir)
    assert list(second) == ["dashboard-token", "tuner-token"]
    assert live(database, first["admin-token"])
    assert live(database, second["tuner-token"])


def test_a_revoked_token_does_not_come_back(database: Database, data_dir: Path) -> None:
    first = start(database, data_dir)
    with database.session() as session:
        for name in ("admin-token", "tuner-token"):
            view = store.find(session, first[name].strip())
            assert view is not None
            store.revoke(session, view.id, actor="t", now=NOW)
    second = start(database, data_dir)
    for name in ("admin-token", "tuner-token"):
        assert second[name] != first[name]
        assert not live(database, first[name])
        assert live(database, second[name])


def test_a_start_that_was_killed_is_completed(database: Database, data_dir: Path) -> None:
    def killed() -> None:
        with database.session() as session:
            secrets_files.ensure(session, data_dir, NOW)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        killed()
    left = (data_dir / "admin-token").read_text()
    assert not live(database, left)
    assert start(database, data_dir)["admin-token"] == left
    assert live(database, left)
