"""What a study replays, as it is named: what the pool served, a workload that is kept, or a profile at a rate. Pure.

A kept workload's name has no colon, so no name means two things.
"""

import math
import re
from dataclasses import dataclass

from controlplane.contract.errors import BadRequest, nearest

TRAFFIC_PROFILES = ("chat", "rag", "code", "agents")
"""Synthetic traffics; `tuner/workload/generate.py` says what each is like."""
LEAST_RATE, MOST_RATE = 0.01, 1000.0
_PREFIX = "profile:"
_PROFILE = re.compile(r"([^@]*)(?:@(.*))?")


@dataclass(frozen=True)
class TrafficProfile:
    """Synthetic traffic of a shape. rate_per_s: requests a second of the whole pool."""

    shape: str
    rate_per_s: float


def profile_of(name: str) -> TrafficProfile | None:
    """Of `profile:chat@4`; None for what is no profile. Raises `BadRequest` for a wrong one."""
    if not name.startswith(_PREFIX):
        return None
    found = _PROFILE.fullmatch(name.removeprefix(_PREFIX))
    assert found is not None
    shape, rate = found[1], found[2]
    if shape not in TRAFFIC_PROFILES:
        raise BadRequest(f"workload: no profile {shape!r}, {nearest(shape, list(TRAFFIC_PROFILES))}", field="workload")
    try:
        rate_per_s = float(rate or "nan")
    except ValueError:
        rate_per_s = math.nan
    if not LEAST_RATE <= rate_per_s <= MOST_RATE:
        raise BadRequest(
            f"workload: wants requests a second after the profile, {LEAST_RATE:g} to {MOST_RATE:g}, such as "
            f"{_PREFIX}{shape}@4; got {name!r}",
            field="workload",
        )
    return TrafficProfile(shape, rate_per_s)


def traffic_words(name: str) -> str:
    """For people: "profile chat at 4 requests a second", "workload friday", "captured of the pool"."""
    profile = profile_of(name)
    if profile is not None:
        return f"profile {profile.shape} at {profile.rate_per_s:g} requests a second"
    return f"workload {name}" if name else "captured of the pool"
