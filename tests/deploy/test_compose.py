"""deploy/compose: taken by docker-compose, set by settings that there are, and its README's steps make what it mounts.

No container engine is here: the database is a PostgreSQL of this machine, with the file's own flags, access rules,
certificate and password file.
"""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from cryptography import x509
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.exc import OperationalError

from agents.agent.settings import AgentSettings
from agents.engine.options import EngineOptions
from controlplane.command.up import UpSettings
from controlplane.db.database import Database
from controlplane.db.migrate import upgrade
from tests.peers import promtool
from tests.postgresql import server_programs
from tests.processes import free_port, let_others_enter
from tests.read_settings import read

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy/compose"
SERVICES: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]
OURS = [name for name, one in SERVICES.items() if one["image"].startswith("tailwright")]


def steps() -> list[str]:
    """The README's commands up to where the files are given to the containers' user."""
    lines = [line.strip() for line in (FOLDER / "README.md").read_text().splitlines() if line.startswith("    ")]
    return lines[: next(place for place, line in enumerate(lines) if line.startswith("sudo"))]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the folder in which the steps have been run."""
    folder = tmp_path_factory.mktemp("compose") / "deploy/compose"
    shutil.copytree(FOLDER, folder)
    shutil.copytree(ROOT / "deploy/prometheus", folder.parent / "prometheus")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for line in steps():
        done = subprocess.run(["bash", "-euc", line], cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{line}: {done.stderr}"
    return folder


def mounts(service: dict[str, Any]) -> dict[str, str]:
    """Paths in the container to what is mounted there."""
    found = {one.split(":")[1]: one.split(":")[0] for one in service.get("volumes", ())}
    return {**found, **{f"/run/secrets/{name}": f"./secrets/{name}" for name in service.get("secrets", ())}}


@pytest.mark.slow
def test_what_is_mounted_is_there_after_the_steps(made: Path) -> None:
    for name, service in SERVICES.items():
        for source in mounts(service).values():
            assert not source.startswith(".") or (made / source).is_file(), f"{name}: {source}"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("docker-compose") is None, reason="no docker-compose here")
def test_docker_compose_takes_it(made: Path) -> None:
    done = subprocess.run(["docker-compose", "config", "-q"], cwd=made, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", OURS)
def test_a_container_is_closed(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] and service["cap_drop"] == ["ALL"] and service["user"] == "10001:10001"
    assert "no-new-privileges:true" in service["security_opt"]
    build = service["build"]
    file = FOLDER / build["context"] / build["dockerfile"]
    assert f" AS {build['target']}\n" in file.read_text()
    assert not [key for key in service.get("environment", {}) if key.endswith(("_TOKEN", "PASSWORD"))]
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))


@pytest.mark.parametrize("name", OURS)
def test_its_settings_are_there_and_name_what_is_mounted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    service = SERVICES[name]
    given = service.get("environment", {})
    for key, value in given.items():
        monkeypatch.setenv(key, value)
    command, *words = service.get("command", ["engine"])
    models: dict[str, Any] = {"up": UpSettings, "agent": AgentSettings, "engine": EngineOptions}
    prefix = "TAILWRIGHT_ENGINE_" if command == "engine" else "TAILWRIGHT_"
    if command in models:
        fields = [*getattr(models[command], "model_fields", getattr(models[command], "__dataclass_fields__", ()))]
        names = {f"{prefix}{field.upper()}" for field in fields}
        assert {key for key in given if key.startswith("TAILWRIGHT_")} <= names
        settings = read(models[command], command, words, prefix)
        assert not isinstance(settings, str), settings
    there = mounts(service)
    for value in (*given.values(), *words):
        for path in (part for part in value.replace("=", " ").replace("&", " ").split() if part.startswith("/")):
            if path.startswith(("/tls/", "/run/secrets/")):
                assert path in there, f"{name}: {path} is not mounted"


def names_in(file: Path) -> set[str]:
    certificate = x509.load_pem_x509_certificate(file.read_bytes())
    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {*found.get_values_for_type(x509.DNSName), *found.get_values_for_type(x509.UniformResourceIdentifier)}


@pytest.mark.slow
def test_certificates_are_for_the_names_that_are_called(made: Path) -> None:
    hosts = {"tailwright": "service", "engine-1": "engines", "engine-2": "engines", "postgres": "postgres"}
    for service in SERVICES.values():
        for value in service.get("environment", {}).values():
            host = urlsplit(value).hostname if "://" in value else None
            if host not in (None, "localhost"):
                assert host in names_in(made / f"tls/{hosts[host]}.pem"), value
        node = service.get("environment", {}).get("TAILWRIGHT_NODE")
        if node:
            assert f"urn:tailwright:node:{node}" in names_in(made / f"tls/{node}.pem")


@pytest.mark.slow
def test_promtool_takes_prometheus_configuration(made: Path, tmp_path: Path) -> None:
    inside = mounts(SERVICES["prometheus"])
    said = (made / "prometheus.yml").read_text().replace("/tls/ca.pem", str(made / inside["/tls/ca.pem"]))
    (tmp_path / "prometheus.yml").write_text(said)
    shutil.copy(made / inside["/etc/prometheus/rules.yml"], tmp_path / "rules.yml")
    promtool("check", "config", str(tmp_path / "prometheus.yml"))


@pytest.fixture(scope="module")
def database_port(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A PostgreSQL with the flags, access rules and password of the file."""
    binaries, as_server = server_programs()
    folder, port = tmp_path_factory.mktemp("postgresql"), free_port()
    shutil.copy(made / "tls/postgres.key", folder / "postgres.key")
    for copy in ("tls/postgres.pem", "pg_hba.conf", "secrets/postgres-password"):
        shutil.copy(made / copy, folder)
    if as_server:
        let_others_enter(folder)
        for file in (folder, *folder.iterdir()):
            shutil.chown(file, "postgres")
    flags = shlex.split(SERVICES["postgres"]["command"][0].partition("docker-entrypoint.sh postgres")[2])
    places = {"/tls": folder, "/run": folder, "/etc/tailwright": folder}
    for place, there in places.items():
        flags = [flag.replace(f"={place}/", f"={there}/") for flag in flags]
    data = folder / "data"
    password = ["-U", "tailwright", f"--pwfile={folder}/postgres-password", "--auth-host=scram-sha-256", "--no-sync"]
    options = f"-p {port} -h 127.0.0.1 -k {folder} -c fsync=off {shlex.join(flags)}"
    run = [*as_server, binaries / "pg_ctl", "-D", data]
    for step in (
        [*as_server, binaries / "initdb", "-D", data, *password],
        [*run, "-l", folder / "log", "-w", "-t", "120", "-o", options, "start"],
    ):
        done = subprocess.run([str(word) for word in step], cwd=folder, stdout=subprocess.DEVNULL, stderr=-1)
        assert done.returncode == 0, done.stderr
    try:
        subprocess.run(
            ["psql", "-h", folder, "-p", str(port), "-U", "tailwright", "-c", "CREATE DATABASE tailwright", "postgres"],
            check=True,
            capture_output=True,
        )
        yield port
    finally:
        subprocess.run([str(word) for word in (*run, "-m", "immediate", "stop")], stdout=subprocess.DEVNULL, cwd=folder)


