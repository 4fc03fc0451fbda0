"""What a study's plan is made of: two slices of the traffic, what earlier studies have found, what the pool's twin
forecasts, and how many draft tokens production accepts."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any

import httpx

from controlplane.client import Client
from controlplane.contract.bodies.nodes import NodeRole
from controlplane.contract.bodies.studies import Study, StudyState, Trial
from controlplane.contract.bodies.workload import Workload
from controlplane.contract.errors import TailwrightError
from controlplane.contract.knobs import NUM_SPECULATIVE_TOKENS
from controlplane.contract.metrics import ACCEPTED_TOKENS, DRAFT_TOKENS, WINDOW_S, Metric
from controlplane.contract.planning.draft_acceptance import (
    DraftAcceptance,
    DraftCounts,
    compared,
    counts_in_production,
)
from controlplane.contract.planning.traffic_mix import mix_of, packed_mix
from controlplane.contract.planning.trial_leases import LONGEST_WHY, ForecastAhead, StudyPlan
from tuner.search.space import Space
from tuner.search.well_spread import well_spread
from tuner.study.earlier_studies import remembered
from tuner.study.study_plan import plan_of
from tuner.twin.studies.twin_ahead import MOST_AHEAD, question_ahead, told_ahead, why_none_ahead
from tuner.workload.capture import slice_for_node, unprimed
from tuner.workload.own_prompts import told_of

logger = logging.getLogger(__name__)
EARLIER = 200
"""So many studies are looked through for what was found before."""
IN_PRODUCTION = "drafts_in_production"
"""Where a study's summary tells that."""
_WINDOWS = 60


def study_planned(
    client: Client,
    study: Study,
    captured: Workload,
    default: dict[str, Any],
    engine: dict[str, Any],
    *,
    span_s: float,
    max_total: int | None,
    end: datetime,
) -> StudyPlan:
    """Two slices of the traffic, of fewer requests where the service could not keep so many."""
    spec, requests = study.spec, study.spec.trial_requests
    mix, drafts = packed_mix(mix_of(captured)), drafts_in_production(client, spec.pool, end, spec.workload_s)
    prompts = told_of(client, spec) if spec.prompts else None
    while True:
        cut = partial(slice_for_node, captured, span_s=span_s, requests=requests, max_total=max_total, load=spec.load)
        seen = cut()
        fresh = cut(apart_from=seen)
        if prompts:
            seen, fresh = unprimed(seen), unprimed(fresh)
            seen.summary["prompts"] = prompts
        if drafts is not None:
            seen.summary[IN_PRODUCTION] = drafts.model_dump()
        found = remembered(_earlier(client), study, engine, seen.summary)
        plan = plan_of(default, seen, fresh, engine, serving=captured.nodes, remembered=found, mix=mix)
        if plan is not None:
            return plan
        requests //= 2
        logger.warning("study %d: its traffic is too long to be kept, %d requests", study.id, requests)


def with_forecasts(client: Client, study: Study, plan: StudyPlan, space: Space) -> StudyPlan:
    """The same with what the pool's twin forecasts, or why it has told nothing: a study can do without."""
    why, found = why_none_ahead(study, list(space.values), str(plan.engine.get("backend", ""))), list[ForecastAhead]()
    if not why:
        asked = well_spread(space, plan.default, MOST_AHEAD)
        try:
            answer = client.what_if(question_ahead(study, asked, plan.serving))
            found = told_ahead(plan.default, asked, answer.others)
        except (TailwrightError, httpx.HTTPError) as error:
            why = error.message if isinstance(error, TailwrightError) else str(error)
            logger.warning("study %d: begins without forecasts: %s", study.id, why)
    return plan.model_copy(update={"forecasts": found, "why_no_forecasts": why[:LONGEST_WHY]})


def _earlier(client: Client) -> list[Study]:
    """The newest studies that have finished."""
    return list(islice(client.every(Study, "/api/v1/studies", state=StudyState.FINISHED.value), EARLIER))


def drafts_in_production(client: Client, pool: str, end: datetime, span_s: float) -> DraftCounts | None:
    """What the pool's serving nodes told in the `span_s` seconds before `end`; None where that is too little."""
    start, step_s = end - timedelta(seconds=span_s), max(1, math.ceil(span_s / _WINDOWS / WINDOW_S)) * WINDOW_S

    def totals(metric: Metric) -> dict[datetime, float]:
        found = client.scalars(
            metric.short, start=start, end=end, step=f"{step_s:g}s", pool=pool, role=NodeRole.SERVING.value
        )
        return {point.time: point.value for series in found.series for point in series.points or ()}

    drafted, accepted = totals(DRAFT_TOKENS), totals(ACCEPTED_TOKENS)
    return counts_in_production([(value, accepted.get(at, 0.0)) for at, value in drafted.items()])


def drafts_of(knobs: Mapping[str, Any]) -> Any:
    """How a configuration drafts."""
    return knobs.get(NUM_SPECULATIVE_TOKENS)


def acceptance_of_runs(production: Any, trials: Sequence[Trial], default: Any) -> DraftAcceptance | None:
    """Of the runs that drafted as the default does. production: as a plan keeps it; None: too little was told."""
    if production is None:
        return None
    measured = [one.measurement for one in trials if one.measurement is not None and drafts_of(one.knobs) == default]
    runs = [(one.drafted or 0, one.accepted or 0) for one in measured]
    return compared(DraftCounts.model_validate(production), runs)
