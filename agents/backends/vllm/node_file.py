"""The node file: the vLLM server that the agent itself starts, as a TOML file (deploy/vllm/node.toml is an example).

Guarantee: a node file that loads can be turned into a command line for every configuration within its limits; what is
wrong is refused as `BadSettings` with the file, the field and the mend. Relative paths are relative to the file.
"""

import os
import shutil
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, field_validator, model_validator

from agents.backends.vllm.arguments import check_arguments, flag_of
from agents.backends.vllm.declared_flags import DeclaredFlag
from agents.backends.vllm.further_knobs import FURTHER
from controlplane.contract import knobs
from controlplane.contract.errors import BadSettings, KnobOutOfRange, TailwrightError, nearest
from controlplane.contract.knobs import KNOBS, ChangeClass, EngineConfig, Quantization
from controlplane.contract.mistake_text import mistake_text
from controlplane.contract.reports.declared_knobs import (
    MOST_DECLARED,
    DeclaredKnob,
    by_some,
    completed,
    is_name,
    parse_declared,
)
from controlplane.serving.tls import TlsFiles, check_exposed, client_context, tls_files
from controlplane.terminal.toml_file import read_toml

OWN_VARIABLES = "TAILWRIGHT_"
"""Environment variables that begin so are the agent's: they are neither handed on nor taken from the node file."""


_MOST_KNOBS = MOST_DECLARED - len(FURTHER)
"""So that what the plugin moves can be told beside them."""


class StandbyUse(StrEnum):
    """When a change that the running server cannot take up is made through a second server beside it."""

    AUTO = "auto"  # Where memory allows.
    ALWAYS = "always"
    NEVER = "never"  # Drain, stop, start again.


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Variant(_Table):
    """The model in one weight format."""

    model: str = Field(min_length=1)  # A folder, or a name that vLLM can load.
    arguments: list[str] = []
    environment: dict[str, str] = {}

    @field_validator("arguments")
    @classmethod
    def _no_own_arguments(cls, value: list[str]) -> list[str]:
        return check_arguments(value, in_variant=True)

    @field_validator("environment")
    @classmethod
    def _no_own_variables(cls, value: dict[str, str]) -> dict[str, str]:
        return _check_environment(value)


class Capacity(_Table):
    """What vLLM is started with at least: below it the knob is live, above it vLLM has to start again."""

    max_num_batched_tokens: int = Field(default=8192, ge=1, le=KNOBS[knobs.MAX_NUM_BATCHED_TOKENS].maximum)
    max_num_seqs: int = Field(default=256, ge=1, le=KNOBS[knobs.MAX_NUM_SEQS].maximum)
    num_speculative_tokens: int = Field(default=0, ge=0, le=KNOBS[knobs.NUM_SPECULATIVE_TOKENS].maximum)


class Limits(_Table):
    """What this machine can be asked for at most; above it a configuration is refused."""

    max_num_batched_tokens: int = Field(default=int(KNOBS[knobs.MAX_NUM_BATCHED_TOKENS].maximum or 0), ge=1)
    max_num_seqs: int = Field(default=int(KNOBS[knobs.MAX_NUM_SEQS].maximum or 0), ge=1)
    num_speculative_tokens: int = Field(default=int(KNOBS[knobs.NUM_SPECULATIVE_TOKENS].maximum or 0), ge=0)


