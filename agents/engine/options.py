"""What an engine is started with. The knobs in `config` may change while it runs; nothing else does."""

from dataclasses import dataclass, field
from pathlib import Path

from agents.engine.speculation.drafting import SpeculativeMethod
from controlplane.contract.errors import BadRequest
from controlplane.contract.knobs import EngineConfig

DTYPES = ("float32", "bfloat16")


@dataclass(frozen=True)
class EngineOptions:
    """Checked on construction: raises `BadRequest` that names the option."""

    model_dir: Path
    host: str = "127.0.0.1"
    port: int = 7400
    served_model_name: str | None = None
    """None: the folder's name."""
    draft_model_dir: Path | None = None
    speculative_method: str = SpeculativeMethod.NGRAM
    dtype: str = "float32"
    kv_cache_bytes: int = 256 * 2**20
    block_size: int = 16
    """Tokens per cache block; must divide 64."""
    max_model_len: int | None = None
    """Most tokens of prompt and output; None: what the model was made for."""
    num_threads: int = 1
    max_waiting: int = 1024
    """Waiting requests above which new ones are refused with 429."""
    config: EngineConfig = field(default_factory=EngineConfig)

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise BadRequest(f"dtype: {self.dtype!r} is not one of {', '.join(DTYPES)}", field="dtype")
        if self.speculative_method not in tuple(SpeculativeMethod):
            raise BadRequest(
                f"speculative_method: {self.speculative_method!r} is not one of {', '.join(SpeculativeMethod)}",
                field="speculative_method",
            )
        if self.speculative_method == SpeculativeMethod.DRAFT_MODEL and self.draft_model_dir is None:
            raise BadRequest(
                "draft_model_dir: speculation with a draft model needs its folder", field="draft_model_dir"
            )
        if self.block_size <= 0 or 64 % self.block_size:
            raise BadRequest(f"block_size: {self.block_size} must divide 64", field="block_size")
        for name, least in (("kv_cache_bytes", 1), ("num_threads", 1), ("max_waiting", 0)):
            if getattr(self, name) < least:
                raise BadRequest(f"{name}: must be at least {least}, got {getattr(self, name)}", field=name)

    @property
    def model_name(self) -> str:
        return self.served_model_name or Path(self.model_dir).resolve().name
