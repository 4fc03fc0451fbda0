"""What a model would do on each of several deployments under one load: fits, time per token, tokens, seconds, cost."""

from collections.abc import Mapping, Sequence

from pydantic import BaseModel, Field

from controlplane.contract.errors import BadRequest
from tuner.hardware.accelerators import ENGINES, FORMATS, accelerator, kv_bytes
from tuner.hardware.learned_pace import ERROR_ELSEWHERE, ERROR_SEEN, PACE, SEEN, Measured, calibration
from tuner.hardware.model_shape import ModelShape
from tuner.hardware.steady_batch import Deployment, Load, room

FEWEST_POINTS = 3
"""Measured points from which a row counts as calibrated."""
Points = Mapping[tuple[str, int], Sequence[tuple[Load, float]]]
"""By accelerator and width: loads, and the mean seconds between tokens that were measured under them."""


class HardwareRow(BaseModel):
    """One deployment. What does not fit has no forecast."""

    accelerator: str = Field(description="its name, as `accelerators.py` has it")
    tensor_parallel: int = Field(description="accelerators that share each layer")
    weight_bytes: int = Field(description="of the weights, on all of them")
    kv_bytes_per_token: int = Field(description="of the KV cache, on all of them")
    room: float = Field(description="requests of that length that the KV cache holds at once; below 1: not one")
    running: float = Field(description="requests that run at once; the others wait")
    tpot_s: float | None = Field(default=None, description="mean seconds between tokens of a request")
    low_s: float | None = Field(default=None, description="tpot_s less what nine of ten forecasts were off by")
    high_s: float | None = Field(default=None, description="tpot_s and what nine of ten forecasts were off by")
    tokens_per_s: float | None = Field(default=None, description="output tokens a second")
    device_s_per_1000: float | None = Field(default=None, description="accelerator seconds for 1,000 output tokens")
    cost_per_million: float | None = Field(default=None, description="of output tokens; null: no price was given")
    known_as: str = Field(description="seen, elsewhere, or calibrated by so many points")
    notes: list[str] = Field(default=[], description="what is to be known of it, in words")


def hardware_rows(
    shape: ModelShape,
    accelerators: Sequence[str],
    widths: Sequence[int],
    load: Load,
    *,
    engine: str,
    weights: str,
    kv_bits: int | None = None,
    prices: Mapping[str, float],
    points: Points,
) -> list[HardwareRow]:
    """A row for each accelerator and width. Raises BadRequest, which names the field, for a name that is not known or
    a size that cannot be."""
    if engine not in ENGINES:
        raise BadRequest(f"no engine {engine!r}; there are: {', '.join(ENGINES)}", field="engine")
    if weights not in FORMATS:
        raise BadRequest(f"no format {weights!r}; there are: {', '.join(FORMATS)}", field="weights")
    if min(load.prompt, load.output, load.concurrency) < 1:
        raise BadRequest("prompt, output and concurrency want 1 or more each", field="load")
    cached = kv_bytes(engine, FORMATS[weights]) if kv_bits is None else kv_bits // 8
    found = []
    for name in accelerators:
        device = accelerator(name)
        for ranks in widths:
            if ranks < 1 or shape.heads % ranks:
                raise BadRequest(
                    f"tensor parallel {ranks}: wants a divisor of the model's {shape.heads} heads",
                    field="tensor_parallel",
                )
            deployment = Deployment(shape, device, FORMATS[weights], engine, ranks, cached)
            found.append(_row(name, deployment, load, prices.get(name), points.get((name, ranks), ())))
    return found


def _row(
    name: str, deployment: Deployment, load: Load, price: float | None, points: Sequence[tuple[Load, float]]
) -> HardwareRow:
    at_once = room(deployment, load)
    row = HardwareRow(
        accelerator=name,
        tensor_parallel=deployment.ranks,
        weight_bytes=round(deployment.weight_bytes),
        kv_bytes_per_token=deployment.kv_bytes_per_token,
        room=max(0.0, at_once),
        running=min(load.concurrency, max(0.0, at_once)),
        known_as="seen" if name in SEEN else "elsewhere",
        notes=_notes(deployment, load, at_once),
    )
    if at_once < 1:
        return row
    measured = [Measured(deployment, under, tpot_s) for under, tpot_s in points]
    error = ERROR_SEEN if name in SEEN or len(measured) >= FEWEST_POINTS else ERROR_ELSEWHERE
    tpot_s = PACE.tpot_s(deployment, load) * calibration(PACE, measured)
    row.tpot_s, row.low_s, row.high_s = tpot_s, tpot_s * (1 - error), tpot_s * (1 + error)
    row.tokens_per_s = row.running / tpot_s
    row.device_s_per_1000 = 1000 * deployment.ranks / row.tokens_per_s
    if measured:
        row.known_as = f"calibrated by {len(measured)} point{'s' if len(measured) > 1 else ''}"
    if price is not None:
        row.cost_per_million = price * row.device_s_per_1000 * 1000 / 3600
    return row


def _notes(deployment: Deployment, load: Load, at_once: float) -> list[str]:
    notes = []
    if deployment.cache_bytes <= 0:
        notes.append("the weights do not fit")
    elif at_once < 1:
        notes.append("no request of that length fits")
    elif at_once < load.concurrency:
        notes.append(f"{load.concurrency - at_once:.0f} of {load.concurrency:.0f} requests wait for memory")
    if deployment.ranks > deployment.shape.kv_heads:
        notes.append(f"{deployment.shape.kv_heads} KV heads are copied to {deployment.ranks} accelerators")
    return notes