class NodeFile(_Table):
    """What to start, and how. Made by `load_node_file`."""

    executable: list[str] = Field(min_length=1)  # vLLM's command, before `serve`.
    served_model_name: str = Field(min_length=1)
    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=1, le=65535)  # Where clients come: the local proxy listens here.
    tls_cert: Path | None = None  # PEM files: clients come by https.
    tls_key: Path | None = None
    server_ca_file: Path | None = None  # PEM file of their CA: vLLM is asked by https too, with the same certificate.
    insecure_http: bool = False  # Other machines are served in clear: something before the proxy encrypts.
    server_ports: tuple[int, int] = (8001, 8002)  # The server's and its standby's, on 127.0.0.1, in turn.
    arguments: list[str] = []
    environment: dict[str, str] = {}
    plugin: bool | None = None  # Is tailwright_vllm in vLLM's environment? None: look.
    variants: dict[Quantization, Variant] = Field(min_length=1)
    capacity: Capacity = Capacity()
    limits: Limits = Limits()
    knobs: dict[str, DeclaredFlag] = Field(default={}, max_length=_MOST_KNOBS)  # Further flags that are knobs.
    speculative: dict[str, Any] = {}  # vLLM's --speculative-config, without the draft length.
    initial: dict[str, Any] = {}  # Knobs until the control plane assigns a revision.
    standby: StandbyUse = StandbyUse.AUTO
    standby_needs_bytes: int | None = Field(default=None, ge=0)  # Host memory; None: as much as runs now, and a tenth.
    start_timeout_s: float = Field(default=900.0, gt=0)
    drain_timeout_s: float = Field(default=300.0, ge=0)
    hold_s: float = Field(default=600.0, ge=0)  # How long the proxy lets requests wait for a server.
    allowed_hosts: list[str] = []  # Names that clients may call the proxy by, beside those of a loopback address.
    pass_paths: list[str] = []  # Paths that clients may ask for beside those of vLLM's serving API.
    unhealthy_s: float = Field(default=60.0, gt=0)  # How long a server may fail /health before it is started again.
    stop_with_agent: bool = False
    log_bytes: int = Field(default=16 * 2**20, ge=2**14)  # Of one server's log on disk.
    run_dir: Path | None = None  # Where sockets live; None: beside the agent's state, or in /tmp if that is too long.
    _folder: Path = PrivateAttr(default=Path("/"))

    @field_validator("executable", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @field_validator("arguments")
    @classmethod
    def _no_own_arguments(cls, value: list[str]) -> list[str]:
        return check_arguments(value, in_variant=False)

    @field_validator("environment")
    @classmethod
    def _no_own_variables(cls, value: dict[str, str]) -> dict[str, str]:
        return _check_environment(value)

    @field_validator("speculative")
    @classmethod
    def _has_a_method(cls, value: dict[str, Any]) -> dict[str, Any]:
        if value and not ({"method", "model"} & value.keys()):
            raise ValueError("names neither a method nor a draft model; give method, such as 'ngram'")
        if knobs.NUM_SPECULATIVE_TOKENS in value:
            raise ValueError("num_speculative_tokens is a knob: set capacity.num_speculative_tokens instead")
        return value

    @field_validator("knobs")
    @classmethod
    def _are_other_knobs(cls, value: dict[str, DeclaredFlag]) -> dict[str, DeclaredFlag]:
        for name, own in value.items():
            if not is_name(name):
                raise ValueError(f"{name[:80]} is a knob already, or no name: small letters, digits and _")
            if own.change is ChangeClass.LIVE and name not in FURTHER:
                live = ", ".join(FURTHER)
                raise ValueError(f"{name}: class = 'live' is for what the plugin can move: {live}; set 'restart'")
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        try:
            parse_declared(self.initial, by_some([self.declared(ChangeClass.RESTART)]))
        except TailwrightError as error:
            raise ValueError(f"initial: {error.message}") from error
        variants = [one.arguments for one in self.variants.values()]
        given = {flag_of(one) for own in (self.arguments, *variants) for one in own}
        for name, own in self.knobs.items():
            if {own.flag, own.flag.replace("--", "--no-", 1)} & given:
                raise ValueError(f"knobs.{name}: {own.flag} is among the arguments too; leave it out there")
        try:
            check_exposed(self.host, self.tls, self.insecure_http)
        except BadSettings as error:
            raise ValueError(error.message) from error
        if self.server_ca_file is not None and self.tls is None:
            raise ValueError("server_ca_file wants tls_cert and tls_key, which vLLM then serves with")
        if len({self.port, *self.server_ports}) < 3:
            raise ValueError("port and the two server_ports must differ")
        for name, most in self.limits.model_dump().items():
            if (least := getattr(self.capacity, name)) > most:
                raise ValueError(f"capacity.{name}: {least} is above limits.{name}, {most}; lower one, or raise other")
        if self.capacity.num_speculative_tokens and not self.speculative:
            raise ValueError("capacity.num_speculative_tokens wants a table [speculative] with the method")
        if problem := self.refusal(self.initial_config):
            raise ValueError(f"initial.{problem[0]}: {problem[1]}")
        return self

    @property
    def folder(self) -> Path:
        """The node file's; vLLM is started in it, so that paths among its arguments are relative to the file too."""
        return self._folder

    @property
    def tls(self) -> TlsFiles | None:
        """Of the proxy. Raises BadSettings where one of the two is missing."""
        return tls_files(self.tls_cert, self.tls_key, None)

    @property
    def initial_config(self) -> EngineConfig:
        """What is not given is the contract's default, or this node's limit where that is lower."""
        limits = self.limits.model_dump()
        within = {name: min(int(KNOBS[name].default), most) for name, most in limits.items()}
        wanted = {**within, knobs.QUANTIZATION: next(iter(self.variants)).value, **self.initial}
        declared = self.declared(ChangeClass.RESTART)
        return completed(parse_declared(wanted, by_some([declared])), declared)

    def declared(self, restart: ChangeClass) -> dict[str, DeclaredKnob]:
        """The file's own knobs. `restart`: what a change takes that wants another process, as all of them do where the
        plugin moves none."""
        return {name: own.as_knob(restart) for name, own in self.knobs.items()}

    def refusal(self, config: EngineConfig) -> tuple[str, str] | None:
        """The first knob that this node cannot be given whatever is restarted, and why; None when it can.

        A knob that it does not declare may still be one that the plugin moves in the server that runs.
        """
        for name, knob in self.declared(ChangeClass.RESTART).items():
            try:
                knob.parse(config.knobs().get(name, knob.start), name)
            except KnobOutOfRange as error:
                return name, f"{error.message.removeprefix(f'{name}: ')}; choose another, or change knobs.{name}"
        if config.quantization not in self.variants:
            there = ", ".join(self.variants)
            return knobs.QUANTIZATION, f"{config.quantization} has no variant in the node file; there are: {there}"
        for name, most in self.limits.model_dump().items():
            value = getattr(config, name)
            if (largest := value if isinstance(value, int) else max(tokens for _, tokens in value)) > most:
                return name, f"{largest} is above {most}, this node's limit; choose less, or raise limits.{name}"
        if config.num_speculative_tokens != 0 and not self.speculative:
            return knobs.NUM_SPECULATIVE_TOKENS, "the node file has no table [speculative], so 0 is all it can run"
        return None


def load_node_file(path: Path) -> NodeFile:
    """Read and check. Raises `BadSettings` that names the file and the field."""
    content = read_toml(path, "vllm_node_file")
    try:
        node = NodeFile.model_validate(content)
    except ValidationError as error:
        field, message = _first_mistake(error)
        raise BadSettings(f"{path}: {field}: {message}", field=field) from None
    return _placed(node, path)


def _first_mistake(error: ValidationError) -> tuple[str, str]:
    first = error.errors()[0]
    place = [str(part) for part in first["loc"] if part != "[key]"]
    field = ".".join(place) or "node file"
    if first["type"] == "extra_forbidden":
        tables: dict[str, type[BaseModel]] = {"capacity": Capacity, "limits": Limits, "variants": Variant}
        tables["knobs"] = DeclaredFlag
        table = tables.get(place[0], NodeFile) if len(place) > 1 else NodeFile
        names = [field.alias or name for name, field in table.model_fields.items()]
        return field, f"no such field, {nearest(place[-1], names)}"
    if first["type"] == "missing":
        return field, "is needed; deploy/vllm/node.toml shows every field"
    return field, mistake_text(first)


def _placed(node: NodeFile, path: Path) -> NodeFile:
    """Paths made absolute. Raises BadSettings for an executable that is not there, a `server_ca_file` without a CA."""
    folder = path.resolve().parent
    name = node.executable[0]
    found = str(folder / name) if "/" in name else shutil.which(name)
    if found is None or not os.access(found, os.X_OK) or Path(found).is_dir():
        raise BadSettings(
            f"{path}: executable: {name} is no program that can be run; give the path of vLLM's command, "
            "such as /opt/vllm/bin/vllm",
            field="executable",
        )
    variants = {key: one.model_copy(update={"model": _model(one.model, folder)}) for key, one in node.variants.items()}
    update: dict[str, Any] = {"executable": [found, *node.executable[1:]], "variants": variants}
    for name in ("run_dir", "tls_cert", "tls_key", "server_ca_file"):
        if (given := getattr(node, name)) is not None:
            update[name] = folder / given
    placed = node.model_copy(update=update)
    if placed.server_ca_file is not None:
        try:
            client_context(placed.server_ca_file, field="server_ca_file")
        except BadSettings as error:
            raise BadSettings(f"{path}: {error.message}", field="server_ca_file") from error
    placed._folder = folder
    return placed


def _model(given: str, folder: Path) -> str:
    """What begins with a dot, or lies beside the file, is a path; anything else is a name for vLLM to load."""
    beside = folder / given
    return str(beside) if given.startswith(".") or beside.exists() else given


def _check_environment(value: dict[str, str]) -> dict[str, str]:
    for name in value:
        if name.startswith(OWN_VARIABLES):
            raise ValueError(f"{name} is the agent's own; variables that begin with {OWN_VARIABLES} cannot be set here")
    return value
