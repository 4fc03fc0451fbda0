"""The service's settings: arguments first, then TRIMTAB_* in the environment, then a TOML file's table [up].

Unknown keys of the file are refused with the nearest valid name.
"""

import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from controlplane.contract.errors import BadRequest, nearest
from controlplane.telemetry.retention import FRAMES_S

TABLE = "up"


class ServiceSettings(BaseSettings):
    """Frozen. Build one with keyword arguments, or with `load_settings` when there is a file."""

    model_config = SettingsConfigDict(env_prefix="TRIMTAB_", extra="forbid", frozen=True)

    data_dir: Path = Field(default=Path("trimtab-data"), description="Where tokens and the SQLite file are kept.")
    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    port: int = Field(default=7300, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    database_url: str | None = Field(default=None, description="SQLAlchemy URL; default: a SQLite file in data_dir.")
    retention_s: float = Field(default=FRAMES_S, gt=0, description="How long telemetry is kept, in seconds.")
    external_url: str | None = Field(default=None, description="Where people reach the dashboard; links in webhooks.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="Least severe log.")

    @property
    def database_file(self) -> Path:
        """The SQLite file that is used when there is no `database_url`."""
        return self.data_dir.resolve() / "trimtab.db"

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
