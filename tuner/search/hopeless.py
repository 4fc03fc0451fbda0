"""What a trial has to come to for the search to have a use for it. Pure."""

from collections.abc import Sequence

from controlplane.contract.bodies.slo import Limit
from controlplane.contract.bodies.studies import StudyCreate
from tuner.replay.lost_cause import WATCHED, Bound
from tuner.search.search import Outcome

SLOWER = 1.5
"""Times the incumbent's objective: what is slower than that is no winner, however noisy the run was."""
BROKEN = 2.0
"""Times a limit: what breaks it by that much keeps it in no other run."""


def broken(limits: Sequence[Limit]) -> list[Bound]:
    """What breaks one of these limits by so much that its exact figure is not wanted."""
    return [Bound(limit.metric, limit.q, BROKEN * limit.limit_s) for limit in limits if limit.metric in WATCHED]


def bounds_of(spec: StudyCreate, incumbent: Outcome | None) -> list[Bound]:
    """A trial that will be above one of them has told all that is wanted of it. incumbent: the best so far; it counts
    where it keeps the limits, for without such a one what is slow and keeps them is the best. With several objectives
    what is slow in one may be the best in another: only limits bind then."""
    found = broken(spec.held)
    if spec.also:
        return found
    best = None if incumbent is None else incumbent.assessment
    if best is not None and best.feasible and best.objective_s is not None and spec.objective in WATCHED:
        found.append(Bound(spec.objective, spec.objective_q, SLOWER * best.objective_s))
    return found
