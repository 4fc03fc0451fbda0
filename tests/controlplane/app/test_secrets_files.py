"""The token files: made once, private, kept, and never a way back for a revoked token."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlmodel import select

from controlplane.app import secrets_files
from controlplane.auth import store
from controlplane.auth.principal import authenticate
from controlplane.auth.tables import TokenRow
from controlplane.auth.token import new_token
from controlplane.contract.bodies.access import Scope, TokenCreate
from controlplane.contract.errors import Unauthenticated
from controlplane.db.database import Database
from tests.made_tables import migrate

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LASTS = timedelta(days=30)
FIRST = ("admin-token", "enrolment-token")
Later = Callable[[Database, Path, datetime], dict[str, str]]
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


def start_at(database: Database, data_dir: Path, now: datetime) -> dict[str, str]:
    with database.session() as session:
        secrets_files.ensure(session, data_dir, now, LASTS)
    return {path.name: path.read_text() for path in sorted(data_dir.iterdir())}


def run_until(database: Database, data_dir: Path, now: datetime) -> dict[str, str]:
    """What the service does by the hour while it runs."""
    with database.session() as session:
        secrets_files.renew(session, data_dir, now, LASTS)
    return {path.name: path.read_text() for path in sorted(data_dir.iterdir())}


def counts(database: Database, token: str, now: datetime) -> bool:
    try:
        authenticate(database, f"Bearer {token.strip()}", now)
    except Unauthenticated:
        return False
    return True


@pytest.mark.parametrize("later", [start_at, run_until])
def test_a_first_secret_ends_and_whoever_may_read_the_folder_is_not_locked_out(
    database: Database, data_dir: Path, later: Later
) -> None:
    first = start_at(database, data_dir, NOW)
    last, end = NOW + LASTS - timedelta(seconds=1), NOW + LASTS
    assert later(database, data_dir, last) == first
    assert all(counts(database, first[name], last) for name in NAMES)
    assert not any(counts(database, first[name], end) for name in FIRST)
    second = later(database, data_dir, end)
    assert {name for name in NAMES if first[name] != second[name]} == set(FIRST)
    assert all(counts(database, second[name], end) for name in NAMES)
    assert not any(counts(database, second[name], end + LASTS) for name in FIRST)


@pytest.mark.parametrize("later", [start_at, run_until])
def test_where_somebody_has_made_another_no_first_secret_comes_back(
    database: Database, data_dir: Path, later: Later
) -> None:
    first = start_at(database, data_dir, NOW)
    with database.session() as session:
        wanted = TokenCreate(name="ada", scope=Scope.ADMIN, expires_at=NOW + 2 * LASTS)
        store.create(session, wanted, actor="admin", now=NOW)
    second = later(database, data_dir, NOW + LASTS)
    assert second["admin-token"] == first["admin-token"]
    assert not counts(database, second["admin-token"], NOW + LASTS)
    assert second["enrolment-token"] != first["enrolment-token"]
    # Its own end is nobody's lock-out either.
    assert counts(database, later(database, data_dir, NOW + 2 * LASTS)["admin-token"], NOW + 2 * LASTS)


def test_while_it_runs_none_is_made_for_one_that_was_revoked_or_removed(database: Database, data_dir: Path) -> None:
    first = start_at(database, data_dir, NOW)
    with database.session() as session:
        view = store.find(session, first["admin-token"].strip())
        assert view is not None
        store.revoke(session, view.id, actor="t", now=NOW)
    (data_dir / "enrolment-token").unlink()
    after = run_until(database, data_dir, NOW + LASTS)
    assert after["admin-token"] == first["admin-token"] and "enrolment-token" not in after


def test_one_that_was_left_by_a_killed_start_has_an_end_too(database: Database, data_dir: Path) -> None:
    data_dir.mkdir(mode=0o700)
    secrets_files.owned_files.write(data_dir / "admin-token", new_token() + "\n")
    held = start_at(database, data_dir, NOW)
    assert counts(database, held["admin-token"], NOW)
    assert not counts(database, held["admin-token"], NOW + LASTS)


def test_without_an_end_they_count_until_they_are_revoked(database: Database, data_dir: Path) -> None:
    first = start(database, data_dir)
    assert all(counts(database, first[name], NOW + 100 * LASTS) for name in NAMES)
