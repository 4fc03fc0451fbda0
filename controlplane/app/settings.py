"""The service's settings: arguments first, then TAILWRIGHT_* in the environment, then a TOML file's table [up].

Unknown keys of the file are refused with the nearest valid name.
"""

import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from controlplane.contract.errors import BadRequest, nearest
from controlplane.contract.retention_defaults import DAY_S, HOUR_S, LEVELS_S, LONGEST_S
from controlplane.telemetry.folding.retention import Retention

TABLE = "up"
HTTP_URL = r"^https?://[^\s/]+"


class ServiceSettings(BaseSettings):
    """Frozen. Build one with keyword arguments, or with `load_settings` when there is a file."""

    model_config = SettingsConfigDict(env_prefix="TAILWRIGHT_", extra="forbid", frozen=True)

    data_dir: Path = Field(default=Path("tailwright-data"), description="Where tokens and the SQLite file are kept.")
    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    port: int = Field(default=7300, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    database_url: str | None = Field(default=None, description="SQLAlchemy URL; default: a SQLite file in data_dir.")
    clickhouse_url: str | None = Field(
        default=None,
        pattern=HTTP_URL,
        repr=False,
        description="http(s)://USER:PASSWORD@HOST:8123/DATABASE to keep the frames in; default: the database.",
    )
    retention_s: float = Field(default=LONGEST_S, gt=0, description="No telemetry is kept longer, seconds.")
    retention_5s_hours: float = Field(
        default=LEVELS_S[5] / HOUR_S, gt=0, description="How long windows of 5 s are kept."
    )
    retention_10s_hours: float = Field(default=LEVELS_S[10] / HOUR_S, gt=0, description="The same of 10 s.")
    retention_1m_days: float = Field(default=LEVELS_S[60] / DAY_S, gt=0, description="The same of a minute.")
    retention_5m_days: float = Field(default=LEVELS_S[300] / DAY_S, gt=0, description="The same of 5 minutes.")
    retention_1h_days: float = Field(default=LEVELS_S[3600] / DAY_S, gt=0, description="The same of an hour.")
    telemetry_max_bytes: int | None = Field(
        default=None, gt=0, description="Beyond it the oldest of the finest windows go first; default: no limit."
    )
    external_url: str | None = Field(default=None, description="Where people reach the dashboard; links in webhooks.")
    export_otlp_url: str | None = Field(
        default=None, pattern=HTTP_URL, description="OTLP/HTTP collector that gets each finished interval."
    )
    export_otlp_headers: dict[str, str] = Field(default={}, repr=False, description="Headers for it, e.g. a token.")
    export_otlp_scope: Literal["node", "fleet", "both"] = Field(
        default="node", description="Each node's series, their sums over the fleet, or both (never add these up)."
    )
    export_otlp_interval_s: int = Field(
        default=60, ge=5, le=3600, multiple_of=5, description="Seconds of telemetry in one point."
    )
    export_remote_write_url: str | None = Field(
        default=None, pattern=HTTP_URL, description="Prometheus remote-write URL that gets the fleet's gauges."
    )
    export_remote_write_headers: dict[str, str] = Field(default={}, repr=False, description="Headers for it.")
    export_remote_write_labels: dict[str, str] = Field(default={}, description="Labels added to every series of it.")
    export_remote_write_interval_s: int = Field(
        default=15, ge=5, le=3600, multiple_of=5, description="Seconds between the samples of a series."
    )
    export_delay_s: float = Field(
        default=20, ge=0, le=3600, description="How long a finished interval waits for late reports."
    )
    export_longest_lag_s: float = Field(
        default=6 * 3600, ge=600, description="What could not be exported for so long is given up, and counted."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="Least severe log.")

    @property
    def retention(self) -> Retention:
        """How long what is kept."""
        levels_s = {
            5: self.retention_5s_hours * HOUR_S,
            10: self.retention_10s_hours * HOUR_S,
            60: self.retention_1m_days * DAY_S,
            300: self.retention_5m_days * DAY_S,
            3600: self.retention_1h_days * DAY_S,
        }
        return Retention(levels_s, max_bytes=self.telemetry_max_bytes).at_most(self.retention_s)

    @property
    def database_file(self) -> Path:
        """The SQLite file that is used when there is no `database_url`."""
        return self.data_dir.resolve() / "tailwright.db"

    @property
    def public_url(self) -> str:
        """The base of links that go out in webhooks."""
        return (self.external_url or f"http://{self.host}:{self.port}").rstrip("/")

    @property
    def url(self) -> str:
        """The database's URL."""
        return self.database_url or f"sqlite:///{self.database_file}"


def load_settings(toml_file: Path | None = None, **given: Any) -> ServiceSettings:
    """Settings from arguments, environment and file. Raises `BadRequest` that names the setting and the mend."""
    from_file = {} if toml_file is None else _read(toml_file)
    try:
        # What the environment says beats the file: only the arguments and what it leaves open are passed.
        stated = ServiceSettings(**given).model_fields_set
        return ServiceSettings(**{name: from_file[name] for name in from_file if name not in stated}, **given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise BadRequest(f"setting {field}: {first['msg']}, got {first['input']!r}", field=field) from error


def _read(toml_file: Path) -> dict[str, Any]:
    try:
        tables = tomllib.loads(toml_file.read_text())
    except (OSError, ValueError) as error:
        raise BadRequest(f"settings file {toml_file}: {error}", field="config") from error
    table = tables.get(TABLE, {})
    if not isinstance(table, dict):
        raise BadRequest(f"settings file {toml_file}: [{TABLE}] must be a table", field=TABLE)
    values = {name.replace("-", "_"): value for name, value in table.items()}
    for name in values:
        if name not in ServiceSettings.model_fields:
            hint = nearest(name, list(ServiceSettings.model_fields))
            raise BadRequest(f"settings file {toml_file}: [{TABLE}] {name}: no such setting, {hint}", field=name)
    return values
