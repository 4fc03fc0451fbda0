"""The service's settings, and what `tailwright up` adds to them."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from controlplane.app.settings import ServiceSettings
from controlplane.command.up import UpSettings
from controlplane.telemetry.folding.retention import Retention
from tests.read_settings import read


@pytest.fixture
def toml_file(tmp_path: Path) -> Path:
    path = tmp_path / "tailwright.toml"
    path.write_text('[up]\nport = 1111\nlog-level = "debug"\n[agent]\nnode = "a"\n')
    return path


def test_defaults_need_nothing() -> None:
    settings = read(UpSettings, "up", [])
    assert (settings.host, settings.port, settings.tuner, settings.dashboard) == ("127.0.0.1", 7300, True, True)
    assert settings.url == f"sqlite:///{Path.cwd() / 'tailwright-data' / 'tailwright.db'}"
    assert settings.retention == Retention()


def test_argument_then_environment_then_file(toml_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = ["--config", str(toml_file)]
    assert read(UpSettings, "up", file).port == 1111
    monkeypatch.setenv("TAILWRIGHT_PORT", "2222")
    assert read(UpSettings, "up", file).port == 2222
    assert read(UpSettings, "up", [*file, "--port", "3333"]).port == 3333
    assert read(UpSettings, "up", file).log_level == "debug"


def test_the_cap_on_everything_is_given_in_hours() -> None:
    retention = read(UpSettings, "up", ["--retention-hours", "1"]).retention
    assert retention.longest_s == retention.requests_s == 3600


def test_a_database_url_is_taken_as_it_is() -> None:
    url = "postgresql+psycopg://me@there/tailwright"
    assert ServiceSettings(database_url=url).url == url


def test_an_unknown_argument_is_refused() -> None:
    with pytest.raises(ValidationError, match="prot"):
        ServiceSettings(prot=1)  # type: ignore[call-arg]
