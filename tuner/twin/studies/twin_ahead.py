"""What a study's search is told before anything was measured: which forecasts are asked of the pool's twin, and what
they say of each configuration beside the default. Pure.

Only where it was found to help: of pools that run vLLM, whose configurations differ by much and whose own scheduler
plans the twin's steps (decision 142); of the embedded engine a search gained nothing by it (decisions 126, 135).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.contract.bodies.knob_schema import OF_LOADS
from controlplane.contract.bodies.studies import Study
from controlplane.contract.knobs import (
    MAX_NUM_BATCHED_TOKENS,
    MAX_NUM_SEQS,
    NUM_SPECULATIVE_TOKENS,
    PREFILL_CHUNK_SIZE,
)
from controlplane.contract.planning.trial_leases import ForecastAhead
from controlplane.contract.planning.whatif import MOST_MIDDLES, OtherForecast, WhatIfCreate
from tuner.twin.studies.twin_beside import LEAST_S, VLLM

PLANNED = {MAX_NUM_BATCHED_TOKENS, MAX_NUM_SEQS, NUM_SPECULATIVE_TOKENS, PREFILL_CHUNK_SIZE}
"""The knobs that its scheduler plans by."""
MOST_AHEAD = MOST_MIDDLES - 1
"""Configurations beside the default."""
LEAST_STUDY_S = 600.0
"""A shorter study would spend too much of its time on forecasts."""


def why_none_ahead(study: Study, searched: Sequence[str], backend: str) -> str:
    """Why the twin is not asked; empty where it is."""
    spec = study.spec
    if backend != VLLM:
        return "on the embedded engine a search gains nothing by forecasts"
    if spec.workload or spec.prompts:
        return "the traffic is not the pool's own"
    if any(one.objective in OF_LOADS for one in spec.objectives):
        return "one load alone is forecast"
    if unknown := [name for name in searched if name not in PLANNED]:
        return f"the twin knows nothing of {unknown[0]}"
    if spec.max_duration_s < LEAST_STUDY_S:
        return f"a study of less than {LEAST_STUDY_S:g} s has no time for them"
    return ""


def question_ahead(study: Study, asked: Sequence[Mapping[str, Any]], serving: int) -> WhatIfCreate:
    """About the default and each of these configurations, on one of the pool's `serving` nodes under the study's load
    on it."""
    spec = study.spec
    return WhatIfCreate(
        pool=spec.pool,
        window_s=max(LEAST_S, spec.workload_s),
        load=max(0.05, spec.load / serving),
        replicas=1,
        end=study.started_at,
        others=[{}, *({name: knobs[name] for name in PLANNED & knobs.keys()} for knobs in asked)],
        intervals=False,
    )


def told_ahead(
    default: Mapping[str, Any], asked: Sequence[Mapping[str, Any]], told: Sequence[OtherForecast]
) -> list[ForecastAhead]:
    """told: the answers to `question_ahead`, in its order. The default's own ratios are 0; what the twin refuses is
    left out, all of it where that is the default."""
    base = told[0].quantiles if told else {}
    found = []
    for knobs, one in zip((default, *asked), told, strict=True):
        ratios = {
            name: math.log(value.value_s / base[name].value_s) for name, value in one.quantiles.items() if name in base
        }
        if ratios:
            found.append(ForecastAhead(knobs=dict(knobs), ratios=ratios))
    return found
