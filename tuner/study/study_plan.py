"""What all runs of a study have in common, as the service keeps it: traffic, default, engine. Pure.

Traffic is packed: block hashes become small numbers, told as differences, and the whole is compressed. That keeps who
shares a prefix with whom, which is all that a replay makes of them.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from typing import Any

from controlplane.contract.bodies.nodes import NodeView
from controlplane.contract.bodies.workload import Workload, WorkloadRequest
from controlplane.contract.planning.trial_leases import LONGEST_TRAFFIC, Remembered, StudyPlan
from tuner.workload.capture import Slice

FRESH_TOLD = ("slice", "slice_start_s", "primed", "compressed", "apart")
"""What is told of the slice that the finish replays."""
_LARGEST_BYTES = 2**28


def plan_of(
    default: dict[str, Any],
    seen: Slice,
    fresh: Slice,
    engine: dict[str, Any],
    *,
    serving: int,
    remembered: list[Remembered],
) -> StudyPlan | None:
    """`serving`: nodes whose traffic was captured. None: the traffic is too long to be kept."""
    traffic = packed([seen.workload, seen.prime, fresh.workload, fresh.prime])
    if len(traffic) > LONGEST_TRAFFIC:
        return None
    return StudyPlan(
        default=default,
        traffic=traffic,
        seen=seen.summary,
        fresh={name: fresh.summary[name] for name in FRESH_TOLD},
        serving=max(1, serving),
        engine=engine,
        remembered=remembered,
    )


def slices_of(plan: StudyPlan) -> tuple[Slice, Slice]:
    """What the search replays, and what finalists alone do."""
    seen, seen_prime, fresh, fresh_prime = unpacked(plan.traffic)
    return Slice(seen, seen_prime, dict(plan.seen)), Slice(fresh, fresh_prime, dict(plan.fresh))


def packed(workloads: Sequence[Workload]) -> str:
    """Base64 of compressed JSON. Equal blocks have equal numbers in all of them."""
    numbers: dict[int, int] = {}
    told = []
    for workload in workloads:
        rows = []
        for one in workload.requests:
            ids = [numbers.setdefault(identity, len(numbers)) for identity in one.hash_ids]
            steps = [after - before for before, after in zip([0, *ids], ids, strict=False)]
            rows.append([one.timestamp, one.input_length, one.output_length, steps])
        told.append({"about": workload.model_dump(mode="json", exclude={"requests"}), "requests": rows})
    return base64.b64encode(zlib.compress(json.dumps(told, separators=(",", ":")).encode(), 9)).decode()


def unpacked(text: str) -> list[Workload]:
    """Raises ValueError for what was not packed so."""
    unpacking = zlib.decompressobj()
    try:
        told = json.loads(unpacking.decompress(base64.b64decode(text, validate=True), _LARGEST_BYTES))
    except zlib.error as error:
        raise ValueError(f"traffic: {error}") from error
    found = []
    for one in told:
        requests = []
        for timestamp, input_length, output_length, steps in one["requests"]:
            ids, last = [], 0
            for step in steps:
                last += step
                ids.append(last)
            requests.append(
                WorkloadRequest(
                    timestamp=timestamp, input_length=input_length, output_length=output_length, hash_ids=ids
                )
            )
        found.append(Workload.model_validate({**one["about"], "requests": requests}))
    return found


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
