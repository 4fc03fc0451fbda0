"""Each setting is a flag, a variable and a key; docs/settings.md has each; no name that there was is lost."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from agents.agent.settings import AgentSettings
from agents.engine.options import EngineOptions
from controlplane.app.settings import ServiceSettings, StoreSettings
from controlplane.command.main import app
from controlplane.command.up import UpSettings
from controlplane.terminal.setting_sources import Setting, settings_of

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = (ROOT / "docs/settings.md").read_text()

MODELS: dict[str, tuple[Any, str]] = {
    "up": (UpSettings, "TAILWRIGHT_"),
    "store verify": (StoreSettings, "TAILWRIGHT_"),
    "agent": (AgentSettings, "TAILWRIGHT_"),
    "engine": (EngineOptions, "TAILWRIGHT_ENGINE_"),
}

FLAGS = {
    "up": "data-dir host port database-url clickhouse-url retention-hours retention-5s-hours retention-10s-hours "
    "retention-1m-days retention-5m-days retention-1h-days telemetry-max-bytes external-url log-level export-otlp-url "
    "export-otlp-header export-otlp-scope export-otlp-interval-s export-remote-write-url export-remote-write-header "
    "export-remote-write-interval-s export-delay-s tuner no-tuner dashboard no-dashboard trace-url",
    "store verify": "data-dir database-url",
    "agent": "node pool role region backend vllm-dir vllm-scrape-interval-s vllm-otlp-port vllm-node-file engine-url "
    "server-url otlp-url otlp-headers state-dir enrolment-token enrolment-token-file enrolment-token-wait-s "
    "report-interval-s report-window-s report-grace-s heartbeat-s watch-interval-s host-metrics host-dir "
    "spool-limit-bytes config",
    "engine": "model host port set served-model-name draft-model speculative-method early-exit-layer speculation-gate "
    "no-speculation-gate dtype device kernels prefix-caching no-prefix-caching max-model-len threads max-waiting "
    "max-waiting-tokens default-timeout-s scheduling-policy priority-aging-s long-prompt-threshold max-long-prefills "
    "long-prefill-share long-patience-s quantizations itl-target-s block-size kv-cache-memory-bytes",
}
"""What people have in their scripts: no release takes one away without a word in the changelog."""

VARIABLES = {
    "up": "DATA_DIR HOST PORT DATABASE_URL CLICKHOUSE_URL UP_RETENTION_HOURS RETENTION_5S_HOURS RETENTION_10S_HOURS "
    "RETENTION_1M_DAYS RETENTION_5M_DAYS RETENTION_1H_DAYS TELEMETRY_MAX_BYTES EXTERNAL_URL LOG_LEVEL EXPORT_OTLP_URL "
    "EXPORT_OTLP_HEADERS EXPORT_OTLP_SCOPE EXPORT_OTLP_INTERVAL_S EXPORT_REMOTE_WRITE_URL EXPORT_REMOTE_WRITE_HEADERS "
    "EXPORT_REMOTE_WRITE_LABELS EXPORT_REMOTE_WRITE_INTERVAL_S EXPORT_DELAY_S EXPORT_LONGEST_LAG_S UP_TUNER "
    "UP_DASHBOARD TRACE_URL",
    "store verify": "DATA_DIR DATABASE_URL CLICKHOUSE_URL STORE_VERIFY_DATA_DIR",
}
VARIABLES["agent"] = FLAGS["agent"].removesuffix(" config").replace("-", "_").upper()
_VALUES = (flag for flag in FLAGS["engine"].split() if not flag.startswith("no-") and flag != "set")
VARIABLES["engine"] = " ".join(f"ENGINE_{flag.replace('-', '_').upper()}" for flag in _VALUES)


def settings() -> Iterator[tuple[str, str, Setting]]:
    for command, (model, prefix) in MODELS.items():
        yield from ((command, prefix, setting) for setting in settings_of(model))


def row(prefix: str, setting: Setting) -> str:
    """A setting's line of the document."""
    choices = f" {setting.form.replace('|', ', ')}." if "|" in setting.form else ""
    bounds = f" {setting.bounds}." if setting.bounds else ""
    default = "needed" if setting.field.is_required() else setting.default.replace(f"{ROOT}/", "")
    variable = prefix + setting.name.upper()
    return f"| `{setting.flags[0]}` | `{variable}` | {default} | {setting.field.description}{choices}{bounds} |"


def test_the_document_has_each_setting() -> None:
    lines = DOCUMENT.splitlines()
    lacking = [row(prefix, setting) for _, prefix, setting in settings() if row(prefix, setting) not in lines]
    assert not lacking, "docs/settings.md lacks:\n" + "\n".join(lacking)


def test_the_document_has_nothing_else() -> None:
    rows = {row(prefix, setting) for _, prefix, setting in settings()}
    assert [line for line in DOCUMENT.splitlines() if line.startswith("| `--") and line not in rows] == []


@pytest.mark.parametrize("command", MODELS)
def test_the_help_shows_each_setting(command: str) -> None:
    said = CliRunner().invoke(app, [*command.split(), "--help"], env={"COLUMNS": "60"}).output
    words = said.replace(";", " ").replace(",", " ").replace("]", " ").replace("\n", " ").split()
    named = " ".join(words)
    for of, prefix, setting in settings():
        if of == command:
            assert {setting.flag, prefix + setting.name.upper()} <= set(words)
            assert " ".join(str(setting.field.description).replace(";", " ").replace(",", " ").split()) in named


@pytest.mark.parametrize("command", FLAGS)
def test_no_flag_is_lost(command: str) -> None:
    said = CliRunner().invoke(app, [*command.split(), "--help"]).output.replace(",", " ").split()
    assert {f"--{flag}" for flag in FLAGS[command].split()} <= set(said)


@pytest.mark.parametrize("command", VARIABLES)
def test_no_variable_is_lost(command: str) -> None:
    model, prefix = MODELS[command]
    own = f"TAILWRIGHT_{command.upper().replace(' ', '_')}_"
    read = {before + setting.name.upper() for setting in settings_of(model) for before in (prefix, own)}
    assert {f"TAILWRIGHT_{name}" for name in VARIABLES[command].split()} <= read


@pytest.mark.parametrize("command", FLAGS)
def test_no_key_is_lost(command: str, tmp_path: Path) -> None:
    """A table of every key is taken; a key that there is not is refused."""
    flags = [flag for flag in FLAGS[command].split() if not flag.startswith("no-") and flag != "config"]
    keys = [flag.replace("-", "_") for flag in flags]
    config = tmp_path / "tailwright.toml"
    config.write_text(f"[{command.replace(' ', '.')}]\n" + "".join(f"{key} = '1'\n" for key in keys))
    answer = CliRunner().invoke(app, ["--config", str(config), "doctor", "--help"])
    assert answer.exit_code == 0, answer.output
    config.write_text(config.read_text().replace("port", "prot") + "databases_url = '1'\nnods = '1'\nmodl = '1'\n")
    assert "no such option, did you mean" in CliRunner().invoke(app, ["--config", str(config), "doctor"]).output


def test_what_is_not_described_is_no_setting() -> None:
    fields = {
        (model.__name__, name)
        for model in (ServiceSettings, UpSettings, AgentSettings, EngineOptions)
        for name, field in model.__pydantic_fields__.items()
        if not field.description
    }
    assert fields == {("EngineOptions", "config")}
