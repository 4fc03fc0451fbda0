"""The twin of a pool that runs vLLM beside a real vLLM: the product's own forecast of configurations not seen.

A real vLLM (`tuner_measures.stepped_vllm`) serves the traffic under one configuration, over a clock that its own steps
move; what the plugin tells of it is made into what the service would know (requests' waterfalls, steps a window), and
`tuner.twin` forecasts the same traffic under others, which vLLM then serves. Told as in `against_engine`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from agents.backends.vllm.doctor.installation import default_executable
from benchmarks.tuner_measures.stepped_vllm import SteppedVllm
from benchmarks.twin_measures.against_engine import CALIBRATION, WANTED, Compared, arrivals_of, trace_of
from controlplane.contract.bodies.workload import RequestRecord, Workload
from controlplane.contract.knobs import EngineConfig, parse_config
from controlplane.contract.planning.whatif import StepWindow, TwinTask, WhatIfCreate, span_of
from controlplane.whatif.busy_time import busy_s
from tuner.twin.forecast import WARM_UP, forecast
from tuner.twin.vllm_twin import vllm_planner

OTHERS: Sequence[EngineConfig] = [
    parse_config({"max_num_batched_tokens": tokens, "max_num_seqs": seqs, "prefill_chunk_size": chunk})
    for tokens, seqs, chunk in ((64, 16, 0), (128, 8, 0), (256, 4, 0), (1024, 16, 0), (512, 16, 128), (1024, 2, 0))
]
"""Within what the server was started with."""
START = datetime(2026, 11, 24, tzinfo=UTC)
WIDTH_S = 0.5
PARTS = ("receive", "tokenize", "queue", "prefill", "decode", "send", "ttft", "e2e", "tpot")


def compare(model: Path, folder: Path, requests: int, rate: float, seed: int, rounds: int) -> Iterator[list[Compared]]:
    """Of each round; each serves the calibration anew."""
    trace = trace_of(seed, requests, rate)
    python = default_executable().absolute().with_name("python")
    with SteppedVllm(model, folder) as engine, vllm_planner(python) as planner:
        for _ in range(rounds):
            known = engine.events(arrivals_of(trace), CALIBRATION)
            found = []
            for config in OTHERS:
                measured = _figures(engine.events(arrivals_of(trace), config), trace)
                knobs = {name: value for name, value in config.knobs().items() if value != CALIBRATION.knobs()[name]}
                answer = forecast(task_of_vllm(known, trace, CALIBRATION, knobs), planner)
                told = answer.changed.quantiles
                quantiles = {name: (told[name].value_s, told[name].low_s, told[name].high_s) for name, *_ in WANTED}
                found.append(Compared(config, measured, quantiles))
            yield found


def task_of_vllm(
    events: Sequence[dict[str, Any]], trace: Workload, config: EngineConfig, knobs: Mapping[str, Any]
) -> TwinTask:
    """What the service would hand over of a pool that runs `config`, had it been asked for `knobs`."""
    records = [_record(one) for one in events if one["kind"] == "finished"]
    asked = WhatIfCreate.model_validate({"pool": "chat", "knobs": dict(knobs)})
    end = max(one.arrival + timedelta(seconds=one.parts["e2e"]) for one in records)
    workload = trace.model_copy(update={"start": START, "end": end, "pool": "chat", "nodes": 1})
    return TwinTask(
        asked=asked,
        engine="vllm",
        config=config,
        revision=1,
        workload=workload,
        records=records,
        windows=_windows(events, records),
    )


def _record(event: dict[str, Any]) -> RequestRecord:
    return RequestRecord(
        node="gpu-1",
        pool="chat",
        model="m",
        revision=1,
        request_id=event["request_id"],
        arrival=START + timedelta(seconds=event["arrival"]),
        prompt_tokens=event["prompt_tokens"],
        cached_tokens=event["cached_tokens"],
        output_tokens=event["output_tokens"],
        finish_reason="length",
        parts={name: event[name] for name in PARTS if event.get(name) is not None},
    )


def _windows(events: Sequence[dict[str, Any]], records: Sequence[RequestRecord]) -> list[StepWindow]:
    steps: dict[int, list[dict[str, Any]]] = {}
    for event in events:
        if event["kind"] == "step":
            steps.setdefault(int(event["time"] // WIDTH_S), []).append(event)
    deliveries = Counter[int]()
    for event in events:
        if event["kind"] == "gaps":
            deliveries[int(event["time"] // WIDTH_S)] += len(event["gaps"])
    begin_s = START.timestamp()
    computed_s = busy_s(map(span_of, records), WIDTH_S)
    found = []
    for number, inside in sorted(steps.items()):
        start_s = begin_s + number * WIDTH_S
        found.append(
            StepWindow(
                node="gpu-1",
                start_s=start_s,
                width_s=WIDTH_S,
                steps=len(inside),
                seconds=computed_s.get(round(start_s / WIDTH_S), 0.0),
                drafted=sum(one["draft_tokens"] for one in inside),
                accepted=sum(one["accepted_tokens"] for one in inside),
                deliveries=deliveries[number],
                kv_usage=inside[-1]["kv_usage"],
            )
        )
    return found


def _figures(events: Sequence[dict[str, Any]], trace: Workload) -> dict[str, float]:
    """Of what a forecast scores: not the first requests."""
    since_s = WARM_UP * trace.requests[-1].timestamp / 1000.0
    late = [one for one in events if one["kind"] == "finished" and one["arrival"] >= since_s]
    return {
        name: float(np.quantile([one[metric] for one in late if one[metric] is not None], q))
        for name, metric, q in WANTED
    }
