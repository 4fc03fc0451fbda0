"""What a running service tells of its settings: numbers and switches with their flags; no file, address or secret."""

from pathlib import Path

from controlplane.app.settings import ServiceSettings
from controlplane.app.settings_in_force import settings_in_force

SECRETS = {"database_url": "postgresql://u:hidden@localhost/d", "export_otlp_headers": {"authorization": "hidden"}}


def test_numbers_and_switches_are_told_with_what_sets_them(tmp_path: Path) -> None:
    told = {one.name: one for one in settings_in_force(ServiceSettings(data_dir=tmp_path, retention_5s_hours=3))}
    kept = told["retention_5s_hours"]
    assert (kept.value, kept.flag, kept.is_default) == (3.0, "--retention-5s-hours", False)
    assert told["telemetry_max_bytes"].value is None and told["telemetry_max_bytes"].is_default
    assert told["insecure_http"].value is False
    assert all(one.description for one in told.values())


def test_no_file_address_or_secret_is_told(tmp_path: Path) -> None:
    told = settings_in_force(ServiceSettings(data_dir=tmp_path / "hidden", **SECRETS))
    assert not {"data_dir", "database_url", "clickhouse_url", "host", "tls_key"} & {one.name for one in told}
    assert "hidden" not in repr(told)
