"""What an engine is started with. The knobs in `config` may change while it runs; nothing else does."""

from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path

from agents.engine.scheduling.policy import Policy
from controlplane.contract.errors import BadRequest
from controlplane.contract.knobs import EngineConfig, Quantization

DTYPES = ("float32", "bfloat16", "float16")
DEVICES = ("cpu", "cuda", "auto")
KERNELS = ("auto", "native", "torch")


class SpeculativeMethod(StrEnum):
    """Where drafts come from."""

    NGRAM = "ngram"  # What followed the same tokens earlier in the sequence.
    DRAFT_MODEL = "draft_model"  # A small model with the same vocabulary.
    EARLY_EXIT = "early_exit"  # The model's own first layers, its norm and its head.


@dataclass(frozen=True)
class EngineOptions(Policy):
    """Checked on construction: raises `BadRequest` that names the option. The scheduler's options are `Policy`'s."""

    model_dir: Path
    host: str = "127.0.0.1"
    port: int = 7400
    control_socket: Path | None = None
    """Where configuration, cache and events are served; None: `owned_socket.engine_socket` of the port."""
    control_port: int | None = None
    """Serve them on this port instead, to who brings the token."""
    control_token_file: Path | None = None
    api_key_file: Path | None = None
    """Keys that clients must bring, one a line; None: whoever reaches the port may ask."""
    allowed_hosts: tuple[str, ...] = ()
    """Names that clients may call this server by, beside the loopback ones."""
    served_model_name: str | None = None
    """None: the folder's name."""
    draft_model_dir: Path | None = None
    speculative_method: str = SpeculativeMethod.NGRAM
    early_exit_layer: int | None = None
    """Layers that draft with the method early_exit; None: a third of the model's."""
    speculation_gate: bool = True
    """Whether requests for which drafting loses are left without drafts."""
    dtype: str = "float32"
    device: str = "cpu"
    """Where weights and cache live; auto: CUDA where there is one, else the CPU."""
    kernels: str = "auto"
    """What computes the operations besides the linear layers: native C++, plain torch, or auto, the native where it can
    be built and is right."""
    kv_cache_bytes: int = 256 * 2**20
    block_size: int = 16
    """Tokens per cache block; must divide 64."""
    prefix_caching: bool = True
    """Whether the keys and values of a prompt's start are taken from earlier requests with the same start."""
    max_model_len: int | None = None
    """Most tokens of prompt and output; None: what the model was made for."""
    num_threads: int = 1
    default_timeout_s: float | None = None
    """Seconds after which a request that names no timeout is ended; None: never."""
    quantizations: tuple[str, ...] = tuple(format_.value for format_ in Quantization)
    """Weight formats that the knob may be set to: those whose quality somebody has found good enough."""
    config: EngineConfig = field(default_factory=EngineConfig)

    def __post_init__(self) -> None:
        for name, choices in (("dtype", DTYPES), ("device", DEVICES), ("kernels", KERNELS)):
            if getattr(self, name) not in choices:
                raise BadRequest(f"{name}: {getattr(self, name)!r} is not one of {', '.join(choices)}", field=name)
        known = tuple(format_.value for format_ in Quantization)
        if not self.quantizations or (unknown := [name for name in self.quantizations if name not in known]):
            named = repr(unknown[0]) if self.quantizations else "an empty list"
            raise BadRequest(f"quantizations: {named} is not among {', '.join(known)}", field="quantizations")
        if self.speculative_method not in tuple(SpeculativeMethod):
            raise BadRequest(
                f"speculative_method: {self.speculative_method!r} is not one of {', '.join(SpeculativeMethod)}",
                field="speculative_method",
            )
        if self.speculative_method == SpeculativeMethod.DRAFT_MODEL and self.draft_model_dir is None:
            raise BadRequest(
                "draft_model_dir: speculation with a draft model needs its folder", field="draft_model_dir"
            )
        if self.early_exit_layer is not None and self.early_exit_layer < 1:
            raise BadRequest(
                f"early_exit_layer: must be at least 1, got {self.early_exit_layer}", field="early_exit_layer"
            )
        if self.block_size <= 0 or 64 % self.block_size:
            raise BadRequest(f"block_size: {self.block_size} must divide 64", field="block_size")
        if (self.control_port is None) != (self.control_token_file is None):
            missing = "control_port" if self.control_port is None else "control_token_file"
            raise BadRequest(f"{missing}: a control port and its token file go together", field=missing)
        if self.control_port is not None and self.control_socket is not None:
            raise BadRequest("control_socket: give either a control socket or a control port", field="control_socket")
        if self.default_timeout_s is not None and not self.default_timeout_s > 0:
            raise BadRequest(
                f"default_timeout_s: must be above 0, got {self.default_timeout_s}", field="default_timeout_s"
            )
        super().__post_init__()
        for name, least in (("kv_cache_bytes", 1), ("num_threads", 1)):
            if getattr(self, name) < least:
                raise BadRequest(f"{name}: must be at least {least}, got {getattr(self, name)}", field=name)

    @property
    def policy(self) -> Policy:
        """What the scheduler is started with, alone."""
        return Policy(**{option.name: getattr(self, option.name) for option in fields(Policy)})

    @property
    def model_name(self) -> str:
        return self.served_model_name or Path(self.model_dir).resolve().name
