"""A PostgreSQL server for a test session: the one of TAILWRIGHT_TEST_POSTGRES_URL, or else a throw-away cluster."""

import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, text

from tests import kept_schemas
from tests.processes import free_port

GIVEN = "TAILWRIGHT_TEST_POSTGRES_URL"
"""A server of somebody's, on which nothing is left."""
MEMORY_BYTES = 4 * 2**30
"""What must be free where files are memory: clusters of four workers take less than one."""


def _binaries() -> Path | None:
    """The folder of initdb and pg_ctl, the newest version first."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: path.parent.name, reverse=True)
    found = shutil.which("pg_ctl")
    folders += [Path("/usr/local/bin")] if found is None else [Path(found).parent]
    return next((folder for folder in folders if (folder / "pg_ctl").exists() and (folder / "initdb").exists()), None)


def server_programs() -> tuple[Path, list[str]]:
    """The folder of initdb and pg_ctl, and what comes before them: the server refuses to run as root, and borrows its
    own user there. That user must be able to enter its folder. Fails where no server can be started."""
    binaries = _binaries()
    if binaries is None:
        pytest.fail("no PostgreSQL server is installed: deploy/test_packages.sh installs one")
    return binaries, ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []


def quick_folder() -> Path | None:
    """Where a cluster's files stay in memory: making and dropping a schema of some hundred files takes a third of the
    CPU there. None where there is no such place, or little of it: the folder for temporary files then."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() and shutil.disk_usage(memory).free > MEMORY_BYTES else None


@contextmanager
def cluster(tls: Path | None = None) -> Iterator[str]:
    """A throw-away server's SQLAlchemy URL; fails where none can be started.

    tls: path of its certificate and key without `.pem` and `.key`; it then takes connections over TLS alone.
    """
    binaries, as_server = server_programs()
    folder = Path(tempfile.mkdtemp(prefix="tailwright-postgres-", dir=quick_folder()))
    try:
        if as_server:
            shutil.chown(folder, "postgres")
        data, port = folder / "data", free_port()

        def run(*words: object) -> None:
            done = subprocess.run(
                [*as_server, *map(str, words)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                cwd=folder,
                check=False,
            )
            if done.returncode:
                pytest.fail(f"PostgreSQL does not start here: {done.stderr.decode()[:300]}")

        run(binaries / "initdb", "-D", data, "-U", "tailwright", "-A", "trust", "-E", "UTF8", "--no-sync")
        options = f"-p {port} -h 127.0.0.1 -k {folder} -c fsync=off -c max_connections=200 -c max_wal_size=128MB"
        if tls is not None:
            options += f" -c ssl=on -c ssl_cert_file={folder}/server.pem -c ssl_key_file={folder}/server.key"
            (data / "pg_hba.conf").write_text("hostssl all all 127.0.0.1/32 trust\n")
            for suffix in (".pem", ".key"):
                mine = shutil.copy(tls.with_name(tls.name + suffix), folder / f"server{suffix}")
                mine.chmod(0o600)
                if as_server:
                    shutil.chown(mine, "postgres")
        run(binaries / "pg_ctl", "-D", data, "-l", folder / "log", "-w", "-t", "30", "-o", options, "start")
        try:
            yield f"postgresql+psycopg://tailwright@127.0.0.1:{port}/postgres"
        finally:
            stop = [binaries / "pg_ctl", "-D", data, "-m", "immediate", "stop"]
            subprocess.run([*as_server, *map(str, stop)], stdout=subprocess.DEVNULL, cwd=folder, check=False)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """SQLAlchemy URL of an empty database; fails where no server can be started."""
    given = os.environ.get(GIVEN)
    if given:
        yield given
        return
    with cluster() as url:
        yield url


@pytest.fixture(scope="session")
def postgres_server(postgres_url: str) -> Iterator[Engine]:
    """Connections that make and drop schemas, the same for all tests: for a new one the server reads its catalogue."""
    made = create_engine(postgres_url, pool_pre_ping=True)
    yield made
    made.dispose()


@pytest.fixture
def postgres_schema_url(postgres_url: str, postgres_server: Engine) -> Iterator[str]:
    """SQLAlchemy URL of an empty schema of its own on the session's PostgreSQL server; afterwards dropped, or kept for
    the next test with the same tables."""
    schema = f"test_{secrets.token_hex(6)}"
    with postgres_server.begin() as connection:
        connection.execute(text(f"CREATE SCHEMA {schema}"))
    yield f"{postgres_url}{'&' if '?' in postgres_url else '?'}options=-csearch_path%3D{schema}"
    kept_schemas.give_back(postgres_server, schema, keep=GIVEN not in os.environ)
