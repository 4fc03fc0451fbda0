"""What all runs of a study have in common, as the service keeps it: traffic, default, engine. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controlplane.contract.bodies.nodes import NodeView
from controlplane.contract.bodies.workload import LONGEST_TRAFFIC, Workload
from controlplane.contract.planning.packed_traffic import packed, unpacked
from controlplane.contract.planning.trial_leases import Remembered, StudyPlan
from tuner.workload.capture import Slice

FRESH_TOLD = ("slice", "lead_in", "slice_start_s", "primed", "compressed", "apart")
"""What is told of the slice that the finish replays."""


def plan_of(
    default: dict[str, Any],
    seen: Slice,
    fresh: Slice,
    engine: dict[str, Any],
    *,
    serving: int,
    remembered: list[Remembered],
    mix: str = "",
) -> StudyPlan | None:
    """`serving`: nodes whose traffic was captured. `mix`: of it, packed. None: the traffic is too long to be kept."""
    traffic = packed([seen.workload, seen.prime, fresh.workload, fresh.prime])
    if len(traffic) > LONGEST_TRAFFIC:
        return None
    return StudyPlan(
        default=default,
        traffic=traffic,
        mix=mix,
        seen=seen.summary,
        fresh={name: fresh.summary[name] for name in FRESH_TOLD},
        serving=max(1, serving),
        engine=engine,
        remembered=remembered,
    )


def slices_of(plan: StudyPlan) -> tuple[Slice, Slice]:
    """What the search replays, and what finalists alone do."""
    seen, seen_prime, fresh, fresh_prime = unpacked(plan.traffic)
    return _slice(seen, seen_prime, plan.seen), _slice(fresh, fresh_prime, plan.fresh)


def _slice(workload: Workload, prime: Workload, told: Mapping[str, Any]) -> Slice:
    return Slice(workload, prime, dict(told), lead_in=int(told.get("lead_in", 0)))


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
