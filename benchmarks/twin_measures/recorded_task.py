"""What the service would hand to the twin of a pool of one node, of which a recorded engine told what it served."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import zip_longest

from benchmarks.twin_measures.recorded_engine import RequestTold, Served, StepTold
from controlplane.contract import metrics
from controlplane.contract.bodies.workload import RequestRecord, Workload
from controlplane.contract.knobs import EngineConfig
from controlplane.contract.planning.whatif import StepWindow, TwinTask, WhatIfCreate

START = datetime(2026, 11, 24, tzinfo=UTC)
NODE, POOL = "gpu-1", "chat"


def task_of(served: Served, trace: Workload, config: EngineConfig, width_s: float) -> TwinTask:
    """config: what it ran; width_s: of a window of telemetry."""
    last_s = max(one.last_s for one in served.told_requests)
    end = START + timedelta(seconds=last_s)
    workload = trace.model_copy(update={"start": START, "end": end, "pool": POOL, "nodes": 1})
    return TwinTask(
        asked=WhatIfCreate(pool=POOL),
        config=config,
        revision=1,
        workload=workload,
        records=[_record(str(number), one) for number, one in enumerate(served.told_requests)],
        windows=_windows(served.told_steps, width_s),
        drafted_at=_by_place([one.drafted_at for one in served.told_steps]),
        accepted_at=_by_place([one.accepted_at for one in served.told_steps]),
    )


def _record(name: str, told: RequestTold) -> RequestRecord:
    parts = {
        metrics.QUEUE.short: told.scheduled_s - told.arrived_s,
        metrics.PREFILL.short: told.first_s - told.scheduled_s,
        metrics.DECODE.short: told.last_s - told.first_s,
        metrics.TTFT.short: told.first_s - told.arrived_s,
        metrics.E2E.short: told.last_s - told.arrived_s,
    }
    if told.output_tokens > 1:
        parts[metrics.TPOT.short] = parts[metrics.DECODE.short] / (told.output_tokens - 1)
    return RequestRecord(
        node=NODE,
        pool=POOL,
        model="m",
        revision=1,
        request_id=name,
        arrival=START + timedelta(seconds=told.arrived_s),
        prompt_tokens=told.prompt_tokens,
        cached_tokens=told.cached_tokens,
        output_tokens=told.output_tokens,
        finish_reason="length",
        parts=parts,
    )


def _windows(steps: Sequence[StepTold], width_s: float) -> list[StepWindow]:
    found: dict[int, list[StepTold]] = {}
    for one in steps:
        found.setdefault(int(one.ended_s // width_s), []).append(one)
    return [
        StepWindow(
            node=NODE,
            start_s=START.timestamp() + number * width_s,
            width_s=width_s,
            steps=len(inside),
            seconds=sum(one.took_s for one in inside),
            drafted=sum(one.drafted for one in inside),
            accepted=sum(one.accepted for one in inside),
            deliveries=sum(one.deliveries for one in inside),
            kv_usage=inside[-1].kv_usage,
        )
        for number, inside in sorted(found.items())
    ]


def _by_place(steps: Sequence[Sequence[int]]) -> list[float]:
    return [float(sum(column)) for column in zip_longest(*steps, fillvalue=0)]
