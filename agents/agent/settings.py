"""Everything about the agent that can be set. Whoever wants another adds a field: it is a flag, a variable and a key of
[agent] by that."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from controlplane.client.named_proxy import checked_proxy
from controlplane.contract.errors import BadSettings
from controlplane.contract.metrics import WINDOW_S
from controlplane.contract.reports import node_labels
from controlplane.serving.tls import ClientFiles
from controlplane.terminal.setting_values import Bytes, Pairs

NAME_PATTERN = r"^[A-Za-z0-9._:-]+$"


class AgentSettings(BaseModel):
    """Frozen. What is secret is not shown."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    node: str = Field(max_length=128, pattern=NAME_PATTERN, description="This node's name, unique in the fleet.")
    pool: str = Field(default="default", max_length=128, pattern=NAME_PATTERN, description="The pool it serves in.")
    role: Literal["serving", "trial"] = Field(
        default="serving", description="Serves production traffic, or the tuner's trials."
    )
    region: str = Field(default="", max_length=64, description="A region label on every metric, none when empty.")
    labels: Pairs = Field(
        default={}, description="Labels that selectors choose nodes by: region, zone, host-type, or your own."
    )
    backend: Literal["embedded", "vllm"] = Field(default="embedded", description="The kind of engine beside the agent.")
    vllm_dir: Path | None = Field(
        default=None,
        description="Attached vLLM: the folder shared with the plugin inside it; without it /metrics is read.",
    )
    vllm_scrape_interval_s: float = Field(
        default=5.0, ge=0.5, le=60, description="Seconds between reads of vLLM's /metrics where the plugin is absent."
    )
    vllm_otlp_port: int = Field(
        default=0, ge=0, le=65535, description="Where vLLM sends its OTLP traces to this agent; 0: nowhere."
    )
    vllm_node_file: Path | None = Field(
        default=None, description="Managed vLLM: the node file of a server that the agent itself starts."
    )
    engine_url: str = Field(default="http://127.0.0.1:7400", description="Where that engine listens.")
    engine_control_socket: Path | None = Field(
        default=None,
        description="Embedded engine: its control socket; default: the one that its port's number names.",
    )
    engine_control_url: str | None = Field(
        default=None, description="Embedded engine: its control port, where no file system is shared."
    )
    engine_control_token_file: Path | None = Field(
        default=None, description="A file that holds the token of that control port."
    )
    engine_ca_file: Path | None = Field(
        default=None, description="PEM file of whom alone to trust as the engine, behind https://; default: ca_file."
    )
    server_url: str = Field(default="http://127.0.0.1:7300", description="Where the control plane listens.")
    ca_file: Path | None = Field(
        default=None, description="PEM file of whom to trust behind https:// URLs; default: the system's authorities."
    )
    client_cert: Path | None = Field(
        default=None, description="PEM file of this node's certificate; renewed when it changes."
    )
    client_key: Path | None = Field(default=None, description="PEM file of its key.")
    proxy: str | None = Field(
        default=None,
        repr=False,
        description="URL of a proxy to go by to server_url and otlp_url on other machines; those of the environment "
        "are not followed.",
    )
    otlp_url: str = Field(
        default="",
        description="An OpenTelemetry receiver that gets the reports instead of server_url, as OTLP/HTTP.",
    )
    otlp_headers: str = Field(
        default="", repr=False, description="Headers for otlp_url: name=value, several with commas between."
    )
    otlp_headers_file: Path | None = Field(default=None, description="A file of more such headers, NAME=VALUE a line.")
    state_dir: Path = Field(default=Path("agent-state"), description="Spool, credentials and last configuration.")
    enrolment_token: str | None = Field(default=None, repr=False, description="Lets the node register itself, once.")
    enrolment_token_file: Path | None = Field(default=None, description="A file that holds the enrolment token.")
    enrolment_token_wait_s: float = Field(
        default=60.0, ge=0, le=86400, description="How long a first start waits for that file to be written."
    )
    report_interval_s: float = Field(default=5.0, ge=0.5, le=300, description="Seconds between reports.")
    report_window_s: float = Field(
        default=WINDOW_S,
        ge=WINDOW_S,
        le=300,
        description=f"Width of the windows that timings are counted in, a multiple of {WINDOW_S:g}; alerts and rollouts"
        " look at the fleet that finely.",
    )
    report_grace_s: float = Field(
        default=0.5, ge=0, le=5, description="Seconds a finished window waits for its last events."
    )
    heartbeat_s: float = Field(default=10.0, ge=0.5, le=30, description="Seconds between OpAMP heartbeats and polls.")
    watch_interval_s: float = Field(default=5.0, ge=0.2, le=300, description="Seconds between looks at the engine.")
    host_metrics: bool = Field(default=True, description="Measure the host (CPU, memory, I/O, GPU) in each window.")
    host_dir: Path | None = Field(
        default=None,
        description="Where the agents of one host name their engines to each other; default: in the temporary folder.",
    )
    spool_limit_bytes: Bytes = Field(default=256 * 2**20, ge=2**16, description="Most bytes of reports kept on disk.")

    @field_validator("engine_url", "engine_control_url", "server_url", "otlp_url")
    @classmethod
    def _check_url(cls, value: str | None) -> str | None:
        if value and not value.startswith(("http://", "https://")):
            raise ValueError("wants a URL that begins with http:// or https://")
        return value and value.rstrip("/")

    @field_validator("proxy")
    @classmethod
    def _check_proxy(cls, value: str | None) -> str | None:
        try:
            return checked_proxy(value)
        except BadSettings as error:
            raise ValueError(error.message.removeprefix("proxy: ")) from error

    @field_validator("otlp_headers")
    @classmethod
    def _check_headers(cls, value: str) -> str:
        parsed_headers(value)
        return value

    @field_validator("region")
    @classmethod
    def _check_region(cls, value: str) -> str:
        problem = node_labels.problem_of(node_labels.REGION, value) if value else None
        if problem is not None:
            raise ValueError(problem)
        return value

    @field_validator("labels")
    @classmethod
    def _check_labels(cls, value: dict[str, str]) -> dict[str, str]:
        problem = node_labels.problem_of_all(value)
        if problem is not None:
            raise ValueError(problem)
        return value

    @field_validator("report_window_s")
    @classmethod
    def _check_window(cls, value: float) -> float:
        if value % WINDOW_S:
            raise ValueError(f"wants a multiple of {WINDOW_S:g}")
        return value

    @model_validator(mode="after")
    def _check_one_region(self) -> "AgentSettings":
        labelled = self.labels.get(node_labels.REGION, self.region)
        if self.region and labelled != self.region:
            raise ValueError(f"region is {self.region!r} and the label region {labelled!r}: a node is in one of them")
        return self

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
    def _check_client_files(self) -> "AgentSettings":
        if (self.client_cert is None) != (self.client_key is None):
            raise ValueError("client_cert and client_key go together")
        return self

    @model_validator(mode="after")
    def _check_control(self) -> "AgentSettings":
        if (self.engine_control_url is None) != (self.engine_control_token_file is None):
            raise ValueError("engine_control_url and engine_control_token_file go together")
        if self.engine_control_url is not None and self.engine_control_socket is not None:
            raise ValueError("set engine_control_socket or engine_control_url, not both")
        return self

    @model_validator(mode="after")
    def _check_engine_ca(self) -> "AgentSettings":
        if self.engine_ca_file is None:
            return self
        if self.vllm_node_file is not None:
            raise ValueError("engine_ca_file is not for a managed vLLM: set server_ca_file in the node file")
        if in_clear := [url for url in (self.engine_url, self.engine_control_url) if url and url.startswith("http:")]:
            raise ValueError(f"engine_ca_file wants an engine with TLS, and {in_clear[0]} has none: write https://")
        return self

    @model_validator(mode="after")
    def _check_vllm(self) -> "AgentSettings":
        if self.vllm_node_file is not None and (self.backend != "vllm" or self.vllm_dir is not None):
            raise ValueError("vllm_node_file wants backend vllm and no vllm_dir: the agent makes that folder itself")
        return self

    @property
    def node_labels(self) -> dict[str, str]:
        """The labels that were given, the region among them."""
        return {**self.labels, **({node_labels.REGION: self.region} if self.region else {})}

    @property
    def client_files(self) -> ClientFiles:
        """What the agent shows, and whom it trusts, where it connects with TLS."""
        return ClientFiles(self.ca_file, self.client_cert, self.client_key)

    @property
    def engine_files(self) -> ClientFiles:
        """The same, where it connects to the engine."""
        return ClientFiles(self.engine_ca_file or self.ca_file, self.client_cert, self.client_key)

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
