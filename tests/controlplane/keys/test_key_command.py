"""Keys that a command wraps: what lies in the file opens nothing, and no answer is no key."""

import secrets
import shlex
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from controlplane.app.service import Service, create_app
from controlplane.app.settings import ServiceSettings
from controlplane.app.tables import all_tables
from controlplane.command.main import app as command_line
from controlplane.contract.errors import BadSettings
from controlplane.db.database import Database
from controlplane.keys import KeyCommand, Keyring, reencryption
from controlplane.keys.encryption import Key
from tests.keyrings import add_destination, keyring_of

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = shlex.join([sys.executable, str(Path(__file__).with_name("key_service.py"))])
TRANSIT = ROOT / "deploy/vault/transit.sh"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
URL = "https://hooks.example/services/T0/B0/1"


@pytest.fixture
def master(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The key service's own keys."""
    file = tmp_path / "master.key"
    file.write_text(secrets.token_hex(32) + "\n")
    monkeypatch.setenv("KEY_SERVICE", str(file))
    monkeypatch.setenv("TAILWRIGHT_NOT_ITS_BUSINESS", "1")
    return file


def calls(master: Path) -> list[str]:
    log = master.with_suffix(".log")
    return log.read_text().splitlines() if log.exists() else []


def wrapped_lines(file: Path) -> list[str]:
    return [line for line in file.read_text().splitlines() if not line.startswith("#")]


def run(*arguments: object) -> str:
    done = CliRunner().invoke(command_line, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    return done.output


def test_the_file_has_no_key_in_clear_and_a_restart_unwraps_it(
    master: Path, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "secrets.key"
    keyring = Keyring(file, command=KeyCommand.of(PROGRAM))
    keyring.open(database)
    monkeypatch.setattr("tests.keyrings._keyring", lambda: keyring)
    assert keyring_of(database) is keyring
    add_destination(database, URL, NOW)
    (key_id,) = keyring.key_ids
    assert wrapped_lines(file)[0].startswith(f"wrapped {key_id} vault:v1:")
    assert keyring.key(key_id).secret.hex() not in file.read_text()
    assert calls(master) == ["wrap []", "unwrap []"]  # It looks whether it gets back what it has wrapped.
    later = Keyring(file, command=KeyCommand.of(PROGRAM))
    later.refuse_clear()
    later.open(database)
    with database.snapshot() as connection:
        (one,) = reencryption.stored(connection, all_tables())
    for _ in range(3):
        assert later.decrypt(one.place, one.text) == URL
    assert calls(master)[2:] == ["unwrap []"] and later.command is not None
    assert later.command.counts == {("unwrap", "answered"): 1}


def test_what_is_in_the_file_opens_nothing_without_its_command_or_its_master_key(
    master: Path, database: Database, tmp_path: Path
) -> None:
    file = tmp_path / "secrets.key"
    Keyring(file, command=KeyCommand.of(PROGRAM)).open(database)
    with pytest.raises(BadSettings, match=r"secrets_key_command: is not set, and .* wrapped: set the command"):
        Keyring(file).open(database)
    master.write_text(secrets.token_hex(32) + "\n")
    with pytest.raises(BadSettings, match=r"unwrap` ended with status 1: .*InvalidTag"):
        Keyring(file, command=KeyCommand.of(PROGRAM)).open(database)


def test_a_text_that_was_exchanged_is_no_other_key(master: Path, database: Database, tmp_path: Path) -> None:
    file = tmp_path / "secrets.key"
    keyring = Keyring(file, command=KeyCommand.of(PROGRAM))
    keyring.open(database)
    (key_id,) = keyring.key_ids
    other = KeyCommand.of(PROGRAM).wrap(bytes(32))
    file.write_text(f"wrapped {key_id} {other}\n")
    with pytest.raises(BadSettings, match=f"gives another key than {key_id}"):
        Keyring(file, command=KeyCommand.of(PROGRAM)).open(database)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("exit 3", "ended with status 3: 'it said nothing'"),
        ("echo first >&2; echo sealed >&2; exit 1", "ended with status 1: 'sealed'"),
        ("", "did not answer with one line"),
        ("echo not a key", "did not answer with one line"),
        ("sleep 60 & sleep 60", "did not end within 0.5 s"),
        ("exec >&- 2>&-; sleep 60", "did not end within 0.5 s"),
        ("yes", "says more than 8192 bytes"),
        ("yes >&2", "says more than 8192 bytes"),
    ],
)
def test_what_does_not_answer_is_named_and_counted(script: str, said: str, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    command = KeyCommand((str(program),), timeout_s=0.5 if "sleep" in script else 10)
    with pytest.raises(BadSettings, match=r"^secrets_key_command: `.*program unwrap`") as refused:
        command.unwrap("text")
    assert said in refused.value.message and refused.value.code == "bad_settings"
    assert command.counts == {("unwrap", "failed"): 1}


def test_a_program_that_cannot_be_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="cannot be run: No such file"):
        KeyCommand.of(str(tmp_path / "none")).wrap(bytes(32))
    for text in ("", "'"):
        with pytest.raises(BadSettings, match="secrets_key_command: "):
            KeyCommand.of(text)


def test_a_command_that_does_not_give_back_what_it_wrapped_writes_nothing(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho {'0' * 64}\n")
    program.chmod(0o755)
    keyring = Keyring(tmp_path / "secrets.key", command=KeyCommand((str(program),)))
    with pytest.raises(BadSettings, match="does not give back the key that it has wrapped"):
        keyring.add()
    assert not keyring.file.exists()


@pytest.mark.slow
def test_from_a_key_in_clear_to_a_wrapped_one_and_on_to_the_next_master_key(master: Path, tmp_path: Path) -> None:
    data, given = tmp_path / "data", ("--secrets-key-command", PROGRAM, "--data-dir", tmp_path / "data")
    file = data / "secrets.key"
    settings = ServiceSettings(data_dir=data, log_level="error")
    wrapped = settings.model_copy(update={"secrets_key_command": PROGRAM})
    with TestClient(create_app(settings)) as client:
        client.headers["Authorization"] = f"Bearer {(data / 'admin-token').read_text().strip()}"
        assert client.post("/api/v1/destinations", json={"name": "a", "url": URL}).status_code == 201
        assert "tailwright_key_command" not in client.get("/metrics").text
    run("secrets", "new-key", "--data-dir", data)  # In clear: not to be taken into use below.
    with pytest.raises(BadSettings, match="has a key in clear: `tailwright secrets rotate` with this setting"):
        create_app(wrapped)
    for version in (1, 2):
        assert "1 secrets encrypted with the new key" in run("secrets", "rotate", *given)
        (line,) = wrapped_lines(file)
        assert f" vault:v{version}:" in line
        with TestClient(create_app(wrapped)) as client:
            client.headers["Authorization"] = f"Bearer {(data / 'admin-token').read_text().strip()}"
            assert 'tailwright_key_command_total{action="unwrap",outcome="answered"} 1.0' in client.get("/metrics").text
        master.write_text(master.read_text() + secrets.token_hex(32) + "\n")  # The service's own rotation.
    assert run("secrets", "check", *given).startswith("ok   1 secrets with the key ")


@pytest.mark.slow
def test_secrets_are_not_forgotten_because_the_vault_is_away(master: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    settings = ServiceSettings(data_dir=data, log_level="error", secrets_key_command=PROGRAM)
    with TestClient(create_app(settings)) as client:
        client.headers["Authorization"] = f"Bearer {(data / 'admin-token').read_text().strip()}"
        assert client.post("/api/v1/destinations", json={"name": "a", "url": URL}).status_code == 201
    there = master.rename(master.with_suffix(".away"))
    given = ["secrets", "forget", "--yes", "--secrets-key-command", PROGRAM, "--data-dir", str(data)]
    done = CliRunner().invoke(command_line, given)
    assert done.exit_code == 1 and "secrets_key_command: " in done.output
    with pytest.raises(BadSettings, match="secrets_key_command: "):
        create_app(settings)
    there.rename(master)
    Service.of(create_app(settings)).database.close()
    assert "ok   1 secrets" in run("secrets", "check", "--secrets-key-command", PROGRAM, "--data-dir", data)


@pytest.mark.skipif(shutil.which("base64") is None, reason="no base64 here")
def test_vaults_script_says_to_vault_what_vault_understands(
    master: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for Vault's command line, which takes its arguments and standard input as Vault's does."""
    vault = tmp_path / "vault"
    vault.write_text(f'#!/bin/sh\nexec {PROGRAM} "$@"\n')
    vault.chmod(0o755)
    monkeypatch.setenv("VAULT", str(vault))
    command, key = KeyCommand((str(TRANSIT),)), Key(secrets.token_bytes(32))
    wrapped = command.wrap(key.secret)
    assert wrapped.startswith("vault:v1:") and command.unwrap(wrapped) == key.secret
    with pytest.raises(BadSettings, match="ended with status"):
        command.unwrap("vault:v1:AAAA")
