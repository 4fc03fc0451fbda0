"""docs/keys.md: every key and secret that the product has is in the policy, with a word in each column."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agents.agent.delivery import credentials
from agents.agent.settings import AgentSettings
from agents.engine.options import EngineOptions
from controlplane.app import secrets_files
from controlplane.app.tables import all_tables
from controlplane.command.main import app
from controlplane.command.up import UpSettings
from controlplane.contract.bodies.access import Scope
from controlplane.keys.tables import encrypted_columns
from controlplane.ledger import signing
from controlplane.serving.authority import Authority
from controlplane.terminal.profiles import Profile
from controlplane.terminal.setting_sources import settings_of
from deploy.supply import release_signing

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = (ROOT / "docs/keys.md").read_text(encoding="utf-8")
NAMED = frozenset(re.findall(r"`([^`]+)`", DOCUMENT))
SECRET = re.compile(r"key|token|secret|header|password|credential|cert")
NONE = {
    "token_sign_in": "whether a token signs in",
    "node_token_days": "a time",
    "enrolment_token_wait_s": "a time",
    "max_waiting_tokens": "tokens of text",
}
"""Settings whose names sound of secrets, and have none."""


def secret_settings() -> list[str]:
    """Flags of settings that hold, or name a file of, a secret: by their names, or because no error may show them."""
    found = set()
    for model in (UpSettings, AgentSettings, EngineOptions):
        for one in settings_of(model):
            if one.name not in NONE and (SECRET.search(one.name) or not one.field.repr):
                found.add(one.flag)
    return sorted(found)


def secret_files(folder: Path) -> set[str]:
    """What the product calls its own files of keys and tokens."""
    authority = Authority(folder)
    return {
        *(file.filename for file in secrets_files.FILES),
        UpSettings(data_dir=folder).keyring.file.name,
        signing.FILENAME,
        credentials.FILE_NAME,
        *(path.name for path in authority.folder.glob("ca.*")),
    }


@pytest.mark.parametrize("flag", secret_settings())
def test_each_setting_of_a_secret_is_in_the_policy(flag: str) -> None:
    assert flag in NAMED


def test_those_that_are_left_out_are_settings() -> None:
    names = {one.name for model in (UpSettings, AgentSettings, EngineOptions) for one in settings_of(model)}
    assert names >= NONE.keys() and len(secret_settings()) >= 20


def test_each_file_and_column_of_a_secret_is_in_the_policy(tmp_path: Path) -> None:
    (tmp_path / "ca.key").touch()
    columns = {f"{column.table.name}.{column.name}" for column in encrypted_columns(all_tables())}
    profile = {name for name in Profile.__dataclass_fields__ if SECRET.search(name)} - {"client_cert"}
    wanted = secret_files(tmp_path) | columns | profile | {release_signing.VARIABLE}
    missing = {one for one in wanted if not any(one == said or f"{one}" in said.split(".") for said in NAMED)}
    assert missing == set()


def test_each_scope_of_tokens_has_its_time() -> None:
    said = re.findall(r"^\| tokens: scopes? ([a-z, ]+?)[ (|]*(?:\(`--[^|]*|\(`cred[^|]*)?\|", DOCUMENT, re.MULTILINE)
    assert sorted(scope.strip() for row in said for scope in row.split(",")) == sorted(scope.value for scope in Scope)


def test_no_cell_is_empty() -> None:
    tables = [line for line in DOCUMENT.splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in tables]
    assert len(rows) > 20 and all(all(row) for row in rows)
    assert {len(row) for row in rows} == {7, 8}


@pytest.mark.parametrize("command", sorted(said for said in NAMED if said.startswith("tailwright ")))
def test_each_command_is_there(command: str) -> None:
    assert CliRunner().invoke(app, [*command.split()[1:], "--help"]).exit_code == 0
