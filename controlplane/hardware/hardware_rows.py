"""What a model would do on several deployments: whether it fits, seconds between tokens and to the first, cost."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from controlplane.contract.errors import BadRequest, nearest
from controlplane.contract.planning.hardware_forecast import (
    HardwareCreate,
    HardwareForecast,
    HardwareRow,
    MeasuredPoint,
)
from controlplane.contract.planning.whatif import ForecastClass
from controlplane.contract.reports.model_shape import ModelShape
from controlplane.hardware.accelerators import ACCELERATORS, ENGINES, FORMATS, accelerator, kv_bytes
from controlplane.hardware.learned_pace import (
    EXPERTS_FIRST_TOKEN,
    EXPERTS_PACE,
    FEWEST_POINTS,
    FIRST_TOKEN,
    LEARNED_OF,
    PACE,
    SEEN,
    FirstToken,
    NineOfTen,
    Pace,
    calibration,
    is_other_size,
    nine_of_ten,
    waiting_s,
)
from controlplane.hardware.replicas import Carried, Replica, carried
from controlplane.hardware.steady_batch import Deployment, Load, room

WIDTHS = (1, 2, 4, 8)
PLAIN = "bf16"
EXPERTS_NOTE = (
    "half of the forecasts for models with experts were within 18 %, nine of ten within 52 %, most of these too quick; "
    "three points of your own make that 11 and 32 %"
)
PIPELINE_NOTE = (
    "no pipeline is among what the factors were learned of: its range reaches from prompts that fill each other's gaps "
    "to prompts that each hold up all, which the figure itself is; stages exchange over the accelerators' own links "
    "(between machines it takes longer), and first tokens are told as if prompts went through one by one"
)
A_PIPELINE, OTHER_SIZE = "a pipeline", "another size"


@dataclass(frozen=True)
class Known:
    """What is known of a pool that is asked about: what the question leaves out is taken from it. None: not told."""

    model: ModelShape | None = None
    model_of: str = ""
    weights: str | None = None
    prompt: float | None = None
    output: float | None = None
    cached: float | None = None
    rate: float | None = None
    notes: Sequence[str] = field(default_factory=tuple)


@dataclass(frozen=True)
class _Wanted:
    """concurrency: None: `rate` says how many are under way. limit_s: on the upper end of seconds between tokens."""

    load: Load
    rate: float | None
    concurrency: float | None
    limit_s: float
    prices: Mapping[str, float]
    points: Mapping[tuple[str, int, int], Sequence[MeasuredPoint]]


def forecast(asked: HardwareCreate, known: Known) -> HardwareForecast:
    """A row for each accelerator and width. Raises BadRequest, which names the field, for a name that is not known, a
    size that cannot be, and what is neither said nor known of a pool."""
    model = asked.model or known.model
    if model is None:
        raise BadRequest("model: no node of the pool tells its model's sizes; give them", field="model")
    weights = asked.weights or known.weights or PLAIN
    if asked.concurrency is not None and (asked.rate is not None or asked.tpot_limit_ms is not None):
        why = "concurrency: how many are under way follows from rate and tpot_limit_ms; give it or them"
        raise BadRequest(why, field="concurrency")
    if asked.kv_bits not in (None, 8, 16):
        raise BadRequest(f"kv_bits: 8 or 16, got {asked.kv_bits}", field="kv_bits")
    for name in asked.prices:
        accelerator(name, "prices")
    load = Load(
        _told(asked.prompt, known.prompt, "prompt"),
        _told(asked.output, known.output, "output"),
        asked.concurrency or 1.0,
        (known.cached if asked.cached is None else asked.cached) or 0.0,
    )
    points: dict[tuple[str, int, int], list[MeasuredPoint]] = defaultdict(list)
    for place, point in enumerate(asked.points):
        accelerator(point.accelerator, f"points[{place}].accelerator")
        points[point.accelerator, point.tensor_parallel, point.pipeline_parallel].append(point)
    wanted = _Wanted(
        load,
        None if asked.concurrency is not None else _told(asked.rate, known.rate, "rate"),
        asked.concurrency,
        math.inf if asked.tpot_limit_ms is None else asked.tpot_limit_ms / 1e3,
        asked.prices,
        points,
    )
    deployments = _deployments(asked, model, weights)
    rows = {(name, one.ranks, one.stages) for name, one in deployments}
    idle = sum(len(own) for place, own in points.items() if place not in rows)
    return HardwareForecast(
        model=model,
        model_of="" if asked.model else known.model_of,
        weights=weights,
        engine=asked.engine,
        prompt=load.prompt,
        output=load.output,
        cached=load.cached,
        rate=wanted.rate,
        concurrency=wanted.concurrency,
        notes=[
            *known.notes,
            *([f"{idle} of {len(asked.points)} points of your own are of no row: of no use"] if idle else []),
            *([EXPERTS_NOTE] if model.experts else []),
            *([_size_note(model)] if is_other_size(model) else []),
            *([PIPELINE_NOTE] if max(asked.pipeline_parallel, default=1) > 1 else []),
        ],
        items=[_row(name, deployment, wanted) for name, deployment in deployments],
    )


def _size_note(model: ModelShape) -> str:
    smallest, largest = (f"{weights / 1e9:.0f}" for weights in LEARNED_OF)
    return (
        f"its layers have {model.layer_weights / 1e9:.3g} billion weights, and factors were learned of dense models "
        f"with {smallest} to {largest}: of a model that was held out half of the forecasts were within 14 %, nine of "
        "ten within 42 %, first tokens can hardly be told; three points of your own make that 8 and 21 %"
    )


def _told(said: float | None, known: float | None, name: str) -> float:
    value = known if said is None else said
    if value is None:
        raise BadRequest(f"{name}: give it, or a pool that served enough to tell it", field=name)
    return value


def _deployments(asked: HardwareCreate, model: ModelShape, format_: str) -> list[tuple[str, Deployment]]:
    if asked.engine not in ENGINES:
        raise BadRequest(f"engine: no engine {asked.engine!r}, {nearest(asked.engine, list(ENGINES))}", field="engine")
    if format_ not in FORMATS:
        raise BadRequest(f"weights: no format {format_!r}, {nearest(format_, list(FORMATS))}", field="weights")
    weights = FORMATS[format_]
    cached = kv_bytes(asked.engine, weights) if asked.kv_bits is None else asked.kv_bits // 8
    widths = asked.tensor_parallel or [one for one in WIDTHS if model.heads % one == 0]
    if wrong := [one for one in widths if model.heads % one]:
        why = f"tensor_parallel: {wrong[0]}: wants a divisor of the model's {model.heads} heads"
        raise BadRequest(why, field="tensor_parallel")
    cuts = asked.pipeline_parallel or [1]
    if max(cuts) > model.layers:
        why = f"pipeline_parallel: {max(cuts)}: wants a layer a stage at least, and the model has {model.layers}"
        raise BadRequest(why, field="pipeline_parallel")
    return [
        (name, Deployment(model, accelerator(name), weights, asked.engine, ranks, cached, stages))
        for name in dict.fromkeys(asked.accelerators or ACCELERATORS)
        for ranks in dict.fromkeys(widths)
        for stages in dict.fromkeys(cuts)
    ]


@dataclass(frozen=True)
class _Place:
    """A deployment as it is forecast: with the factors of its kind of model, and what own points say of them."""

    deployment: Deployment
    points: Sequence[MeasuredPoint]

    def tpot_s(self, load: Load, *, gaps_filled: bool = False) -> float:
        return self._between * self._pace.tpot_s(self.deployment, load, gaps_filled=gaps_filled)

    def prompt_s(self, load: Load) -> float:
        """Of the step that computes it."""
        return self._between * self._pace.prompt_s(self.deployment, load)

    def first_token_s(self, load: Load, per_s: float | None) -> float:
        """per_s: requests a second that come at random; None: one comes when one ends, and meets none that waits."""
        alone_s = self._first.alone_s(self._pace, self.deployment, load)
        step_s = self._first.prompt * self._pace.prompt_s(self.deployment, load)
        waits_s = 0.0 if per_s is None else waiting_s(self._beside * step_s, per_s)
        return self._beside * alone_s + waits_s

    def error(self, name: str) -> NineOfTen:
        """What own points make better was not measured of pipelines."""
        is_pipeline = self.deployment.stages > 1
        points = () if is_pipeline else self.points
        first = sum(point.ttft_ms is not None for point in points)
        is_seen = name in SEEN and not is_pipeline
        other_size = is_other_size(self.deployment.shape)
        engine = self.deployment.engine
        return nine_of_ten(is_seen, self._has_experts, engine, len(points), first, other_size=other_size)

    @property
    def _has_experts(self) -> bool:
        return self.deployment.shape.experts > 0

    @property
    def _pace(self) -> Pace:
        return EXPERTS_PACE if self._has_experts else PACE

    @property
    def _first(self) -> FirstToken:
        return EXPERTS_FIRST_TOKEN if self._has_experts else FIRST_TOKEN

    @cached_property
    def _between(self) -> float:
        return calibration(
            [point.tpot_ms / 1e3 / self._pace.tpot_s(self.deployment, _load_of(point)) for point in self.points]
        )

    @cached_property
    def _beside(self) -> float:
        """As `_between`, of first tokens."""
        return calibration(
            [
                point.ttft_ms / 1e3 / self._first.alone_s(self._pace, self.deployment, _load_of(point))
                for point in self.points
                if point.ttft_ms is not None
            ]
        )


def _load_of(point: MeasuredPoint) -> Load:
    return Load(point.prompt, point.output, point.concurrency)


def _row(name: str, deployment: Deployment, wanted: _Wanted) -> HardwareRow:
    load = wanted.load
    place = _Place(deployment, wanted.points.get((name, deployment.ranks, deployment.stages), ()))
    error = place.error(name)
    at_once = max(0.0, room(deployment, load))
    row = HardwareRow(
        accelerator=name,
        tensor_parallel=deployment.ranks,
        pipeline_parallel=deployment.stages,
        weight_bytes=round(deployment.weight_bytes),
        kv_bytes_per_token=deployment.kv_bytes_per_token,
        room=at_once,
        known_as=_known_as(name, deployment, len(place.points)),
        forecast_class=_class_of(name, deployment, len(place.points)),
        error=error.between,
        notes=_notes(deployment, at_once),
    )
    if at_once < 1:
        return row
    one = Replica(
        lambda running: place.tpot_s(replace(load, concurrency=max(1.0, running))),
        place.prompt_s(load),
        load.output,
        at_once,
    )
    found = _under_way(one, wanted, error)
    if found is None:
        row.notes.append("not one request keeps the limit, as far as is known")
        return row
    waits = (wanted.concurrency or 0.0) - at_once
    if waits > 0:
        row.notes.append(f"{waits:.0f} of {wanted.concurrency:.0f} requests wait for memory")
    row.replicas, row.running, row.tpot_s = found.replicas, found.running, one.tpot_s(found.running)
    filled_s = place.tpot_s(replace(load, concurrency=max(1.0, found.running)), gaps_filled=True)
    row.low_s, row.high_s = _low(filled_s, error.between), _high(row.tpot_s, error.between)
    row.tokens_per_s = found.replicas * one.requests_per_s(found.running) * load.output
    row.device_s_per_1000 = 1000 * found.replicas * deployment.devices / row.tokens_per_s
    per_s = None if wanted.rate is None else wanted.rate / found.replicas
    first_s = place.first_token_s(load, per_s)
    if waits <= 0 and math.isfinite(first_s):
        row.first_token_s = first_s
        row.first_token_low_s, row.first_token_high_s = _low(first_s, error.first), _high(first_s, error.first)
    if name in wanted.prices:
        row.cost_per_hour = wanted.prices[name] * found.replicas * deployment.devices
        row.cost_per_million = row.cost_per_hour / 3600 / row.tokens_per_s * 1e6
    return row


def _under_way(one: Replica, wanted: _Wanted, error: NineOfTen) -> Carried | None:
    if wanted.rate is None:
        return Carried(1, min(wanted.load.concurrency, one.room))
    return carried(one, wanted.rate, wanted.limit_s * (1 - error.between))


def _low(value_s: float, error: float) -> float:
    """What the measured is not below, if forecast / measured is within 1 - error and 1 + error."""
    return value_s / (1 + error)


def _high(value_s: float, error: float) -> float | None:
    """What it is not above; None: nothing says how slow it may be."""
    return value_s / (1 - error) if error < 1 else None


def _known_as(name: str, deployment: Deployment, points: int) -> str:
    if points:
        return f"calibrated by {points} point{'s' if points > 1 else ''}"
    if deployment.stages > 1:
        return A_PIPELINE
    if is_other_size(deployment.shape):
        return OTHER_SIZE
    return "seen" if name in SEEN else "elsewhere"


def _class_of(name: str, deployment: Deployment, points: int) -> ForecastClass:
    shape = deployment.shape
    near = points >= FEWEST_POINTS or (name in SEEN and not shape.experts and not is_other_size(shape))
    return ForecastClass.CALIBRATED if near and deployment.stages == 1 else ForecastClass.EXTRAPOLATED


def _notes(deployment: Deployment, at_once: float) -> list[str]:
    if deployment.cache_bytes <= 0:
        return ["the weights do not fit"]
    if at_once < 1:
        return ["no request of that length fits"]
    if deployment.shape.kv_lora_rank and deployment.ranks > 1:
        return ["each accelerator caches the latents of all heads"]
    if deployment.ranks > deployment.shape.kv_heads:
        return [f"{deployment.shape.kv_heads} KV heads are copied to {deployment.ranks} accelerators"]
    return []
