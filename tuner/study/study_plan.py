"""What all runs of a study have in common, as the service keeps it: traffic, default, engine. Pure."""

from __future__ import annotations

from typing import Any

from controlplane.contract.bodies.nodes import NodeView
from controlplane.contract.planning.trial_leases import Remembered, StudyPlan, StudySlice
from tuner.workload.capture import Slice

FRESH_TOLD = ("slice", "slice_start_s", "primed", "compressed", "apart")
"""What is told of the slice that the finish replays."""


def plan_of(
    default: dict[str, Any],
    seen: Slice,
    fresh: Slice,
    engine: dict[str, Any],
    *,
    serving: int,
    remembered: list[Remembered],
) -> StudyPlan:
    """`serving`: nodes whose traffic was captured."""
    told = {name: fresh.summary[name] for name in FRESH_TOLD}
    return StudyPlan(
        default=default,
        seen=StudySlice(workload=seen.workload, prime=seen.prime, summary=seen.summary),
        fresh=StudySlice(workload=fresh.workload, prime=fresh.prime, summary=told),
        serving=max(1, serving),
        engine=engine,
        remembered=remembered,
    )


def slice_of(kept: StudySlice) -> Slice:
    """As it was captured."""
    return Slice(kept.workload, kept.prime, dict(kept.summary))


def engine_of(view: NodeView) -> dict[str, Any]:
    """What two trial nodes must have in common for their figures to be compared, as their agents tell it."""
    effective = view.effective
    return {
        "backend": view.backend,
        "model": view.model,
        "version": view.engine_version,
        "formats": sorted(effective.formats) if effective else [],
        "limits": dict(sorted(effective.limits.items())) if effective else {},
    }
