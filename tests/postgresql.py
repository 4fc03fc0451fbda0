"""A PostgreSQL server for a test session: the one of TAILWRIGHT_TEST_POSTGRES_URL, or else a throw-away cluster."""

import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from tests.processes import free_port


def _binaries() -> Path | None:
    """The folder of initdb and pg_ctl, the newest version first."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: path.parent.name, reverse=True)
    found = shutil.which("pg_ctl")
    folders += [Path("/usr/local/bin")] if found is None else [Path(found).parent]
    return next((folder for folder in folders if (folder / "pg_ctl").exists() and (folder / "initdb").exists()), None)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """SQLAlchemy URL of an empty database; fails where no server can be started."""
    given = os.environ.get("TAILWRIGHT_TEST_POSTGRES_URL")
    if given:
        yield given
        return
    binaries = _binaries()
    if binaries is None:
        pytest.fail("no PostgreSQL server is installed: deploy/test_packages.sh installs one")
    # The server refuses to run as root: borrow its own user there. That user must be able to enter the folder.
    as_server = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    folder = Path(tempfile.mkdtemp(prefix="tailwright-postgres-"))
    try:
        if as_server:
            shutil.chown(folder, "postgres")
        data, port = folder / "data", free_port()
        steps = (
            [binaries / "initdb", "-D", data, "-U", "tailwright", "-A", "trust", "-E", "UTF8", "--no-sync"],
            [binaries / "pg_ctl", "-D", data, "-l", folder / "log", "-w", "-t", "30", "-o",
             f"-p {port} -h 127.0.0.1 -k {folder} -c fsync=off -c max_connections=200", "start"],
        )  # fmt: skip
        for step in steps:
            done = subprocess.run(
                [*as_server, *map(str, step)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                cwd=folder,
                check=False,
            )
            if done.returncode:
                pytest.fail(f"PostgreSQL does not start here: {done.stderr.decode()[:300]}")
        try:
            yield f"postgresql+psycopg://tailwright@127.0.0.1:{port}/postgres"
        finally:
            stop = [binaries / "pg_ctl", "-D", data, "-m", "immediate", "stop"]
            subprocess.run([*as_server, *map(str, stop)], stdout=subprocess.DEVNULL, cwd=folder, check=False)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgres_schema_url(postgres_url: str) -> Iterator[str]:
    """SQLAlchemy URL of an empty schema of its own on the session's PostgreSQL server; dropped afterwards."""
    schema = f"test_{secrets.token_hex(6)}"
    server = create_engine(postgres_url)
    try:
        with server.begin() as connection:
            connection.execute(text(f"CREATE SCHEMA {schema}"))
        yield f"{postgres_url}{'&' if '?' in postgres_url else '?'}options=-csearch_path%3D{schema}"
        with server.begin() as connection:
            connection.execute(text(f"DROP SCHEMA {schema} CASCADE"))
    finally:
        server.dispose()
