"""The service's settings. Whoever wants another adds a field: it is a flag, a variable and a key of [up] by that."""

import os
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING, Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from controlplane.app.sign_in_settings import SignInSettings
from controlplane.contract.host_names import ANY, is_loopback
from controlplane.contract.reports.opamp import LEASE_S
from controlplane.contract.retention_defaults import DAY_S, HOUR_S, LEVELS_S, LONGEST_S
from controlplane.serving.proxies import Proxies
from controlplane.terminal.clear_database import clear_database, is_here
from controlplane.terminal.setting_values import Bytes, Pairs, words_of

if TYPE_CHECKING:
    from controlplane.keys import Keyring
    from controlplane.outgoing import AddressPolicy
    from controlplane.serving.tls import TlsFiles
    from controlplane.telemetry.folding.retention import Retention
    from controlplane.telemetry.queries.budget import QueryLimits

EVERY_ADDRESS = frozenset({"0.0.0.0", "::"})
HTTP_URL = r"^https?://[^\s/]+"


class StoreSettings(BaseModel):
    """Where the service keeps what it keeps."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    data_dir: Path = Field(default=Path("tailwright-data"), description="Where tokens and the SQLite file are kept.")
    database_url: str | None = Field(
        default=None, repr=False, description="SQLAlchemy URL; default: a SQLite file in data_dir."
    )
    clickhouse_url: str | None = Field(
        default=None,
        pattern=HTTP_URL,
        repr=False,
        description="http(s)://USER:PASSWORD@HOST:8123/DATABASE to keep the frames in; default: the database.",
    )

    secrets_key_file: Path | None = Field(
        default=None,
        description="File of the keys that secrets in the database are encrypted with; default: secrets.key in "
        "data_dir, made at the first start. Every replica needs the same.",
    )
    secrets_key_command: str | None = Field(
        default=None,
        description="Command that wraps and unwraps the keys of that file with a master key in a vault, run as "
        "`COMMAND wrap` and `COMMAND unwrap`; default: they are in clear. Every replica needs the same.",
    )
    clickhouse_ca_file: Path | None = Field(
        default=None, description="PEM file of who vouches for ClickHouse; default: the system's authorities."
    )
    insecure_stores: bool = Field(
        default=False,
        description="Reach PostgreSQL and ClickHouse on other machines without TLS: their network is safe.",
    )

    @model_validator(mode="after")
    def _stores_are_reached_safely(self) -> Self:
        """A database's password, and all that is kept, go to other machines by TLS."""
        problem = None if self.insecure_stores else clear_store(self.database_url, self.clickhouse_url)
        if problem is not None:
            raise ValueError(problem)
        return self

    @property
    def keyring(self) -> "Keyring":
        """Of that file. Raises BadSettings for a command that is none."""
        from controlplane.keys import KeyCommand, Keyring

        given, command = self.secrets_key_file, self.secrets_key_command
        return Keyring(
            given or self.data_dir.resolve() / "secrets.key",
            own=given is None,
            command=None if command is None else KeyCommand.of(command),
        )

    @property
    def database_file(self) -> Path:
        """The SQLite file that is used when there is no `database_url`."""
        return self.data_dir.resolve() / "tailwright.db"

    @property
    def url(self) -> str:
        """The database's URL."""
        return self.database_url or f"sqlite:///{self.database_file}"


