"""Everything about the agent that can be set, read in one place: flags, then TAILWRIGHT_* variables, then a TOML file.

Guarantee: a wrong or unknown setting is refused with its name, what was wrong, and the nearest valid name.
"""

import argparse
import os
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from controlplane.contract.errors import BadSettings, nearest
from controlplane.contract.metrics import WINDOW_S

ENV_PREFIX = "TAILWRIGHT_"
NAME_PATTERN = r"^[A-Za-z0-9._:-]+$"


class AgentSettings(BaseSettings):
    """The agent's settings. Each has a flag (--spool-limit-bytes) and a variable (TAILWRIGHT_SPOOL_LIMIT_BYTES)."""

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, frozen=True, extra="forbid", hide_input_in_errors=True)

    node: str = Field(max_length=128, pattern=NAME_PATTERN, description="this node's name, unique in the fleet")
    pool: str = Field(default="default", max_length=128, pattern=NAME_PATTERN, description="the pool it serves in")
    role: Literal["serving", "trial"] = Field(
        default="serving", description="serving (production traffic) or trial (the tuner's)"
    )
    region: str = Field(default="", max_length=64, description="a region label on every metric, none when empty")
    backend: Literal["embedded", "vllm"] = Field(default="embedded", description="the kind of engine beside the agent")
    vllm_dir: Path | None = Field(
        default=None,
        description="attached vLLM: the folder shared with the plugin inside it; without it /metrics is read",
    )
    vllm_scrape_interval_s: float = Field(
        default=5.0, ge=0.5, le=60, description="seconds between reads of vLLM's /metrics where the plugin is absent"
    )
    vllm_otlp_port: int = Field(
        default=0, ge=0, le=65535, description="where vLLM sends its OTLP traces to this agent, 0 = nowhere"
    )
    vllm_node_file: Path | None = Field(
        default=None, description="backend vllm, managed: the node file of a server that the agent itself starts"
    )
    engine_url: str = Field(default="http://127.0.0.1:7400", description="where that engine listens")
    engine_control_socket: Path | None = Field(
        default=None,
        description="backend embedded: the engine's control socket (default: the one that its port's number names)",
    )
    engine_control_url: str | None = Field(
        default=None, description="backend embedded: the engine's control port, where no file system is shared"
    )
    engine_control_token_file: Path | None = Field(
        default=None, description="a file that holds the token of that control port"
    )
    server_url: str = Field(default="http://127.0.0.1:7300", description="where the control plane listens")
    otlp_url: str = Field(
        default="",
        description="an OpenTelemetry receiver that gets the reports instead of server_url, as OTLP/HTTP",
    )
    otlp_headers: str = Field(
        default="", repr=False, description="headers for otlp_url: name=value, several with commas between"
    )
    state_dir: Path = Field(default=Path("agent-state"), description="spool, credentials and last configuration")
    enrolment_token: str | None = Field(default=None, repr=False, description="lets the node register itself, once")
    enrolment_token_file: Path | None = Field(default=None, description="a file that holds the enrolment token")
    enrolment_token_wait_s: float = Field(
        default=60.0, ge=0, le=86400, description="how long a first start waits for that file to be written"
    )
    report_interval_s: float = Field(default=5.0, ge=0.5, le=300, description="seconds between reports")
    report_window_s: float = Field(
        default=WINDOW_S,
        ge=WINDOW_S,
        le=300,
        description=f"width of the windows that timings are counted in, a multiple of {WINDOW_S:g}; alerts and rollouts"
        " look at the fleet that finely",
    )
    report_grace_s: float = Field(
        default=0.5, ge=0, le=5, description="seconds a finished window waits for its last events"
    )
    heartbeat_s: float = Field(default=10.0, ge=0.5, le=300, description="seconds between OpAMP heartbeats and polls")
    watch_interval_s: float = Field(default=5.0, ge=0.2, le=300, description="seconds between looks at the engine")
    host_metrics: bool = Field(default=True, description="measure the host (CPU, memory, I/O, GPU) in each window")
    host_dir: Path | None = Field(
        default=None,
        description="where the agents of one host name their engines to each other (default: in the temporary folder)",
    )
    spool_limit_bytes: int = Field(default=256 * 2**20, ge=2**16, description="most bytes of reports kept on disk")

    @field_validator("engine_url", "engine_control_url", "server_url", "otlp_url")
    @classmethod
    def _check_url(cls, value: str | None) -> str | None:
        if value and not value.startswith(("http://", "https://")):
            raise ValueError(f"wants a URL that begins with http:// or https://, got {value!r}")
        return value and value.rstrip("/")

    @field_validator("otlp_headers")
    @classmethod
    def _check_headers(cls, value: str) -> str:
        parsed_headers(value)
        return value

    @field_validator("report_window_s")
    @classmethod
    def _check_window(cls, value: float) -> float:
        if value % WINDOW_S:
            raise ValueError(f"wants a multiple of {WINDOW_S:g}, got {value:g}")
        return value

    @model_validator(mode="after")
    def _check_interval(self) -> "AgentSettings":
        if self.report_window_s > max(self.report_interval_s, WINDOW_S):
            raise ValueError("report_window_s is wider than report_interval_s: each window would be cut in pieces")
        return self

    @model_validator(mode="after")
    def _check_token(self) -> "AgentSettings":
        if self.enrolment_token is not None and self.enrolment_token_file is not None:
            raise ValueError("set enrolment_token or enrolment_token_file, not both")
        return self

    @model_validator(mode="after")
    def _check_control(self) -> "AgentSettings":
        if (self.engine_control_url is None) != (self.engine_control_token_file is None):
            raise ValueError("engine_control_url and engine_control_token_file go together")
        if self.engine_control_url is not None and self.engine_control_socket is not None:
            raise ValueError("set engine_control_socket or engine_control_url, not both")
        return self

    @model_validator(mode="after")
    def _check_vllm(self) -> "AgentSettings":
        if self.vllm_node_file is not None and (self.backend != "vllm" or self.vllm_dir is not None):
            raise ValueError("vllm_node_file wants backend vllm and no vllm_dir: the agent makes that folder itself")
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings

    def read_enrolment_token(self) -> str | None:
        """The enrolment token, read again each time, so that a file may be put right while the agent waits."""
        if self.enrolment_token_file is not None:
            try:
                return self.enrolment_token_file.read_text(encoding="utf-8").strip() or None
            except OSError:
                return None
        return self.enrolment_token


