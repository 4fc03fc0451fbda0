"""Which way a study in production looks first: what bound the pool's steps lately, and what lifts it (pure)."""

from collections.abc import Mapping

from controlplane.contract.knobs import MAX_NUM_SEQS
from controlplane.contract.step_limits import LIFTED_BY, StepLimit
from controlplane.studies.online.walk import Direction

LEAST_SHARE = 0.02
"""Of the steps, that a limit has to have bound."""


def first_ways(limits: Mapping[StepLimit, float]) -> list[Direction]:
    """The way that lifts what bound most steps first. limits: steps by what bound them."""
    steps = sum(limits.values())
    binding = [limit for limit, count in limits.items() if count > LEAST_SHARE * steps]
    found = [_lifts(limit) for limit in sorted(binding, key=lambda limit: (-limits[limit], limit))]
    return [way for way in found if way is not None]


def _lifts(limit: StepLimit) -> Direction | None:
    match limit:
        case StepLimit.NO_WORK:
            return None
        case StepLimit.KV_MEMORY:
            return Direction(MAX_NUM_SEQS, up=False)
        case StepLimit.DRAFTS:
            return Direction(LIFTED_BY[limit], up=False)
        case _:
            return Direction(LIFTED_BY[limit], up=True)
