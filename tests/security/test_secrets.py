"""Who has the database, a backup or a reader's token has no secret; planted files are refused (SEC M9, L3, L4, L8)."""

import hashlib
import importlib
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sqlalchemy import text
from typer.testing import CliRunner

from controlplane.app.serve import set_up_logging
from controlplane.app.service import Service, create_app
from controlplane.app.settings import ServiceSettings
from controlplane.command.main import app as command_line
from controlplane.contract.errors import BadSettings
from controlplane.db.database import Database
from controlplane.telemetry.folding.backup import backup
from tests.hostile_receiver import HostileReceiver

ROOT = Path(__file__).resolve().parents[2]
PARTS = st.integers(0, 2**64).map(lambda number: hashlib.sha256(str(number).encode()).hexdigest()[:20])
"""None is in a file by chance, as a row of zeros is."""


@pytest.fixture
def http(tmp_path: Path) -> Iterator[TestClient]:
    made = create_app(ServiceSettings(data_dir=tmp_path / "data", log_level="debug"))
    with TestClient(made, raise_server_exceptions=False) as client:
        client.headers["Authorization"] = f"Bearer {(tmp_path / 'data/admin-token').read_text().strip()}"
        yield client


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(command_line, [str(argument) for argument in arguments])


def keys_of(data_dir: Path) -> list[str]:
    return [line for line in (data_dir / "secrets.key").read_text().splitlines() if not line.startswith("#")]


def create(http: TestClient, url: str, secret: str | None = None) -> int:
    answer = http.post("/api/v1/destinations", json={"name": "on-call", "url": url, "secret": secret})
    assert answer.status_code == 201, answer.text
    return int(answer.json()["id"])


