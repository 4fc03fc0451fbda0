"""What a model would do on accelerators that are not there: asked, and forecast by its sizes and theirs. No proof."""

from typing import Annotated

from pydantic import BaseModel, Field

from controlplane.contract.planning.whatif import ForecastClass
from controlplane.contract.reports.model_shape import ModelShape

MOST_NAMES, MOST_CUTS, MOST_POINTS = 16, 4, 1000
ACCELERATOR_NAMES = ("a100", "h100", "h200", "b200", "gb200", "b300")
"""Those that are known; their figures are `controlplane/hardware/accelerators.py`'s."""

Name = Annotated[str, Field(min_length=1, max_length=32)]
Tokens = Annotated[float, Field(ge=1, le=1e8, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
Width = Annotated[int, Field(ge=1, le=1024)]


class MeasuredPoint(BaseModel):
    """What was measured on one accelerator and width, with so many requests always under way."""

    accelerator: Name = Field(description="its name, such as h100")
    tensor_parallel: Width = Field(description="accelerators that shared each layer")
    pipeline_parallel: Width = Field(default=1, description="stages that the layers were cut into")
    prompt: Tokens = Field(description="tokens of a prompt")
    output: Tokens = Field(description="tokens of an answer")
    concurrency: Annotated[float, Field(ge=1, le=1e6)] = Field(description="requests always under way")
    tpot_ms: Positive = Field(description="mean milliseconds between a request's tokens")
    ttft_ms: Positive | None = Field(default=None, description="mean milliseconds to its first; null: not measured")


class HardwareCreate(BaseModel):
    """`POST /api/v1/hardware`: a load, and where to. What is null is taken from the pool, where one is named."""

    pool: str | None = Field(default=None, min_length=1, max_length=256, description="whose model and traffic")
    window_s: float = Field(default=3600, ge=60, le=7 * 86400, description="seconds of the newest traffic to look at")
    model: ModelShape | None = Field(default=None, description="the model's sizes; null: as the pool's nodes tell them")
    accelerators: list[Name] = Field(default=[], max_length=MOST_NAMES, description="by name; none: all known")
    tensor_parallel: list[Width] = Field(
        default=[], max_length=MOST_NAMES, description="accelerators that share each layer; none: 1, 2, 4 and 8"
    )
    pipeline_parallel: list[Width] = Field(
        default=[],
        max_length=MOST_CUTS,
        description="stages that the layers are cut into, each on `tensor_parallel` accelerators of its own; none: 1",
    )
    weights: Name | None = Field(default=None, description="bf16, fp8, fp4 or int4; null: as the pool's, or bf16")
    kv_bits: int | None = Field(default=None, description="of a cached value, 8 or 16; null: as the engine has them")
    engine: Name = Field(default="vllm", description="vllm, sglang or trtllm")
    prompt: Tokens | None = Field(default=None, description="tokens of a prompt")
    output: Tokens | None = Field(default=None, description="tokens of an answer")
    cached: Share | None = Field(default=None, description="share of each prompt that the prefix cache has, 0 to 1")
    rate: Annotated[float, Field(ge=0.001, le=1e6, allow_inf_nan=False)] | None = Field(
        default=None, description="requests a second that replicas shall carry; null: the pool's busiest minute's"
    )
    tpot_limit_ms: Positive | None = Field(default=None, description="most milliseconds between two tokens")
    concurrency: Annotated[float, Field(ge=1, le=1e6, allow_inf_nan=False)] | None = Field(
        default=None, description="in place of a rate: requests always under way on one replica"
    )
    prices: dict[Name, Positive] = Field(
        default={}, max_length=MOST_NAMES, description="of an accelerator's hour, by its name"
    )
    points: list[MeasuredPoint] = Field(default=[], max_length=MOST_POINTS, description="what you measured yourself")


class HardwareRow(BaseModel):
    """One deployment. What does not fit, or cannot keep the limit, has no forecast."""

    accelerator: str = Field(description="its name, as `accelerators.py` has it")
    tensor_parallel: int = Field(description="accelerators that share each layer")
    pipeline_parallel: int = Field(default=1, description="stages that the layers are cut into")
    weight_bytes: int = Field(description="of the weights, on all of them")
    kv_bytes_per_token: int = Field(description="of the KV cache, on all of them; layers with a window keep less")
    room: float = Field(description="requests of that length that the KV cache holds at once; below 1: not one")
    replicas: int | None = Field(default=None, description="of such accelerators together, as few as carry the rate")
    running: float | None = Field(default=None, description="requests that one of them has under way at once")
    tpot_s: float | None = Field(default=None, description="mean seconds between tokens of a request")
    low_s: float | None = Field(default=None, description="of nine of ten forecasts the true one was not below this")
    high_s: float | None = Field(default=None, description="nor above this")
    first_token_s: float | None = Field(
        default=None, description="mean seconds to the first token: its prompt, and at a rate the wait for others'"
    )
    first_token_low_s: float | None = Field(default=None, description="as `low_s`, of the first token")
    first_token_high_s: float | None = Field(
        default=None,
        description="as `high_s`, of the first token; null beside a low one: how slow it may be is not known",
    )
    tokens_per_s: float | None = Field(default=None, description="output tokens a second, of all replicas")
    device_s_per_1000: float | None = Field(default=None, description="accelerator seconds for 1,000 output tokens")
    cost_per_hour: float | None = Field(default=None, description="of all replicas, by the accelerator's price")
    cost_per_million: float | None = Field(default=None, description="for a million output tokens, all replicas busy")
    known_as: str = Field(
        description="seen, elsewhere, another size (than models that factors were learned of), a pipeline, which was "
        "seen nowhere, or calibrated by points"
    )
    forecast_class: ForecastClass = Field(
        description="`calibrated`: of a dense model of such a size and where its factors were learned, or by enough "
        "points of your own"
    )
    error: float = Field(description="what nine of ten such forecasts of `tpot_s` were off by, a share")
    notes: list[str] = Field(default=[], description="what is to be known of it, in words")


class HardwareForecast(BaseModel):
    """A row for each accelerator and width, and what they were forecast by."""

    model: ModelShape = Field(description="the model's sizes")
    model_of: str = Field(description="the node that told them; empty: they were given")
    weights: str = Field(description="format of the weights")
    engine: str = Field(description="whose launches count")
    prompt: float = Field(description="tokens of a prompt")
    output: float = Field(description="tokens of an answer")
    cached: float = Field(description="share of each prompt that the prefix cache has")
    rate: float | None = Field(description="requests a second that replicas shall carry; null: `concurrency` says")
    concurrency: float | None = Field(description="requests always under way on one replica; null: `rate` says")
    notes: list[str] = Field(default=[], description="what was taken for granted, in words")
    items: list[HardwareRow] = Field(description="by accelerator, then width")
