"""The twin beside a study's runs: what is asked of it, and its forecasts held against what was measured. Pure.

Guarantee: a forecast knows nothing of the study: its twin is fitted to telemetry of serving nodes up to the study's
start.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from controlplane.contract.bodies.knob_schema import OF_LOADS
from controlplane.contract.bodies.studies import Study, StudyCreate, Trial, TrialState, TwinBeside
from controlplane.contract.knobs import canonical_json
from controlplane.contract.planning.whatif import MOST_OTHERS, ForecastClass, OtherForecast, WhatIfCreate

EMBEDDED, VLLM = "embedded", "vllm"
"""Whose schedulers the twin runs; vLLM's plans step by step, so that of its configurations the middle alone is asked
for, whose interval knows the twin's error alone."""
LEAST_S = 30.0
"""Of traffic that it is asked about."""


def question_of(study: Study, trials: Sequence[Trial], backend: str) -> WhatIfCreate | None:
    """About each configuration that was measured whole; None where there is none, or where the study does not replay
    what the twin would serve: the pool's own traffic, at one load. trials: of the search."""
    spec, configurations = study.spec, {canonical_json(one.knobs): one.knobs for one in trials if _is_whole(one)}
    by_loads = any(one.objective in OF_LOADS for one in spec.objectives)
    if not configurations or backend not in (EMBEDDED, VLLM) or spec.workload or by_loads:
        return None
    return WhatIfCreate(
        pool=spec.pool,
        window_s=max(LEAST_S, spec.workload_s),
        load=spec.load,
        end=study.started_at,
        others=list(configurations.values())[:MOST_OTHERS],
        intervals=backend == EMBEDDED,
    )


def held_against(spec: StudyCreate, trials: Sequence[Trial], told: Sequence[OtherForecast]) -> list[TwinBeside]:
    """Of each run that was measured whole the quantiles that the study is about, where the twin tells them."""
    forecasts = {canonical_json(one.knobs): one for one in told}
    return [
        row
        for trial in trials
        if _is_whole(trial) and (forecast := forecasts.get(canonical_json(trial.knobs))) is not None
        for row in _rows(spec, trial, forecast)
    ]


def _is_whole(trial: Trial) -> bool:
    return trial.state is TrialState.COMPLETE and trial.measurement is not None and not trial.ended_early


def _rows(spec: StudyCreate, trial: Trial, forecast: OtherForecast) -> Iterator[TwinBeside]:
    assert trial.measurement is not None
    measured = trial.measurement.quantiles | trial.also_s | {spec.objectives[0].name: trial.objective_s}
    wanted = [one.name for one in spec.objectives] + [f"{one.metric}:{one.q:g}" for one in spec.held]
    for name in dict.fromkeys(wanted):
        told, value_s = forecast.quantiles.get(name), measured.get(name)
        if told is not None and value_s is not None:
            yield TwinBeside(
                number=trial.number,
                name=name,
                value_s=told.value_s,
                low_s=told.low_s,
                high_s=told.high_s,
                measured_s=value_s,
                calibrated=forecast.forecast_class is ForecastClass.CALIBRATED,
                because=forecast.because,
            )
