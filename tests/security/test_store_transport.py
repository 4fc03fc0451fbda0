"""PostgreSQL over TLS: a real server's handshake, and what is not spoken to (SEC H5)."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from controlplane.app.service import create_app
from controlplane.app.settings import ServiceSettings
from controlplane.db.database import Database
from controlplane.serving.authority import Authority
from tests.postgresql import cluster

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    made = Authority(tmp_path_factory.mktemp("tls"))
    now = datetime.now(UTC)
    made.init(now)
    made.issue_server("database", ["127.0.0.1"], now)
    return made


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The certificate of a CA that vouches for nobody here."""
    other = Authority(tmp_path_factory.mktemp("other"))
    other.init(datetime.now(UTC))
    return other.folder / "ca.pem"


@pytest.fixture(scope="module")
def secured_url(authority: Authority) -> Iterator[str]:
    """Of a server that takes connections over TLS alone."""
    with cluster(tls=authority.folder / "database") as url:
        yield url


def test_the_service_speaks_to_postgresql_over_tls(secured_url: str, authority: Authority, tmp_path: Path) -> None:
    url = f"{secured_url}?sslmode=verify-full&sslrootcert={authority.folder / 'ca.pem'}"
    database = create_app(ServiceSettings(data_dir=tmp_path, database_url=url)).state.service.database
    with database.read_session() as session:
        query = text("SELECT ssl, version FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
        encrypted, version = session.connection().execute(query).one()
    assert encrypted and version in {"TLSv1.2", "TLSv1.3"}
    database.close()


@pytest.mark.parametrize("how", ["sslmode=disable", "sslmode=verify-full&sslrootcert={stranger}"])
def test_there_is_no_database_in_clear_or_of_another_ca(secured_url: str, stranger: Path, how: str) -> None:
    database = Database(f"{secured_url}?{how.format(stranger=stranger)}")
    with pytest.raises(OperationalError), database.session() as session:
        session.connection()
    database.close()
