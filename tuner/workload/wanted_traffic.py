"""The traffic that a study names, as if its pool had served it: captured, a kept workload, or a profile.

Guarantee: a profile is the same at each asking with the same seed; it is scaled to what the trial node takes before it
is cut, so that its lengths differ as much as before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime

from controlplane.client import Client
from controlplane.contract.bodies.nodes import NodeRole
from controlplane.contract.bodies.studies import StudyCreate
from controlplane.contract.bodies.workload import Workload
from controlplane.contract.planning.replayed_traffic_name import TrafficProfile, profile_of
from tuner.workload.capture import capture
from tuner.workload.generate import SHAPES, fitted, generate

SLICES = 4
"""A profile has so many trials' requests a node at least: two slices that differ, and some to choose them from."""
MOST_REQUESTS = 20_000

TrafficFor = Callable[[int | None], Workload]
"""Given how many tokens a request may have on the trial node; None: any number."""


def wanted_traffic(client: Client, spec: StudyCreate, *, end: datetime) -> TrafficFor:
    """Raises `NotFound` where there is no such workload, or too little was served."""
    profile = profile_of(spec.workload)
    if profile is None and not spec.workload:
        captured = capture(client, spec.pool, end=end, span_s=spec.workload_s)
        return lambda _: captured
    views = client.nodes()
    nodes = max(1, sum(view.pool == spec.pool and view.role is NodeRole.SERVING for view in views))
    if profile is not None:
        return lambda max_total: profile_traffic(profile, spec, nodes=nodes, max_total=max_total)
    kept = client.kept_traffic(spec.workload)
    shared = kept.model_copy(update={"pool": spec.pool, "nodes": nodes})
    return lambda _: shared


def profile_traffic(profile: TrafficProfile, spec: StudyCreate, *, nodes: int, max_total: int | None) -> Workload:
    """What the pool would serve in `workload_s`, or more where its nodes' slices want more."""
    shape = SHAPES[profile.shape]
    longest = shape.max_input + shape.max_output
    if max_total is not None and max_total < longest:
        scale = max_total / longest
        shape = fitted(
            shape,
            max_input=max(shape.min_input, math.floor(shape.max_input * scale)),
            max_output=max(shape.min_output, math.floor(shape.max_output * scale)),
        )
    wanted = max(math.ceil(profile.rate_per_s * spec.workload_s), SLICES * spec.trial_requests * nodes)
    requests = min(wanted, MOST_REQUESTS)
    made = generate(shape, seed=spec.seed, rate_per_s=profile.rate_per_s, requests=requests, pool=spec.pool)
    return made.model_copy(update={"nodes": nodes})