def parsed_headers(text: str) -> dict[str, str]:
    """`name=value,name=value` as a mapping. Raises ValueError."""
    found = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise ValueError("wants name=value, several with commas between")
        found[name.strip()] = value.strip()
    return found


def load(flags: Sequence[str]) -> AgentSettings:
    """Settings from command-line flags, the environment, and the TOML file that --config names. Raises BadSettings."""
    given = {name: value for name, value in vars(parser().parse_args(flags)).items() if value is not None}
    file = given.pop("config", None)
    from_file = _read_file(Path(file)) if file else {}
    for name in from_file:
        if ENV_PREFIX + name.upper() in os.environ:
            continue
        given.setdefault(name, from_file[name])
    return build(given)


def build(values: dict[str, Any]) -> AgentSettings:
    """Check `values` (the environment fills in what they leave out). Raises BadSettings for the first wrong one."""
    try:
        return AgentSettings(**values)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "settings"
        message = first["msg"].removeprefix("Value error, ")
        if first["type"] == "extra_forbidden":
            message = f"no such setting, {nearest(field, list(AgentSettings.model_fields))}"
        elif first["type"] == "missing":
            message = f"is needed: give {_flag(field)} or {ENV_PREFIX}{field.upper()}"
        raise BadSettings(f"{field}: {message}", field=field) from None


def parser() -> argparse.ArgumentParser:
    """The agent's flags: one for each setting."""
    made = argparse.ArgumentParser(
        prog="tailwright agent",
        description="Stands beside one engine: counts its timings, reports them, and applies its configuration.",
    )
    made.add_argument(
        "--config", metavar="FILE", help="a TOML file with any of these settings (TAILWRIGHT_* goes before)"
    )
    for name, field in AgentSettings.model_fields.items():
        default = "" if field.is_required() or field.default in (None, "") else f" (default {field.default})"
        about = f"{field.description}{default} [{ENV_PREFIX}{name.upper()}]".replace("%", "%%")
        made.add_argument(_flag(name), dest=name, metavar=name.upper(), help=about)
    return made


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _read_file(path: Path) -> dict[str, Any]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSettings(f"config: {path} cannot be read: {error}", field="config") from error
    section = content.get("agent", content)
    if not isinstance(section, dict):
        raise BadSettings(f"config: [agent] in {path} is not a table", field="config")
    return section
