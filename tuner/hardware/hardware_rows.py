"""What a model would do on several deployments: whether it fits, time between tokens, replicas, seconds, cost."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pydantic import BaseModel, Field

from controlplane.contract.errors import BadRequest
from tuner.hardware.accelerators import ENGINES, FORMATS, accelerator, kv_bytes
from tuner.hardware.learned_pace import ERROR_ELSEWHERE, ERROR_SEEN, PACE, SEEN, Measured, calibration
from tuner.hardware.model_shape import ModelShape
from tuner.hardware.replicas import Replica, carried
from tuner.hardware.steady_batch import Deployment, Load, room

FEWEST_POINTS = 3
"""Measured points from which a row counts as calibrated."""
Points = Mapping[tuple[str, int], Sequence[tuple[Load, float]]]
"""By accelerator and width: loads, and the mean seconds between tokens that were measured under them."""


@dataclass(frozen=True)
class Wanted:
    """load: its concurrency counts where `rate` is None; rate: requests a second that replicas shall carry together;
    limit_s: on the seconds between tokens, by the upper end of the forecast; kv_bits: None: as the engine has them;
    prices: of an accelerator's hour."""

    load: Load
    engine: str = "vllm"
    weights: str = "bf16"
    kv_bits: int | None = None
    rate: float | None = None
    limit_s: float = math.inf
    prices: Mapping[str, float] = field(default_factory=dict)
    points: Points = field(default_factory=dict)


class HardwareRow(BaseModel):
    """One deployment. What does not fit, or cannot keep the limit, has no forecast."""

    accelerator: str = Field(description="its name, as `accelerators.py` has it")
    tensor_parallel: int = Field(description="accelerators that share each layer")
    weight_bytes: int = Field(description="of the weights, on all of them")
    kv_bytes_per_token: int = Field(description="of the KV cache, on all of them")
    room: float = Field(description="requests of that length that the KV cache holds at once; below 1: not one")
    replicas: int | None = Field(default=None, description="of such accelerators together, as few as carry the rate")
    running: float | None = Field(default=None, description="requests that one of them has under way at once")
    tpot_s: float | None = Field(default=None, description="mean seconds between tokens of a request")
    low_s: float | None = Field(default=None, description="tpot_s less what nine of ten forecasts were off by")
    high_s: float | None = Field(default=None, description="tpot_s and what nine of ten forecasts were off by")
    tokens_per_s: float | None = Field(default=None, description="output tokens a second, of all replicas")
    device_s_per_1000: float | None = Field(default=None, description="accelerator seconds for 1,000 output tokens")
    cost_per_million: float | None = Field(default=None, description="of output tokens; null: no price was given")
    cost_per_hour: float | None = Field(default=None, description="of all replicas; null: no price was given")
    known_as: str = Field(description="seen, elsewhere, or calibrated by so many points")
    notes: list[str] = Field(default=[], description="what is to be known of it, in words")


def hardware_rows(
    shape: ModelShape, accelerators: Sequence[str], widths: Sequence[int], wanted: Wanted
) -> list[HardwareRow]:
    """A row for each accelerator and width. Raises BadRequest, which names the field, for a name that is not known or
    a size that cannot be."""
    if wanted.engine not in ENGINES:
        raise BadRequest(f"no engine {wanted.engine!r}; there are: {', '.join(ENGINES)}", field="engine")
    if wanted.weights not in FORMATS:
        raise BadRequest(f"no format {wanted.weights!r}; there are: {', '.join(FORMATS)}", field="weights")
    weights = FORMATS[wanted.weights]
    cached = kv_bytes(wanted.engine, weights) if wanted.kv_bits is None else wanted.kv_bits // 8
    found = []
    for name in accelerators:
        device = accelerator(name)
        for ranks in widths:
            if ranks < 1 or shape.heads % ranks:
                raise BadRequest(
                    f"tensor parallel {ranks}: wants a divisor of the model's {shape.heads} heads",
                    field="tensor_parallel",
                )
            found.append(_row(name, Deployment(shape, device, weights, wanted.engine, ranks, cached), wanted))
    return found


def _row(name: str, deployment: Deployment, wanted: Wanted) -> HardwareRow:
    load, ranks = wanted.load, deployment.ranks
    measured = [Measured(deployment, under, tpot_s) for under, tpot_s in wanted.points.get((name, ranks), ())]
    error = ERROR_SEEN if name in SEEN or len(measured) >= FEWEST_POINTS else ERROR_ELSEWHERE
    factor = calibration(PACE, measured)
    at_once = max(0.0, room(deployment, load))
    row = HardwareRow(
        accelerator=name,
        tensor_parallel=ranks,
        weight_bytes=round(deployment.weight_bytes),
        kv_bytes_per_token=deployment.kv_bytes_per_token,
        room=at_once,
        known_as="seen" if name in SEEN else "elsewhere",
        notes=_notes(deployment, at_once),
    )
    if measured:
        row.known_as = f"calibrated by {len(measured)} point{'s' if len(measured) > 1 else ''}"
    if at_once < 1:
        return row

    def tpot_s(running: float) -> float:
        return factor * PACE.tpot_s(deployment, replace(load, concurrency=max(1.0, running)))

    one = Replica(tpot_s, factor * PACE.prompt_s(deployment, load), load.output, at_once)
    if wanted.rate is None:
        replicas, running = 1, min(load.concurrency, at_once)
        if at_once < load.concurrency:
            row.notes.append(f"{load.concurrency - at_once:.0f} of {load.concurrency:.0f} requests wait for memory")
    else:
        found = carried(one, wanted.rate, wanted.limit_s / (1 + error))
        if found is None:
            row.notes.append("not one request keeps the limit, as far as is known")
            return row
        replicas, running = found.replicas, found.running
    row.replicas, row.running, row.tpot_s = replicas, running, tpot_s(running)
    row.low_s, row.high_s = row.tpot_s * (1 - error), row.tpot_s * (1 + error)
    row.tokens_per_s = replicas * one.requests_per_s(running) * load.output
    row.device_s_per_1000 = 1000 * replicas * ranks / row.tokens_per_s
    if name in wanted.prices:
        row.cost_per_hour = wanted.prices[name] * replicas * ranks
        row.cost_per_million = row.cost_per_hour / 3600 / row.tokens_per_s * 1e6
    return row


def _notes(deployment: Deployment, at_once: float) -> list[str]:
    notes = []
    if deployment.cache_bytes <= 0:
        notes.append("the weights do not fit")
    elif at_once < 1:
        notes.append("no request of that length fits")
    if deployment.ranks > deployment.shape.kv_heads:
        notes.append(f"{deployment.shape.kv_heads} KV heads are copied to {deployment.ranks} accelerators")
    return notes