@pytest.mark.slow
@settings(max_examples=10, phases=[Phase.generate], suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(user=PARTS, password=PARTS, path=PARTS, query=PARTS, secret=PARTS)
def test_no_secret_is_in_the_database_its_log_or_a_backup(
    http: TestClient, tmp_path: Path, user: str, password: str, path: str, query: str, secret: str
) -> None:
    number = create(http, f"http://{user}:{password}@127.0.0.1:9/{path}?key={query}", secret)
    http.post(f"/api/v1/destinations/{number}/test")
    node = {"node": "gpu-1", "pool": "main", "backend": "embedded"}
    workload_key = http.post("/api/v1/enrol", json=node).json()["workload_key"]
    copy = tmp_path / f"backup-{secrets.token_hex(4)}.db"
    backup(tmp_path / "data/tailwright.db", copy)
    http.delete(f"/api/v1/destinations/{number}")
    hidden = [part.encode() for part in (password, path, query, secret, workload_key)]
    hidden += [form for key in keys_of(tmp_path / "data") for form in (key.encode(), bytes.fromhex(key))]
    files = [copy, *(tmp_path / "data").glob("tailwright.db*")]
    assert {file.name for file in files} >= {"tailwright.db", "tailwright.db-wal", copy.name}
    for file in files:
        content = file.read_bytes()
        assert [part for part in hidden if part in content] == [], file


@pytest.mark.slow
def test_nobody_reads_a_url_back(http: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    caplog.set_level("DEBUG", logger="httpx")
    set_up_logging(ServiceSettings(log_level="debug"))
    url = "http://the-user:the-password@127.0.0.1:9/the-path?key=the-query"
    number = create(http, url, "the-secret")
    refused = [
        http.post("/api/v1/destinations", json={"name": "n", "url": "htp://the-user:the-password@h/the-path"}),
        http.post("/api/v1/destinations", json={"name": "n", "url": "http://[the-path?key=the-query"}),
        http.post("/api/v1/destinations", json={"name": "n", "url": ["http://h/the-path"], "secret": "the-secret"}),
        http.post("/api/v1/destinations", json={"name": "n", "url": "http://h", "secret": ["the-secret"]}),
    ]
    assert {answer.status_code for answer in refused} == {400}
    tried = http.post(f"/api/v1/destinations/{number}/test")
    assert tried.json()["last_error"]
    read = [http.get(f"/api/v1/{path}") for path in ("destinations", "deliveries", "ledger")]
    (shown,) = read[0].json()["items"]
    assert shown["url"] == "http://127.0.0.1:9/***"
    assert "http://127.0.0.1:9/***" in read[2].text
    said = "".join(answer.text for answer in (*refused, tried, *read)) + caplog.text
    assert "httpcore" in caplog.text
    for hidden in ("the-user", "the-password", "the-path", "the-query", "the-secret"):
        assert hidden not in said


def test_httpx_logs_no_whole_url(caplog: pytest.LogCaptureFixture) -> None:
    set_up_logging(ServiceSettings(log_level="debug"))
    caplog.set_level("DEBUG")
    caplog.set_level("DEBUG", logger="httpx")
    transport = httpx.MockTransport(lambda _: httpx.Response(200))
    httpx.Client(transport=transport).post("https://the-user:the-password@h.example/the-path?key=the-query")
    assert "https://h.example/***" in caplog.text and "the-" not in caplog.text


EACH_IN_TURN = """
import json, os, sys
import controlplane.app.serve
from controlplane.command.main import main
for name, url, words in json.loads(sys.argv[1]):
    os.environ["TAILWRIGHT_DATABASE_URL"] = url
    if not os.fork():
        for stream, end in ((1, "out"), (2, "err")):
            os.dup2(os.open(f"{sys.argv[2]}/{name}.{end}", os.O_WRONLY | os.O_CREAT), stream)
        sys.argv = ["tailwright", *words]
        sys.exit(main())
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""
"""Runs each command line in a process of its own. What all of them import is imported once."""
COMMANDS = (["up", "--no-tuner"], ["store", "verify"], ["ledger", "head"], ["secrets", "check"])
URLS = [
    "postgresql+psycopg://user:the-pass/word@h/name",
    "postgresql+psycopg://user:the-password@h:the-port/name",
    "the-password",
    "nonsense://user:the-password@h/name",
    "postgresql+psycopg://user:the-password@127.0.0.1:9/name",
    "postgresql+psycopg://user:the-p@ss@127.0.0.1:9/name",
]


@pytest.fixture(scope="module")
def said_of(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[str, str, str]]]:
    """Of each URL what every command ends with: (status, out, err)."""
    folder = tmp_path_factory.mktemp("said")
    lines = [
        (f"{url}-{command}", URLS[url], [*COMMANDS[command], "--data-dir", str(folder / f"data-{url}")])
        for url in range(len(URLS))
        for command in range(len(COMMANDS))
    ]
    statuses = subprocess.run(
        [sys.executable, "-c", EACH_IN_TURN, json.dumps(lines), folder],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout.split()
    said: dict[str, list[tuple[str, str, str]]] = {}
    for (name, url, _), status in zip(lines, statuses, strict=True):
        out, err = ((folder / f"{name}.{end}").read_text() for end in ("out", "err"))
        said.setdefault(url, []).append((status, out, err))
    return said


@pytest.mark.slow
@pytest.mark.parametrize("url", URLS)
def test_a_database_s_password_is_in_no_error(url: str, said_of: dict[str, list[tuple[str, str, str]]]) -> None:
    for command, (status, out, err) in zip(COMMANDS, said_of[url], strict=True):
        assert status != "0" and err, (command, out)
        assert "postgresql" in url or "Traceback" not in err
        assert "the-p" not in out + err, (command, err)


def test_headers_of_exports_come_from_files(tmp_path: Path) -> None:
    file = tmp_path / "headers"
    file.write_text("# for the collector\nAuthorization=Bearer the-token=\n\n")
    file.chmod(0o600)
    settings = ServiceSettings(
        data_dir=tmp_path / "data",
        export_otlp_url="https://the-user:the-password@collector.example/v1/metrics",
        export_otlp_headers_file=file,
        export_remote_write_url="https://the-user:the-password@prometheus.example/write",
        export_remote_write_headers_file=file,
        log_level="error",
    )
    assert "the-" not in repr(settings)
    for exporter in Service.of(create_app(settings)).exporters:
        assert exporter._sender._headers["Authorization"] == "Bearer the-token="  # type: ignore[attr-defined]
    file.write_text("the-token")
    with pytest.raises(BadSettings, match=r"export_otlp_headers_file: .* wants NAME=VALUE in each line") as refused:
        create_app(settings)
    assert "the-token" not in str(refused.value)
    file.chmod(0o644)
    with pytest.raises(BadSettings, match="may be read by everybody"):
        create_app(settings)
    file.unlink()
    with pytest.raises(BadSettings, match="is not there"):
        create_app(settings)


def test_a_secret_that_is_copied_to_another_row_is_not_used(http: TestClient, tmp_path: Path) -> None:
    """Who can write to the database cannot have one destination's letters sent to another's URL, or signed for it."""
    first, second = create(http, "http://127.0.0.1:9/first-hook"), create(http, "http://127.0.0.1:9/second-hook")
    database = Database(f"sqlite:///{tmp_path / 'data/tailwright.db'}")
    with database.session() as session:
        session.execute(text(f"UPDATE destination SET url = (SELECT url FROM destination WHERE id = {first})"))
    database.close()
    answer = http.post(f"/api/v1/destinations/{second}/test")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "undecryptable")


@pytest.mark.slow
def test_another_key_starts_nothing_and_a_lost_one_has_a_mend(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with TestClient(create_app(ServiceSettings(data_dir=data, log_level="error"))) as client:
        client.headers["Authorization"] = f"Bearer {(data / 'admin-token').read_text().strip()}"
        create(client, "https://hooks.example/secret-path")
    assert run("secrets", "check", "--data-dir", data).exit_code == 0
    (data / "secrets.key").unlink()
    with pytest.raises(BadSettings, match="tailwright secrets forget"):
        create_app(ServiceSettings(data_dir=data, log_level="error"))
    assert not (data / "secrets.key").exists()
    assert run("secrets", "check", "--data-dir", data).exit_code == 1
    assert run("secrets", "rotate", "--data-dir", data).exit_code == 1
    named = run("secrets", "forget", "--data-dir", data)
    assert "would remove: destination 'on-call' at https://hooks.example/***: make it anew" in named.output
    done = run("secrets", "forget", "--data-dir", data, "--yes")
    assert (done.exit_code, done.output.replace("would remove", "removed")) == (
        0,
        named.output.replace("would remove", "removed"),
    )
    with TestClient(create_app(ServiceSettings(data_dir=data, log_level="error"))) as client:
        client.headers["Authorization"] = f"Bearer {(data / 'admin-token').read_text().strip()}"
        assert client.get("/api/v1/destinations").json()["items"] == []


@pytest.mark.slow
def test_the_commands_know_every_secret_in_a_process_of_their_own(http: TestClient, tmp_path: Path) -> None:
    """Where nobody has imported the domains, as here."""
    create(http, "http://127.0.0.1:9/first-hook", "a long secret")

    def said(*arguments: object) -> str:
        command = [sys.executable, "-m", "controlplane.command.main", *map(str, arguments)]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout

    data, copy = tmp_path / "data", tmp_path / "copy.db"
    said("store", "backup", copy, "--data-dir", data)
    assert said("secrets", "check", "--data-dir", data).startswith("ok   2 secrets with the key ")
    assert said("secrets", "rotate", "--data-dir", data).startswith("2 secrets encrypted with the new key")
    (data / "secrets.key").write_text("00" * 32)
    assert said("secrets", "check", "--data-dir", data).count("BAD ") == 3
    assert said("secrets", "forget", "--data-dir", data).startswith("would remove: destination 'on-call'")
    command = ["store", "restore", copy, "--data-dir", tmp_path / "elsewhere"]
    restored = subprocess.run(
        [sys.executable, "-m", "controlplane.command.main", *map(str, command)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert restored.returncode == 1 and "BAD  2 of its secrets cannot be read" in restored.stderr


def test_rotation_while_the_service_runs(http: TestClient, tmp_path: Path) -> None:
    with HostileReceiver("drips its body") as receiver:
        number = create(http, receiver.url, "a long secret")
        before = keys_of(tmp_path / "data")
        done = run("secrets", "rotate", "--data-dir", tmp_path / "data")
        assert done.exit_code == 0 and "2 secrets encrypted with the new key" in done.output
        assert len(before) == len(keys_of(tmp_path / "data")) == 1 and before != keys_of(tmp_path / "data")
        assert http.post(f"/api/v1/destinations/{number}/test").json()["state"] == "delivered"
        assert b"tailwright-signature" in receiver.received.lower()
    create(http, "https://hooks.example/later")
    assert run("secrets", "check", "--data-dir", tmp_path / "data").exit_code == 0


def test_a_backup_whose_key_is_elsewhere_says_so(http: TestClient, tmp_path: Path) -> None:
    create(http, "https://hooks.example/secret-path", "a long secret")
    copy = tmp_path / "copy.db"
    said = run("store", "backup", copy, "--data-dir", tmp_path / "data").output
    assert "secrets.key, which is not part of it either" in said
    elsewhere = run("store", "restore", copy, "--data-dir", tmp_path / "elsewhere")
    assert elsewhere.exit_code == 1 and "BAD  2 of its secrets cannot be read." in elsewhere.output
    (tmp_path / "there").mkdir(mode=0o700)
    (tmp_path / "there/secrets.key").write_bytes((tmp_path / "data/secrets.key").read_bytes())
    there = run("store", "restore", copy, "--data-dir", tmp_path / "there")
    assert there.exit_code == 0, there.output


def started(data_dir: Path) -> None:
    Service.of(create_app(ServiceSettings(data_dir=data_dir, log_level="error"))).database.close()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder after a first start."""
    started(tmp_path / "data")
    return tmp_path / "data"


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_folder_that_others_may_write_to_is_refused(data: Path, mode: int) -> None:
    data.chmod(mode)
    with pytest.raises(BadSettings, match=f"data_dir: .* may be written to by others: chmod go-w {data}"):
        started(data)
    assert "chmod go-w" in run("up", "--data-dir", data, "--no-tuner").output
    data.chmod(0o755)
    started(data)


def test_a_link_to_one_s_own_folder_is_followed(data: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(data)
    started(tmp_path / "link")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_what_another_user_owns_is_refused(data: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(data)
    for path, field in ((data / "admin-token", "data_dir"), (data / "secrets.key", "secrets_key_file")):
        os.chown(path, 65534, 65534)
        with pytest.raises(BadSettings, match=f"{field}: .*{path.name} belongs to user 65534"):
            started(data)
        os.chown(path, 0, 0)
    os.chown(tmp_path / "link", 65534, 65534, follow_symlinks=False)
    with pytest.raises(BadSettings, match="is a link that user 65534 has made"):
        started(tmp_path / "link")
    os.chown(data, 65534, 65534)
    with pytest.raises(BadSettings, match="belongs to user 65534: give it to this user"):
        started(data)


NAMES = ["admin-token", "tuner-token", "secrets.key", "ledger-key", "tailwright.db", "tailwright.db-wal"]


@pytest.mark.parametrize("name", NAMES)
def test_a_planted_link_is_not_followed(data: Path, tmp_path: Path, name: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    if (data / name).exists():
        (data / name).rename(elsewhere)
    (data / name).symlink_to(elsewhere)
    with pytest.raises(BadSettings, match=f"{name} is a (symbolic )?link"):
        started(data)


@pytest.mark.parametrize("name", ["admin-token", "secrets.key", "ledger-key"])
def test_a_pipe_or_a_file_that_others_may_write_to_is_refused(data: Path, name: str) -> None:
    (data / name).chmod(0o620)
    with pytest.raises(BadSettings, match=f"{name} may be written to by others"):
        started(data)
    (data / name).unlink()
    os.mkfifo(data / name)
    with pytest.raises(BadSettings, match=f"{name} is no file"):
        started(data)


@pytest.mark.parametrize(
    "planted", ["keep", "tailwright_short", "tailwright_" + "a" * 44, "x\n" * 40_000, "t\u00f6ken"]
)
def test_a_planted_token_is_never_taken(data: Path, planted: str) -> None:
    (data / "admin-token").write_text(planted)
    with pytest.raises(BadSettings, match=r"admin-token (holds no token of this service's form|is no file of this)"):
        started(data)
    (data / "admin-token").unlink()
    started(data)


def test_a_token_of_our_form_is_the_mend_for_a_lost_one(data: Path) -> None:
    ours = "tailwright_" + secrets.token_urlsafe(32)
    (data / "admin-token").write_text(ours)
    started(data)
    with TestClient(create_app(ServiceSettings(data_dir=data, log_level="error"))) as client:
        assert client.get("/api/v1/tokens", headers={"Authorization": f"Bearer {ours}"}).status_code == 200


def test_the_folder_shared_with_vllm_is_one_user_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAILWRIGHT_VLLM_DIR", str(tmp_path / "shared"))
    monkeypatch.syspath_prepend(str(ROOT / "agents/vllm_plugin"))
    folder = importlib.import_module("tailwright_vllm.folder")
    assert folder.shared_folder() == tmp_path / "shared"
    assert (tmp_path / "shared").stat().st_mode & 0o777 == 0o700
    for mode in (0o777, 0o770):
        (tmp_path / "shared").chmod(mode)
        with pytest.raises(PermissionError, match="chmod go-w"):
            folder.shared_folder()
    (tmp_path / "shared").chmod(0o700)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    owner = (tmp_path / "shared").stat().st_uid
    if owner:
        with pytest.raises(PermissionError, match=f"belongs to user {owner}, not to vLLM's"):
            folder.shared_folder()


def test_metrics_want_the_token_of_their_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("a-scraper-s-own-token\n")
    file.chmod(0o640)
    made = ServiceSettings(data_dir=tmp_path / "data", metrics_token_file=file, log_level="error")
    with TestClient(create_app(made)) as client:
        admin = (tmp_path / "data/admin-token").read_text().strip()
        for given in ("", "Bearer", "Bearer wrong", f"Bearer {admin}", "Basic a-scraper-s-own-token", "Bearer t\u00f6"):
            refused = client.get("/metrics", headers={b"Authorization": given.encode("latin-1")})
            assert (refused.status_code, refused.json()["error"]["code"]) == (401, "unauthenticated"), given
        answer = client.get("/metrics", headers={"Authorization": "Bearer a-scraper-s-own-token"})
        assert answer.status_code == 200 and "tailwright_auth_refused_total" in answer.text
        assert "a-scraper" not in repr(Service.of(client.app))  # type: ignore[arg-type]
        assert client.get("/api/v1/nodes", headers={"Authorization": "Bearer a-scraper-s-own-token"}).status_code == 401
    file.write_text("short")
    with pytest.raises(BadSettings, match=r"metrics_token_file: .* wants one token of 16 characters"):
        create_app(made)


@pytest.mark.slow
def test_the_api_s_document_can_be_closed(tmp_path: Path) -> None:
    with TestClient(create_app(ServiceSettings(data_dir=tmp_path, public_docs=False, log_level="error"))) as client:
        for path in ("/docs", "/docs/start.js", "/docs/files/favicon.png", "/redoc"):
            assert client.get(path).status_code == 404, path
        assert client.get("/openapi.json").status_code == 401
        admin = {"Authorization": f"Bearer {(tmp_path / 'admin-token').read_text().strip()}"}
        assert "/api/v1/nodes" in client.get("/openapi.json", headers=admin).json()["paths"]