@pytest.mark.slow
def test_the_service_reaches_the_database_with_tls_and_its_password_file_and_no_other_way(
    made: Path, database_port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = SERVICES["service"]["environment"]
    assert said["PGPASSFILE"] == "/run/secrets/pgpass"
    passwords = tmp_path / "pgpass"
    passwords.write_text((made / "secrets/pgpass").read_text().replace(":5432:", f":{database_port}:"))
    passwords.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(passwords))
    # The name `postgres` is the one that the certificate has; it leads to this machine.
    url = make_url(said["TAILWRIGHT_DATABASE_URL"].replace("/tls/", f"{made}/tls/")).set(port=database_port)
    url = url.update_query_dict({"hostaddr": "127.0.0.1"})
    database = Database(url.render_as_string(hide_password=False))
    upgrade(database)
    with database.engine.connect() as connection:
        asked = "SELECT ssl, version FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
        assert connection.execute(text(asked)).one() in [(True, "TLSv1.3"), (True, "TLSv1.2")]
    database.close()
    for changed, why in (
        ({"sslmode": "disable"}, "no pg_hba.conf entry"),
        ({"sslmode": "verify-full", "sslrootcert": f"{made}/tls/node-1.pem"}, "certificate verify failed"),
    ):
        engine = create_engine(url.update_query_dict(changed))
        with pytest.raises(OperationalError, match=why):
            engine.connect()
        engine.dispose()
