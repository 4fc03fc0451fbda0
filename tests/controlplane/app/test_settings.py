"""Settings: arguments beat the environment, which beats the file; mistakes are named."""

import inspect
from pathlib import Path

import pytest

from controlplane.app.settings import ServiceSettings, load_settings
from controlplane.command.up import up
from controlplane.contract.errors import BadRequest
from controlplane.telemetry.folding.retention import Retention


@pytest.fixture
def toml_file(tmp_path: Path) -> Path:
    path = tmp_path / "tailwright.toml"
    path.write_text('[up]\nport = 1111\nlog-level = "debug"\n[agent]\nnode = "a"\n')
    return path


def test_defaults_need_nothing() -> None:
    settings = load_settings()
    assert (settings.host, settings.port) == ("127.0.0.1", 7300)
    assert settings.url == f"sqlite:///{Path.cwd() / 'tailwright-data' / 'tailwright.db'}"


def test_argument_then_environment_then_file(toml_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_settings(toml_file).port == 1111
    monkeypatch.setenv("TAILWRIGHT_PORT", "2222")
    assert load_settings(toml_file).port == 2222
    assert load_settings(toml_file, port=3333).port == 3333
    assert load_settings(toml_file).log_level == "debug"


def test_a_database_url_is_taken_as_it_is() -> None:
    url = "postgresql+psycopg://me@there/tailwright"
    assert ServiceSettings(database_url=url).url == url


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[up]\nprot = 1\n", "did you mean 'port'"),
        ("up = 1\n", "must be a table"),
        ("[up\n", "settings file"),
        ('[up]\nport = "many"\n', "setting port"),
        ("[up]\nport = 70000\n", "setting port"),
        ('[up]\nlog_level = "loud"\n', "setting log_level"),
    ],
)
def test_mistakes_in_the_file_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    with pytest.raises(BadRequest, match=message):
        load_settings(path)


def test_an_unknown_argument_is_refused() -> None:
    with pytest.raises(BadRequest, match="setting prot"):
        load_settings(prot=1)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"none\.toml"):
        load_settings(tmp_path / "none.toml")


def test_the_command_line_keeps_for_as_long_as_the_settings_say() -> None:
    shown = {name: parameter.default for name, parameter in inspect.signature(up).parameters.items()}
    by_default = ServiceSettings()
    names = [name for name in ServiceSettings.model_fields if name.startswith("retention_") and name != "retention_s"]
    assert names and {name: shown[name] for name in names} == {name: getattr(by_default, name) for name in names}
    assert shown["retention_hours"] * 3600 == by_default.retention_s
    assert by_default.retention == Retention()
