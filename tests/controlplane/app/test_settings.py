"""The service's settings, and what `tailwright up` adds to them."""

import sys
from pathlib import Path
from socket import gethostname
from typing import Any

import pytest
from pydantic import ValidationError

from controlplane.app.settings import ServiceSettings, StoreSettings
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
    url = "postgresql+psycopg://me@localhost/tailwright"
    assert ServiceSettings(database_url=url).url == url


def test_an_unknown_argument_is_refused() -> None:
    with pytest.raises(ValidationError, match="prot"):
        ServiceSettings(prot=1)  # type: ignore[call-arg]


PG, FULL = "postgresql+psycopg://tailwright:secret@db.example:5432/tailwright", "sslmode=verify-full&sslrootcert=ca.pem"


@pytest.mark.parametrize(
    "settings",
    [
        {"database_url": PG},
        {"database_url": f"{PG}?sslmode=prefer"},
        {"database_url": f"{PG}?sslmode=disable&application_name=x"},
        {"database_url": "postgresql+psycopg:///tailwright?host=db.example"},
        {"clickhouse_url": "http://u:secret@ch.example:8123/t"},
        {"database_url": f"{PG}?{FULL}", "clickhouse_url": "http://10.0.0.7:8123/t"},
    ],
)
def test_a_store_elsewhere_in_clear_is_refused_with_the_mend(settings: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match=r"another machine.*insecure_stores") as refused:
        StoreSettings.model_validate(settings)
    assert "secret" not in refused.value.errors(include_input=False)[0]["msg"]
    assert StoreSettings.model_validate({**settings, "insecure_stores": True}).insecure_stores


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"database_url": f"{PG}?{FULL}", "clickhouse_url": "https://u:secret@ch.example:8443/t"},
        {"database_url": f"{PG}?sslmode=require"},
        {"database_url": "postgresql+psycopg://tailwright@127.0.0.1/t", "clickhouse_url": "http://localhost:8123/t"},
        {"database_url": "postgresql+psycopg://tailwright@[::1]:5432/t"},
        {"database_url": "postgresql+psycopg:///tailwright?host=/run/postgresql"},
        {"database_url": "sqlite:////data/t.db"},
    ],
)
def test_tls_and_this_machine_pass(settings: dict[str, str]) -> None:
    assert StoreSettings.model_validate(settings)


@pytest.mark.parametrize(
    ("given", "public", "own"),
    [
        ({}, "http://127.0.0.1:7300", "http://127.0.0.1:7300"),
        ({"host": "::1"}, "http://[::1]:7300", "http://[::1]:7300"),
        ({"host": "0.0.0.0", "allowed_hosts": ("*", "tw.example")}, "http://tw.example:7300", "http://127.0.0.1:7300"),
        ({"host": "::"}, f"http://{gethostname()}:7300", "http://127.0.0.1:7300"),
        ({"external_url": "https://tw.example/"}, "https://tw.example", "http://127.0.0.1:7300"),
    ],
)
def test_links_name_an_address_that_others_reach(given: dict[str, Any], public: str, own: str) -> None:
    settings = ServiceSettings(**given)
    assert (settings.public_url, settings.own_url) == (public, own)


def test_where_traces_are_shown_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = "https://tempo.example/trace/{trace_id}"
    file = tmp_path / "tailwright.toml"
    file.write_text(f'[up]\ntrace_url = "{url}"\n')
    assert read(UpSettings, "up", ["--config", str(file)]).trace_url == url
    monkeypatch.setenv("TAILWRIGHT_TRACE_URL", url.replace("tempo", "jaeger"))
    assert read(UpSettings, "up", []).trace_url == url.replace("tempo", "jaeger")
    assert read(UpSettings, "up", ["--trace-url", url]).trace_url == url
    with pytest.raises(ValidationError, match=r"trace_url(.|\n)*one \{trace_id\} behind the host"):
        UpSettings(trace_url="https://tempo.example/trace/")


def test_the_python_of_vllm_is_one_that_can_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link stays one: Python finds its environment by it."""
    link, text = tmp_path / "python", tmp_path / "notes.txt"
    link.symlink_to(sys.executable)
    text.write_text("")
    assert read(UpSettings, "up", []).vllm_python is None
    monkeypatch.chdir(tmp_path)
    assert read(UpSettings, "up", ["--vllm-python", "python"]).vllm_python == link
    for wrong in (text, tmp_path, tmp_path / "none"):
        monkeypatch.setenv("TAILWRIGHT_VLLM_PYTHON", str(wrong))
        said = read(UpSettings, "up", [])
        assert "vllm_python: wants the Python" in said and "TAILWRIGHT_VLLM_PYTHON" in said and str(wrong) in said
