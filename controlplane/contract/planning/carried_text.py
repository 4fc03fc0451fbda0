"""The largest load within limits as people read it: the same words on a page, in a terminal and in a verdict. Pure."""

from collections.abc import Sequence

from controlplane.contract.bodies.slo import Limit
from controlplane.contract.duration_text import duration_text
from controlplane.contract.planning.measurement import Carries


def carried_text(found: Carries) -> str:
    """ "2.4 times the captured load (2.1 to 2.7)"."""
    if not found.load:
        return "less than the least load that was tried"
    to = "or more" if found.high is None else f"to {found.high:.3g}"
    return f"{'at least ' if found.at_least else ''}{found.load:.3g} times the captured load ({found.low:.3g} {to})"


def limits_text(limits: Sequence[Limit]) -> str:
    """ "ttft p95 <= 500 ms, itl p99 <= 200 ms"."""
    return ", ".join(f"{one.metric} p{100 * one.q:g} <= {duration_text(one.limit_s)}" for one in limits)
