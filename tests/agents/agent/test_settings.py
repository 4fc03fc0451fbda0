"""Settings come from flags, the environment and a file, and a wrong one is named."""

from pathlib import Path

import pytest

from agents.agent.settings import AgentSettings, parsed_headers
from tests.read_settings import read


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in AgentSettings.model_fields:
        monkeypatch.delenv(f"TAILWRIGHT_{name.upper()}", raising=False)


def test_flags_go_before_the_environment_and_that_before_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "tailwright.toml"
    file.write_text('[agent]\nnode = "from-file"\npool = "from-file"\nregion = "from-file"\n')
    monkeypatch.setenv("TAILWRIGHT_POOL", "from-environment")
    monkeypatch.setenv("TAILWRIGHT_REGION", "from-environment")
    found = read(AgentSettings, "agent", ["--config", str(file), "--region", "from-flag"])
    assert (found.node, found.pool, found.region) == ("from-file", "from-environment", "from-flag")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([], "node: is needed: give --node or TAILWRIGHT_NODE"),
        (["--node", "a b"], "node:"),
        (["--node", "a", "--role", "boss"], "role:"),
        (
            ["--node", "a", "--engine-ca-file", "ca.pem", "--engine-url", "http://127.0.0.1:8000"],
            "engine_ca_file wants an engine with TLS, and http://127.0.0.1:8000 has none",
        ),
        (
            ["--node", "a", "--backend", "vllm", "--vllm-node-file", "node.toml", "--engine-ca-file", "ca.pem"],
            "set server_ca_file in the node file",
        ),
        (["--node", "a", "--engine-url", "localhost:1"], "engine_url: wants a URL"),
        (["--node", "a", "--report-interval-s", "0"], "report_interval_s:"),
        (["--node", "a", "--spool-limit-bytes", "many"], "spool_limit_bytes:"),
        (["--node", "a", "--enrolment-token", "x", "--enrolment-token-file", "y"], "enrolment_token"),
        (["--config", "/does/not/exist.toml"], "--config:"),
        (
            ["--node", "a", "--report-window-s", "7"],
            "report_window_s: wants a multiple of 5, got '7' (from --report-window-s)",
        ),
        (["--node", "a", "--report-window-s", "10"], "report_window_s is wider than report_interval_s"),
        (["--node", "a", "--otlp-url", "collector:4318"], "otlp_url: wants a URL"),
        (["--node", "a", "--otlp-headers", "key"], "otlp_headers: wants name=value"),
        (["--node", "a", "--label", "rack"], "labels: wants NAME=VALUE"),
        (["--node", "a", "--label", "rack=b c"], "labels: rack: a label's value is 1 to 63"),
        (["--node", "a", "--label", "pool=x"], "labels: pool: every node says it by itself"),
        (["--node", "a", "--region", "eu west"], "region: region: a label's value is 1 to 63"),
        (["--node", "a", "--region", "eu-1", "--label", "region=us-2"], "region is 'eu-1' and the label region 'us-2'"),
    ],
)
def test_a_wrong_setting_is_named(flags: list[str], said: str) -> None:
    assert said in read(AgentSettings, "agent", flags)


def test_labels_come_of_flags_the_environment_and_a_file_the_region_among_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "tailwright.toml"
    file.write_text('[agent]\nnode = "a"\n[agent.labels]\nregion = "eu-1"\nrack = "r1"\n')
    found = read(AgentSettings, "agent", ["--config", str(file)])
    assert found.node_labels == {"region": "eu-1", "rack": "r1"}
    monkeypatch.setenv("TAILWRIGHT_LABELS", "rack=r2 stage=test")
    found = read(AgentSettings, "agent", ["--config", str(file), "--region", "eu-2"])
    assert found.node_labels == {"rack": "r2", "stage": "test", "region": "eu-2"}
    flags = ["--config", str(file), "--label", "region=us-2", "--label", "gpu=H100"]
    assert read(AgentSettings, "agent", flags).node_labels == {"region": "us-2", "gpu": "H100"}


def test_an_unknown_setting_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    file = tmp_path / "tailwright.toml"
    file.write_text('[agent]\nnode = "a"\nspool_limit_byte = 3\n')
    assert "did you mean 'spool_limit_bytes'" in read(AgentSettings, "agent", ["--config", str(file)])


def test_windows_are_five_seconds_and_may_be_wider_with_a_longer_interval() -> None:
    assert AgentSettings(node="a", report_interval_s=10).report_window_s == 5
    assert AgentSettings(node="a", report_interval_s=10, report_window_s=10).report_window_s == 10
    assert AgentSettings(node="a", report_interval_s=0.5).report_window_s == 5


def test_headers_for_another_receiver_are_pairs_and_not_shown() -> None:
    settings = AgentSettings(node="a", otlp_url="http://collector:4318/", otlp_headers="x-key = secret=, b=2,")
    assert parsed_headers(settings.otlp_headers) == {"x-key": "secret=", "b": "2"}
    assert settings.otlp_url == "http://collector:4318" and "secret" not in repr(settings)


def test_a_token_file_is_read_anew_each_time(tmp_path: Path) -> None:
    file = tmp_path / "token"
    settings = AgentSettings(node="a", enrolment_token_file=file)
    assert settings.read_enrolment_token() is None
    file.write_text("secret\n")
    assert settings.read_enrolment_token() == "secret"
    assert "secret" not in repr(AgentSettings(node="a", enrolment_token="secret"))