class ServiceSettings(StoreSettings, SignInSettings):
    """What one service is started with."""

    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    port: int = Field(default=7300, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    tls_cert: Path | None = Field(default=None, description="PEM file of the certificate; renewed when it changes.")
    tls_key: Path | None = Field(default=None, description="PEM file of its key.")
    tls_client_ca: Path | None = Field(
        default=None,
        description="PEM file of who vouches for agents: each must show a certificate that names its node.",
    )
    tls_client_crl: Path | None = Field(
        default=None,
        description="PEM file of the certificates that tls_client_ca has revoked; renewed when it changes.",
    )
    insecure_http: bool = Field(
        default=False, description="Serve other machines without TLS: something before this encrypts."
    )
    allowed_hosts: Annotated[tuple[str, ...], BeforeValidator(words_of)] = Field(
        default=(),
        description="Names that the service is called by, with commas between; on a loopback address its own are "
        "allowed, elsewhere any while none is given.",
    )
    forwarded_allow_ips: Annotated[tuple[str, ...], BeforeValidator(words_of)] = Field(
        default=("127.0.0.1",),
        description="Proxies whose word is taken for who asks and by which scheme, with commas between.",
    )
    retention_hours: float = Field(
        default=LONGEST_S / HOUR_S, ge=0.1, description="No telemetry is kept longer than this."
    )
    retention_5s_hours: float = Field(
        default=LEVELS_S[5] / HOUR_S, gt=0, description="How long windows of 5 s are kept."
    )
    retention_10s_hours: float = Field(
        default=LEVELS_S[10] / HOUR_S, gt=0, description="How long windows of 10 s are kept."
    )
    retention_1m_days: float = Field(
        default=LEVELS_S[60] / DAY_S, gt=0, description="How long windows of a minute are kept."
    )
    retention_5m_days: float = Field(
        default=LEVELS_S[300] / DAY_S, gt=0, description="How long windows of 5 minutes are kept."
    )
    retention_1h_days: float = Field(
        default=LEVELS_S[3600] / DAY_S, gt=0, description="How long windows of an hour are kept."
    )
    telemetry_max_bytes: Bytes | None = Field(
        default=None, gt=0, description="Beyond it the oldest of the finest windows go first; default: no limit."
    )
    query_max_series: int = Field(
        default=1_000, ge=1, description="Most series of an answer; of more, those with the most requests are kept."
    )
    query_max_bytes: Bytes = Field(default=16 << 20, ge=1 << 16, description="Most bytes of an answer; more are 413.")
    query_max_s: float = Field(default=20, gt=0, description="Seconds after which a query is given up.")
    query_heavy: int = Field(default=2, ge=1, description="Heavy queries of one token at once; one more is 429.")
    alert_history_days: float = Field(
        default=90, ge=30, description="How long alerts that are over are kept, with their deliveries."
    )
    personal_data_days: float = Field(
        default=400,
        ge=30,
        description="How long people who sign in no more are kept, and names, owners and last uses of tokens that "
        "have ended.",
    )
    ledger_head_file: Path | None = Field(
        default=None,
        description="A file, best one that can only be appended to and lies elsewhere, to which each new head of the "
        "ledger is added, signed, once a minute; `tailwright ledger verify --head FILE` looks at each.",
    )
    metrics_token_file: Path | None = Field(
        default=None,
        description="A file of the token that /metrics then wants as a bearer; default: anybody may scrape it.",
    )
    public_docs: bool = Field(
        default=True,
        description="Serve /docs and /openapi.json to everybody; off: /openapi.json wants a token, and "
        "/docs is not there.",
    )
    emergency_approval: Literal["one", "two"] = Field(
        default="one", description="How many admins an emergency rollout wants; with two, another than who proposed it."
    )
    external_url: str | None = Field(default=None, description="Where people reach the dashboard; links in webhooks.")
    export_otlp_url: str | None = Field(
        default=None, pattern=HTTP_URL, repr=False, description="OTLP/HTTP collector that gets each finished interval."
    )
    export_otlp_headers: Pairs = Field(default={}, repr=False, description="Headers for it, e.g. a token.")
    export_otlp_headers_file: Path | None = Field(
        default=None, description="A file of more headers for it, NAME=VALUE a line; `ps` shows flags to everybody."
    )
    export_otlp_scope: Literal["node", "fleet", "both"] = Field(
        default="node", description="Each node's series, their sums over the fleet, or both (never add these up)."
    )
    export_otlp_interval_s: int = Field(
        default=60, ge=5, le=3600, multiple_of=5, description="Seconds of telemetry in one point."
    )
    export_remote_write_url: str | None = Field(
        default=None,
        pattern=HTTP_URL,
        repr=False,
        description="Prometheus remote-write URL that gets the fleet's gauges.",
    )
    export_remote_write_headers: Pairs = Field(default={}, repr=False, description="Headers for it.")
    export_remote_write_headers_file: Path | None = Field(
        default=None, description="A file of more headers for it, NAME=VALUE a line."
    )
    export_remote_write_labels: Pairs = Field(default={}, description="Labels added to every series of it.")
    export_remote_write_interval_s: int = Field(
        default=15, ge=5, le=3600, multiple_of=5, description="Seconds between the samples of a series."
    )
    export_delay_s: float = Field(
        default=20, ge=0, le=3600, description="How long a finished interval waits for late reports."
    )
    export_longest_lag_s: float = Field(
        default=6 * 3600, ge=600, description="What could not be exported for so long is given up, and counted."
    )
    first_token_days: int = Field(
        default=30,
        ge=0,
        le=3650,
        description="How long admin-token and enrolment-token of the data folder count; then, where nobody has made "
        "another of that scope, the file gets a new one. 0: until they are revoked.",
    )
    node_token_days: float = Field(
        default=30, gt=0, le=3650, description="After so many days an agent is given another token."
    )
    lease_s: float = Field(
        default=LEASE_S,
        ge=5,
        le=86400,
        description="A node that is cut off in a rollout goes back to the promoted revision by itself after so long.",
    )
    outgoing_allow: Annotated[tuple[str, ...], BeforeValidator(words_of)] = Field(
        default=(),
        description="Networks beside the public ones that webhooks may be sent to, with commas between, such as "
        "10.0.0.0/8; a service on a loopback address may call its own machine.",
    )
    vllm_python: Path | None = Field(
        default=None,
        description="The Python of an environment with vLLM, for forecasts of pools that run vLLM; it needs no GPU.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="Least severe log.")

    @property
    def retention(self) -> "Retention":
        """How long what is kept."""
        from controlplane.telemetry.folding.retention import Retention

        levels_s = {
            5: self.retention_5s_hours * HOUR_S,
            10: self.retention_10s_hours * HOUR_S,
            60: self.retention_1m_days * DAY_S,
            300: self.retention_5m_days * DAY_S,
            3600: self.retention_1h_days * DAY_S,
        }
        return Retention(levels_s, max_bytes=self.telemetry_max_bytes).at_most(self.retention_hours * HOUR_S)

    @property
    def queries(self) -> "QueryLimits":
        """What a query may take."""
        from controlplane.telemetry.queries.budget import QueryLimits

        return QueryLimits(self.query_max_series, self.query_max_bytes, self.query_max_s, self.query_heavy)

    @field_validator("forwarded_allow_ips")
    @classmethod
    def _are_proxies(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        Proxies.of(value)
        return tuple(word.strip() for word in value)

    @field_validator("outgoing_allow")
    @classmethod
    def _are_networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for text in value:
            ip_network(text)
        return value

    @field_validator("vllm_python")
    @classmethod
    def _can_be_run(cls, value: Path | None) -> Path | None:
        """Absolute, for it is started elsewhere; a link stays one, since Python finds its environment by it."""
        if value is None:
            return None
        if not (value.is_file() and os.access(value, os.X_OK)):
            raise ValueError("wants the Python of an environment with vLLM, an executable file")
        return value.absolute()

    @property
    def outgoing(self) -> "AddressPolicy":
        """Where webhooks may be sent."""
        from controlplane.outgoing import LOOPBACK, AddressPolicy

        allowed = AddressPolicy.of(self.outgoing_allow).allowed
        return AddressPolicy((*allowed, *(LOOPBACK if is_loopback(self.host) else ())))

    @property
    def tls(self) -> "TlsFiles | None":
        """Raises BadSettings where the files' settings do not fit together."""
        from controlplane.serving.tls import tls_files

        return tls_files(self.tls_cert, self.tls_key, self.tls_client_ca, self.tls_client_crl)

    @property
    def local_socket(self) -> Path:
        """Where a service with TLS is called by what runs beside it, without TLS."""
        return self.data_dir.resolve() / f"service-{self.port}.sock"

    @property
    def first_tokens_last(self) -> timedelta | None:
        """None: until they are revoked."""
        return timedelta(days=self.first_token_days) if self.first_token_days else None

    @property
    def keeps_worker(self) -> bool:
        """Whether a tuner worker runs beside the service, and with it whoever reads the token files."""
        return False

    @property
    def own_url(self) -> str:
        """Where the service is called by what runs beside it. Raises BadSettings as `tls` does."""
        if self.tls is not None:
            return f"unix:{self.local_socket}"
        host = "127.0.0.1" if self.host in EVERY_ADDRESS else self.host
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    @property
    def public_url(self) -> str:
        """The base of links that go out in webhooks: `external_url`, or where it listens; of every address, by name."""
        scheme = "http" if self.tls_cert is None else "https"
        host = f"[{self.host}]" if ":" in self.host else self.host
        if self.host in EVERY_ADDRESS:
            host = next((name for name in self.allowed_hosts if name != ANY), gethostname())
        return (self.external_url or f"{scheme}://{host}:{self.port}").rstrip("/")


def clear_store(database_url: str | None, clickhouse_url: str | None) -> str | None:
    """Which store on another machine is reached without TLS, and the mend; None: neither is."""
    if database_url is not None and (problem := clear_database(database_url, "database_url")):
        return problem
    if clickhouse_url is not None:
        parts = urlsplit(clickhouse_url)
        if parts.scheme == "http" and not is_here(parts.hostname or ""):
            return (
                f"clickhouse_url: {parts.hostname} is another machine, and http goes in clear: use https://, or set "
                "insecure_stores where the network is safe"
            )
    return None
