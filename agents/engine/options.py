"""What an engine is started with. The knobs in `config` may change while it runs; nothing else does."""

from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, field_validator, model_validator
from pydantic.dataclasses import dataclass

from agents.engine.scheduling.policy import Policy
from controlplane.contract.knobs import EngineConfig, Quantization
from controlplane.terminal.checkout import ROOT
from controlplane.terminal.setting_values import Bytes, words_of

BUNDLED = ROOT / "agents/models/tailwright-py-5m"


class SpeculativeMethod(StrEnum):
    """Where drafts come from."""

    NGRAM = "ngram"  # What followed the same tokens earlier in the sequence.
    DRAFT_MODEL = "draft_model"  # A small model with the same vocabulary.
    EARLY_EXIT = "early_exit"  # The model's own first layers, its norm and its head.


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class ModelOptions:
    """Which model is served, and by what. Names are vLLM's where it has one."""

    model: Path = Field(default=BUNDLED, description="Hugging Face folder of a Llama, Qwen2, Qwen3 or Gemma 3 model.")
    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    port: int = Field(default=7400, ge=0, le=65535, description="Port to listen on.")
    tls_cert: Path | None = Field(default=None, description="PEM file of the certificate; renewed when it changes.")
    tls_key: Path | None = Field(default=None, description="PEM file of its key.")
    insecure_http: bool = Field(
        default=False, description="Serve other machines without TLS: something before this encrypts."
    )
    control_socket: Path | None = Field(
        default=None,
        description="Where configuration, cache and events are served; default: tailwright-engine-PORT.sock in the "
        "user's runtime folder.",
    )
    control_port: int | None = Field(
        default=None, ge=0, le=65535, description="Serve them on this port instead, to who brings the token."
    )
    control_token_file: Path | None = Field(default=None, description="A file that holds the control port's token.")
    api_key_file: Path | None = Field(
        default=None, description="Keys that clients must bring to /v1, one a line; default: none is asked for."
    )
    allowed_hosts: Annotated[tuple[str, ...], BeforeValidator(words_of)] = Field(
        default=(),
        description="Names that clients may call this server by, with commas between; on a loopback address its own "
        "are allowed, elsewhere any while none is given.",
    )
    served_model_name: str | None = Field(
        default=None, description="The name clients ask for; default: the folder's name."
    )
    draft_model: Path | None = Field(default=None, description="Folder of a draft model with the same tokenizer.")
    speculative_method: SpeculativeMethod = Field(
        default=SpeculativeMethod.NGRAM, description="Where drafts come from."
    )
    early_exit_layer: int | None = Field(
        default=None, ge=1, description="Layers that draft with early_exit; default: a third of the model's."
    )
    speculation_gate: bool = Field(default=True, description="Give no drafts to requests for which drafting loses.")
    dtype: Literal["float32", "bfloat16", "float16"] = Field(default="float32", description="Of weights and cache.")
    device: Literal["cpu", "cuda", "auto"] = Field(
        default="cpu", description="Where weights and cache live; auto: CUDA where there is one."
    )
    kernels: Literal["auto", "native", "torch"] = Field(
        default="auto",
        description="What computes the operations besides the linear layers; auto: native where they can be built and "
        "are right.",
    )
    kv_cache_memory_bytes: Bytes = Field(default=256 * 2**20, ge=1, description="Memory for the KV cache.")
    block_size: int = Field(default=16, ge=1, description="Tokens per cache block; must divide 64.")
    prefix_caching: bool = Field(default=True, description="Reuse what equal starts of prompts computed.")
    max_model_len: int | None = Field(
        default=None,
        ge=2,
        description="Most tokens of prompt and output together; default: what the model was made for.",
    )
    threads: int = Field(default=1, ge=1, description="Torch threads.")
    default_timeout_s: float | None = Field(
        default=None, gt=0, description="Seconds after which a request that names no timeout is ended; default: never."
    )
    quantizations: Annotated[tuple[Quantization, ...], BeforeValidator(words_of)] = Field(
        default=tuple(Quantization),
        min_length=1,
        description="Weight formats that the knob may be set to, with commas between.",
    )

    @field_validator("block_size")
    @classmethod
    def _divides_64(cls, value: int) -> int:
        if 64 % value:
            raise ValueError("must divide 64")
        return value

    @model_validator(mode="after")
    def _has_its_draft_model(self) -> Self:
        if self.speculative_method is SpeculativeMethod.DRAFT_MODEL and self.draft_model is None:
            raise ValueError("speculative_method draft_model needs draft_model, its folder")
        return self

    @model_validator(mode="after")
    def _has_one_way_of_control(self) -> Self:
        if (self.control_port is None) != (self.control_token_file is None):
            raise ValueError("control_port and control_token_file go together")
        if self.control_port is not None and self.control_socket is not None:
            raise ValueError("give either control_socket or control_port")
        return self

    @property
    def model_name(self) -> str:
        return self.served_model_name or self.model.resolve().name


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class EngineOptions(Policy, ModelOptions):
    """Checked on construction. The fields of `ModelOptions` come first, those of the scheduler's `Policy` follow."""

    config: EngineConfig = Field(default_factory=EngineConfig)

    @property
    def policy(self) -> Policy:
        """What the scheduler is started with, alone."""
        return Policy(**{option.name: getattr(self, option.name) for option in fields(Policy)})
